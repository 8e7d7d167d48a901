"""Campaigns of the lab: work lists, each for one machine.

CI checks models against their recordings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...sim.errors import DriverFault
from ..drivers.memory.cxl_memory import TIERS
from ..drivers.rdma.rdma_control import CALLS
from ..measuring.work_list import WorkList
from ..sample import COLD, Request

SIZES = (64, 1024, 4096, 16384, 65536, 262144, 1 << 20)
COUNTED = (64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 262144, 1 << 20)
STREAMED = (64, 512, 4096, 16384, 65536, 262144)
DEPTHS, PAIRS = (1, 2, 4, 8, 16, 32), (1, 2, 4)
RATES = ("100gbit", "10gbit", "1gbit", "100mbit")
REDUCED = (262144, 1 << 20, 4 << 20, 16 << 20)  # bytes of a bare all-reduce
STEPS = (  # four buckets: with much computing per bucket, little, almost none
    "buckets=4 forward_us=30000 backward_us=15000 update_us=10000",
    "buckets=4 forward_us=10000 backward_us=5000 update_us=2000",
    "buckets=4 forward_us=2000 backward_us=1000 update_us=500",
)
BUSY = 99.0  # cores that others may use: virtual clocks do not see them
Requests = tuple[Request, ...]


@dataclass(frozen=True)
class Campaign:
    """Measuring campaign: a work list, the machine to run it in, and the machine's settings."""

    name: str
    machine: str
    work: WorkList
    settings: Mapping[str, str] = field(default_factory=dict)


def _write_requests(sizes: tuple[int, ...], n: int, op: str = "rdma-write") -> Requests:
    return tuple(Request(f"send:{op} uint8[{size}]", n) for size in sizes)


def _writes_at_rate(rate: str) -> Campaign:
    """Campaign: RDMA writes through a bridge port of the given rate, in virtual time."""
    spec = {"ends": "verbs", "rate": rate, "delay_us": 1.0}
    work = WorkList("switch", _write_requests(SIZES, 5), spec, starts=3, blocks=3, bar=0.03,
                busy=BUSY,
                note="RC writes from rxe1 to rxe2 over a bridge whose ports have rate and delay; "
                     "virtual time")  # fmt: skip
    return Campaign(f"timetravel-{rate}", "uml", work)


def _rates_campaign(rate: str) -> Campaign:
    """Campaign: message rates for all sizes, depths and numbers of queue pairs, in virtual time."""
    spec = {"ends": "verbs", "rate": rate, "delay_us": 1.0, "metric": "message_rate"}
    requests = tuple(
        Request(f"send:rdma-write depth={depth} qps={qps} uint8[{size}]", 1)
        for size in STREAMED
        for depth in DEPTHS
        for qps in PAIRS
    )
    work = WorkList("switch", requests, spec, starts=2, most_starts=2, blocks=1, bar=0.1,
                seconds=1800, busy=BUSY,
                note="ns a message, of writes outstanding by queue pair; virtual time")  # fmt: skip
    return Campaign(f"rates-{rate}", "uml", work)


def _incast_campaign(rate: str) -> Campaign:
    """Campaign: RDMA writes from several devices into one port (incast), in virtual time."""
    spec = {"ends": "verbs", "rate": rate, "delay_us": 1.0, "senders": "rxe1,rxe3,rxe4,rxe5"}
    requests = tuple(
        Request(f"send:rdma-write flows={flows} uint8[{size}]", 3)
        for flows in (1, 2, 4)
        for size in (65536, 1 << 20)
    )
    work = WorkList("switch", requests, spec, starts=3, blocks=3, bar=0.03, busy=BUSY,
                note="writes into the port of rxe2, until the last is complete")  # fmt: skip
    return Campaign(f"incast-{rate}", "uml", work, {"ends": "5"})


def _gloo_campaign(ranks: int, rate: str) -> Campaign:
    """Campaign: gloo all-reduces, alone and overlapped with computing (sleep), in virtual time."""
    spec = {"ranks": ranks, "rate": rate, "delay_us": 5.0}
    few = ranks > 4  # many processes on one core: two sizes and one step
    sizes, steps = (REDUCED[1:3], STEPS[1:2]) if few else (REDUCED, STEPS)
    calls = 2 if ranks == 2 else 5  # more than two now and then lose a tick of the scheduler
    bare = tuple(Request(f"collective:all-reduce fp32[{n // 4}]", calls) for n in sizes)
    requests = bare + tuple(
        Request(f"collective:step {step} fp32[1048576]", calls) for step in steps
    )
    note = f"gloo between {ranks} ranks on one bridge; virtual time"
    work = WorkList("collective", requests, spec, starts=5, most_starts=5, blocks=1, bar=0.1,
                seconds=1800, busy=BUSY, note=note)  # fmt: skip
    return Campaign(f"gloo-{ranks}x{rate}", "uml", work)


def _verbs_campaign() -> Campaign:
    """Campaign: RDMA writes and reads between two devices, warm and on first use."""
    fresh = tuple(Request(f"send:rdma-write uint8[{n}]", 3, COLD) for n in (64, 4096, 65536))
    requests = _write_requests(COUNTED, 5) + _write_requests(COUNTED, 5, "rdma-read") + fresh
    work = WorkList("verbs", requests, starts=3, blocks=3, bar=0.05, seconds=900, busy=BUSY,
                note="RC between rxe1 and rxe2; a nanosecond is an instruction")  # fmt: skip
    return Campaign("icount-verbs", "qemu", work)


def _control_path_campaign() -> Campaign:
    """Campaign: each call of the RDMA control path; memory registration at several sizes."""
    sizes = {"reg-mr": (4096, 65536, 1 << 20)}
    requests = tuple(
        Request(f"host:verbs-{call} uint8[{size}]", 3)
        for call in CALLS
        if call != "reg-gpu"  # there is none in the guest
        for size in sizes.get(call, (64,))
    )
    work = WorkList("verbs", requests, starts=3, blocks=3, bar=0.1, seconds=900, busy=BUSY,
                note="the calls that set RDMA up, one by one")  # fmt: skip
    return Campaign("icount-verbs-control", "qemu", work)


def _cxl_campaign() -> Campaign:
    """Campaign: page placement and migration on an emulated CXL expander."""
    moves = tuple(
        Request(f"copy:{way} uint8[{pages * 4096}]", 2)
        for way in ("h2c", "c2h")
        for pages in (1, 4, 16, 64, 128, 256)
    )
    placed = tuple(Request(f"host:memory-place tier={t} uint8[4194304]", 2) for t in TIERS)
    note = "placement and migration path; access times mean nothing"
    work = WorkList("cxl", moves + placed, starts=2, most_starts=2, blocks=1, bar=0.1, seconds=1800,
                busy=BUSY, note=note)  # fmt: skip
    return Campaign("icount-cxl", "qemu", work, {"cxl": "1"})


CAMPAIGNS = (
    *map(_writes_at_rate, RATES),
    *map(_incast_campaign, ("10gbit", "1gbit")),
    _rates_campaign("10gbit"),
    *(_gloo_campaign(ranks, "10gbit") for ranks in (2, 4, 8)),
    _verbs_campaign(),
    _control_path_campaign(),
    _cxl_campaign(),
)
ALL: dict[str, Campaign] = {campaign.name: campaign for campaign in CAMPAIGNS}


def select_campaigns(names: Sequence[str]) -> list[Campaign]:
    """Campaigns with these names; all campaigns if no name is given.

    >>> [campaign.name for campaign in select_campaigns(["icount-cxl"])]
    ['icount-cxl']
    """
    for name in names:
        if name not in ALL:
            raise DriverFault("missing", f"no work list {name!r}; there are: {', '.join(ALL)}")
    return [ALL[name] for name in names or ALL]
