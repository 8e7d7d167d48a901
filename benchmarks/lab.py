"""Models against what the lab's real drivers did, from the committed recordings.

Usage: python benchmarks/lab.py

Blind numbers use nothing but packet formats and the settings of the bridge's ports; calibrated
ones a constant or two from part of the recordings, and are scored on the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from foretrace.hil.lab.record import kept
from foretrace.hil.recording import Recording
from foretrace.models.network.collectives import Fabric
from foretrace.models.network.link import Link
from foretrace.models.network.switch import Switch, star
from foretrace.sim.graph import Builder
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


# gloo in virtual time ----------------------------------------------------------------------------


def table(title: str, scores: Mapping[str, list[Score]] | list[Score]) -> None:
    """Print scores, one a line."""
    print(f"\n{title}")
    groups = scores if isinstance(scores, Mapping) else {"": scores}
    for group, rows in groups.items():
        for s in rows:
            print(f"  {group:8} {s.op:48} predicted {s.predicted * 1e6:11.2f} us  measured "
                  f"{s.measured * 1e6:11.2f} us  {s.error:+7.2%}  {s.off * 1e6:6.2f} us  "
                  f"A/A {s.spread:.2%}")  # fmt: skip


def main() -> int:
    """All tables; exit code 1 where a bar is missed."""
    blind, constant = switch(), constant_of()
    table("writes over a switch, nothing fitted", blind)
    print(f"\none constant from {FITTED} alone: {constant * 1e6:.2f} us")
    table("writes over a switch, that constant", switch(constant))
    table("incast, nothing fitted", incast())
    table("incast, that constant", incast(constant))
    for name in ("rdma-write", "rdma-read"):
        table(f"{name} under icount, sizes that the fit did not see", verbs(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
