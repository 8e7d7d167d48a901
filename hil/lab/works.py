"""What the lab measures: work lists, each for one machine; their recordings are what CI scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..sample import Request
from ..work import Work

SIZES = (64, 1024, 4096, 16384, 65536, 262144, 1 << 20)
RATES = ("100gbit", "10gbit", "1gbit", "100mbit")
BUSY = 99.0  # cores that others may use: virtual clocks do not see them
Asked = tuple[Request, ...]


@dataclass(frozen=True)
class Planned:
    """One work list and its machine."""

    name: str
    machine: str
    work: Work
    settings: Mapping[str, str] = field(default_factory=dict)


def _writes(sizes: tuple[int, ...], n: int, op: str = "rdma-write") -> Asked:
    return tuple(Request(f"send:{op} uint8[{size}]", n) for size in sizes)


def _across(rate: str) -> Planned:
    """Writes through a port of that rate, in virtual time."""
    spec = {"ends": "verbs", "rate": rate, "delay_us": 1.0}
    work = Work("switch", _writes(SIZES, 5), spec, starts=3, blocks=3, bar=0.03, busy=BUSY,
                note="RC writes from rxe1 to rxe2 over a bridge whose ports have rate and delay; "
                     "virtual time")  # fmt: skip
    return Planned(f"timetravel-{rate}", "uml", work)


ALL: dict[str, Planned] = {p.name: p for p in map(_across, RATES)}
