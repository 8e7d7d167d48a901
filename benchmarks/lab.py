"""Models against what the lab's real drivers did, from the committed recordings.

Usage: python benchmarks/lab.py

Blind numbers use nothing but packet formats and the settings of the bridge's ports; calibrated
ones a constant or two from part of the recordings, and are scored on the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from foretrace.hil.lab.record import KEPT, kept
from foretrace.hil.recording import Recording
from foretrace.models.network.collectives import Fabric
from foretrace.models.network.link import Link
from foretrace.models.network.switch import Switch, star
from foretrace.sim.graph import Builder, Member
from foretrace.sim.ops import Kind
from foretrace.sim.signature import parse
from foretrace.sim.simulation import Simulation

HEADER = 14 + 20 + 8 + 12 + 4
"""Bytes around the payload of a RoCEv2 packet on a veth, which has no preamble and no checksum of
Ethernet's: Ethernet 14, IPv4 20, UDP 8, base transport 12, invariant CRC 4 (InfiniBand
Architecture 1.4, annex A17)."""
FIRST, ANSWER = 16, 62  # of a write: RDMA extended header; an acknowledgement, headers included
MTU = 4096
RATES = {"100gbit": 12.5e9, "10gbit": 1.25e9, "1gbit": 1.25e8, "100mbit": 1.25e7}  # B/s
DELAY = 1e-6  # s of every port
FITTED = "10gbit"


@dataclass(frozen=True)
class Score:
    """One op: predicted and measured, s, and how far measurements of it lie apart."""

    op: str
    predicted: float
    measured: float
    spread: float

    @property
    def error(self) -> float:
        """Relative, signed."""
        return self.predicted / self.measured - 1

    @property
    def off(self) -> float:
        """Seconds, either way."""
        return abs(self.predicted - self.measured)


def measured(recording: Recording) -> dict[tuple[str, str], tuple[float, float]]:
    """Median of the starts' medians of each op, s, and how far these lie apart (A/A)."""
    found: dict[tuple[str, str], dict[int, list[float]]] = {}
    for sample in recording.samples:
        found.setdefault(sample.key, {}).setdefault(sample.start, []).extend(sample.ns.tolist())
    told = {}
    for key, starts in found.items():
        medians = np.array([np.median(ns) for ns in starts.values()])
        middle = float(np.median(medians))
        told[key] = middle * 1e-9, float((medians.max() - medians.min()) / middle)
    return told


def parts(signature: str) -> tuple[str, dict[str, str], int]:
    """Name, attributes and bytes of an op."""
    name, *words = parse(signature).name.split()
    told = dict(word.split("=", 1) for word in words)
    return name, told, int(sum(o.bytes for o in parse(signature).operands))


# Writes over a switch, in virtual time -----------------------------------------------------------


def transfer(rate: float, size: int, flows: int = 1, constant: float = 0.0) -> float:
    """Seconds until the last of equal writes into one port has its acknowledgement.

    The sender's wire is unshaped; the port is, with the headers' share of its rate taken off.  A
    message brings its own first header, and the answer comes back over a port of the same kind.
    """
    once = (HEADER + FIRST + ANSWER) / rate + constant
    link = Link(bandwidth=1e15, latency=DELAY, overhead=once)
    port = Switch(bandwidth=rate, latency=DELAY, ports=flows + 1, efficiency=MTU / (MTU + HEADER))
    build = Builder("writes")
    for sender in range(1, flows + 1):
        build.op(Kind.SEND, rank=sender, peer=0, bytes=float(size))
    system = star(flows + 1, link, port)
    run = Simulation(system, {"fabric": Fabric()}, engine="reference").run(build.graph())
    return float(run.makespan)


def switch(constant: float = 0.0) -> dict[str, list[Score]]:
    """Every rate's writes, predicted."""
    return {rate: _writes(f"timetravel-{rate}", RATES[rate], constant) for rate in RATES}


def incast(constant: float = 0.0) -> dict[str, list[Score]]:
    """Several writes into one port."""
    names = {rate: f"incast-{rate}" for rate in ("10gbit", "1gbit")}
    return {rate: _writes(name, RATES[rate], constant) for rate, name in names.items()}


def _writes(name: str, rate: float, constant: float) -> list[Score]:
    scores = []
    for (signature, _), (seconds, spread) in measured(kept(name)).items():
        _, told, size = parts(signature)
        flows = int(told.get("flows", 1))
        scores.append(Score(signature, transfer(rate, size, flows, constant), seconds, spread))
    return scores


def constant_of(rate: str = FITTED) -> float:
    """What the packets of one rate alone leave unexplained: the median over its sizes, s."""
    return float(np.median([s.measured - s.predicted for s in switch()[rate]]))


def within(score: Score, share: float, seconds: float) -> bool:
    """Whether an error is below a share of what was measured, or below some seconds."""
    return abs(score.error) <= share or score.off <= seconds


# RDMA's path through driver and kernel, instructions counted -------------------------------------

LEARNT = (64, 1024, 4096, 16384, 65536, 1 << 20)
"""Sizes that the fit may see; all others are held out."""


def path(size: np.ndarray) -> np.ndarray:
    """What a write of that size makes the kernel do: start, packets, bytes."""
    return np.column_stack([np.ones(len(size)), np.ceil(size / MTU), size])


def verbs(name: str) -> list[Score]:
    """Held-out sizes of one op, from the sizes that the fit may see; errors count relatively."""
    found = {
        parts(signature)[2]: value
        for (signature, context), value in measured(kept("icount-verbs")).items()
        if parts(signature)[0] == name and context == "warm"
    }
    seen = np.array([s for s in found if s in LEARNT], float)
    times = np.array([found[int(s)][0] for s in seen])
    weights = np.linalg.lstsq(path(seen) / times[:, None], np.ones(len(seen)), rcond=None)[0]
    rest = [s for s in sorted(found) if s not in LEARNT]
    predicted = path(np.array(rest, float)) @ weights
    told = zip(rest, map(float, predicted), strict=True)
    return [Score(f"{name} {size} B", seconds, *found[size]) for size, seconds in told]


def first_use(name: str = "rdma-write") -> list[Score]:
    """The first op of a fresh pair: a used one's time and what a first use of 64 B adds."""
    found = {
        (parts(signature)[2], context): value
        for (signature, context), value in measured(kept("icount-verbs")).items()
        if parts(signature)[0] == name
    }
    extra = found[64, "cold"][0] - found[64, "warm"][0]
    rest = [size for size, context in found if context == "cold" and size != 64]
    return [Score(f"first {name} {n} B", found[n, "warm"][0] + extra, *found[n, "cold"])
            for n in sorted(rest)]  # fmt: skip


# pages between tiers, instructions counted -------------------------------------------------------

HUGE = 512  # pages: from here on the kernel has huge pages to move, which is another path
MOVED = (1, 16, 128)  # pages that the fit may see


def migration(way: str) -> list[Score]:
    """Moving so many pages: a call, and each page; sizes that the fit did not see."""
    found = {
        parts(signature)[2] // 4096: value
        for (signature, _), value in measured(kept("icount-cxl")).items()
        if parts(signature)[0] == way
    }
    seen = np.array(MOVED, float)
    times = np.array([found[n][0] for n in MOVED])
    rows = np.column_stack([np.ones(len(seen)), seen])
    call, page = np.linalg.lstsq(rows / times[:, None], np.ones(len(seen)), rcond=None)[0]
    rest = [n for n in sorted(found) if n not in MOVED and n < HUGE]
    return [Score(f"{way} {n} pages", call + page * n, *found[n]) for n in rest]


# gloo in virtual time ----------------------------------------------------------------------------

PORT = 1.25e9  # B/s of every port
SEGMENT = 1448 / 1514  # TCP's payload of a full frame with time stamps
WIRE = 5e-6  # s of every port


@dataclass(frozen=True)
class Ring:
    """What a library adds to a ring: to each step, and to the time of the bytes."""

    step: float = 0.0
    efficiency: float = 1.0


def machine(ranks: int, ring: Ring) -> Simulation:
    """Hosts on one bridge; sleeping is a delay, so no GPU has to answer."""
    link = Link(bandwidth=1e15, latency=0.0)
    port = Switch(bandwidth=PORT, latency=WIRE, ports=ranks, efficiency=SEGMENT)
    system = star(ranks, link, port, slots=2)
    fabric = Fabric(algorithms="ring", step=ring.step, efficiency=ring.efficiency)
    return Simulation(system, {"fabric": fabric}, engine="reference")


def reduce(ranks: int, size: int, ring: Ring) -> float:
    """Seconds of one all-reduce."""
    build = Builder("all-reduce")
    _reduce(build, ranks, size, [[]] * ranks)
    return float(machine(ranks, ring).run(build.graph()).makespan)


def _reduce(build: Builder, ranks: int, size: int, after: list[list[int]]) -> int:
    members = [Member(rank, 1, tuple(after[rank])) for rank in range(ranks)]
    text = f"collective:all-reduce fp32[{size // 4}]"
    return build.collective(members, bytes=float(size), signature=text)


def step(ranks: int, told: Mapping[str, str], size: int, ring: Ring) -> float:
    """Seconds of a training step beyond its computing: what of the buckets is not hidden."""
    forward, backward, update = (
        float(told[f"{k}_us"]) * 1e-6 for k in ("forward", "backward", "update")
    )
    buckets = int(told["buckets"])
    build, last = Builder("step"), [[] for _ in range(ranks)]
    before: list[int] = []

    def compute(seconds: float, extra: tuple[int, ...] = ()) -> None:
        for rank in range(ranks):
            row = build.op(Kind.DELAY, rank=rank, duration=seconds, after=(*last[rank], *extra))
            last[rank] = [row]

    compute(forward)
    for _ in range(buckets):
        compute(backward)
        before = [_reduce(build, ranks, size, [[*last[r], *before] for r in range(ranks)])]
    compute(update, tuple(before))
    whole = float(machine(ranks, ring).run(build.graph()).makespan)
    return whole - forward - buckets * backward - update


def gloo(ranks: int, ring: Ring) -> tuple[list[Score], list[Score]]:
    """All-reduces alone; and of steps, what is exposed, its spread as a share of that."""
    bare, exposed = [], []
    for (signature, _), (seconds, spread) in measured(kept(f"gloo-{ranks}x10gbit")).items():
        name, told, size = parts(signature)
        if name == "all-reduce":
            score = Score(f"{size >> 10} KiB", reduce(ranks, size, ring), seconds, spread)
            bare.append(score)
        else:
            computing = sum(float(told[k]) for k in ("forward_us", "update_us"))
            computing += float(told["buckets"]) * float(told["backward_us"])
            open_part = seconds - computing * 1e-6
            label = f"backward {told['backward_us']} us"
            predicted = step(ranks, told, size, ring)
            exposed.append(Score(label, predicted, open_part, spread * seconds / open_part))
    return bare, exposed


def ring_of(ranks: int = 2) -> Ring:
    """What two ranks alone say: seconds a step, and the share of the rate."""
    name = f"gloo-{ranks}x10gbit"
    rows = [(parts(key[0]), value[0]) for key, value in measured(kept(name)).items()]
    found = [(told[2], seconds) for told, seconds in rows if told[0] == "all-reduce"]
    sizes, times = (np.array(column, float) for column in zip(*found, strict=True))
    steps, share = 2 * (ranks - 1), 2 * (ranks - 1) / ranks
    terms = np.column_stack([np.full(len(sizes), steps), share * sizes / (PORT * SEGMENT)])
    each, slower = np.linalg.lstsq(terms / times[:, None], np.ones(len(sizes)), rcond=None)[0]
    return Ring(step=max(0.0, float(each) - WIRE), efficiency=min(1.0, 1 / float(slower)))


def mape(scores: list[Score]) -> float:
    """Mean of the absolute errors."""
    return float(np.mean([abs(s.error) for s in scores]))


def table(title: str, scores: Mapping[str, list[Score]] | list[Score]) -> None:
    """Print scores, one a line."""
    print(f"\n{title}")
    groups = scores if isinstance(scores, Mapping) else {"": scores}
    for group, rows in groups.items():
        for s in rows:
            print(f"  {group:8} {s.op:48} predicted {s.predicted * 1e6:11.2f} us  measured "
                  f"{s.measured * 1e6:11.2f} us  {s.error:+7.2%}  {s.off * 1e6:6.2f} us  "
                  f"A/A {s.spread:.2%}")  # fmt: skip


def main() -> None:
    """Print all tables."""
    blind, constant = switch(), constant_of()
    table("writes over a switch, nothing fitted", blind)
    print(f"\none constant from {FITTED} alone: {constant * 1e6:.2f} us")
    table("writes over a switch, that constant", switch(constant))
    table("incast, nothing fitted", incast())
    table("incast, that constant", incast(constant))
    for name in ("rdma-write", "rdma-read"):
        table(f"{name} under icount, sizes that the fit did not see", verbs(name))
    table("first use under icount", first_use())
    recorded = {file.name.split(".")[0] for file in KEPT.glob("*.rec.gz")}
    for way in ("h2c", "c2h") if "icount-cxl" in recorded else ():
        table(f"{way} under icount, sizes that the fit did not see", migration(way))
    ring = ring_of()
    print(f"\ngloo, from two ranks: {ring.step * 1e6:.1f} us a step, {ring.efficiency:.1%} of it")
    for ranks in (n for n in (2, 4, 8) if f"gloo-{n}x10gbit" in recorded):
        for word, known in (("nothing fitted", Ring()), ("fitted on two ranks", ring)):
            bare, exposed = gloo(ranks, known)
            table(f"gloo, {ranks} ranks, {word}", {"bare": bare, "exposed": exposed})


if __name__ == "__main__":
    main()
