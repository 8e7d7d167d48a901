"""Compare models with the lab's real drivers, from the committed recordings.

Usage: python -m foretrace.calibration.judge.lab

Blind predictions use only packet formats and the settings of the bridge's ports. Calibrated ones
use one or two constants from part of the recordings, and are scored on the rest.
"""

from __future__ import annotations

import numpy as np
from foretrace.hil.lab.campaign_recording import KEPT, bundled_recording
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.switch import Switch, star
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.run.simulation import Simulation

from ..rows.lab_rows import Score, measured, parts, table

HEADER = 14 + 20 + 8 + 12 + 4
"""Bytes around the payload of a RoCEv2 packet on a veth, which has no preamble and no checksum of
Ethernet's: Ethernet 14, IPv4 20, UDP 8, base transport 12, invariant CRC 4 (InfiniBand
Architecture 1.4, annex A17)."""
FIRST, ANSWER = 16, 62  # of a write: RDMA extended header; an acknowledgement, headers included
MTU = 4096
RATES = {"100gbit": 12.5e9, "10gbit": 1.25e9, "1gbit": 1.25e8, "100mbit": 1.25e7}  # B/s
DELAY = 1e-6  # s of every port
FITTED = "10gbit"


# Writes over a switch, in virtual time -----------------------------------------------------------


def transfer(rate: float, size: int, flows: int = 1, constant: float = 0.0) -> float:
    """Time in s until the last of several equal writes into one port is acknowledged.

    The sender's wire is not rate-limited; the port is, and headers reduce its payload rate. A
    message includes its first header, and the acknowledgement returns over a port of the same kind.
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
    """Scores of writes through the switch at every rate."""
    return {rate: _writes(f"timetravel-{rate}", RATES[rate], constant) for rate in RATES}


def incast(constant: float = 0.0) -> dict[str, list[Score]]:
    """Scores of several writes into one port (incast)."""
    names = {rate: f"incast-{rate}" for rate in ("10gbit", "1gbit")}
    return {rate: _writes(name, RATES[rate], constant) for rate, name in names.items()}


def _writes(name: str, rate: float, constant: float) -> list[Score]:
    scores = []
    for (signature, _), (seconds, spread) in measured(bundled_recording(name)).items():
        _, told, size = parts(signature)
        flows = int(told.get("flows", 1))
        scores.append(Score(signature, transfer(rate, size, flows, constant), seconds, spread))
    return scores


def constant_of(rate: str = FITTED) -> float:
    """Time in s that the packets of one rate do not explain: median over its sizes."""
    return float(np.median([s.measured - s.predicted for s in switch()[rate]]))


# RDMA's path through driver and kernel, instructions counted -------------------------------------

LEARNT = (64, 1024, 4096, 16384, 65536, 1 << 20)
"""Sizes that the fit may see; all others are held out."""


def path(size: np.ndarray) -> np.ndarray:
    """Work of the kernel for a write of this size: start, packets, bytes."""
    return np.column_stack([np.ones(len(size)), np.ceil(size / MTU), size])


def verbs(name: str) -> list[Score]:
    """Scores on held-out sizes of one op, fitted on the others; errors are relative."""
    found = {
        parts(signature)[2]: value
        for (signature, context), value in measured(bundled_recording("icount-verbs")).items()
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
    """Scores of a new queue pair's first op: a used one plus the extra time at 64 B."""
    found = {
        (parts(signature)[2], context): value
        for (signature, context), value in measured(bundled_recording("icount-verbs")).items()
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
    """Scores of moving pages (a cost per call and per page) on sizes unused by the fit."""
    found = {
        parts(signature)[2] // 4096: value
        for (signature, _), value in measured(bundled_recording("icount-cxl")).items()
        if parts(signature)[0] == way
    }
    seen = np.array(MOVED, float)
    times = np.array([found[n][0] for n in MOVED])
    rows = np.column_stack([np.ones(len(seen)), seen])
    call, page = np.linalg.lstsq(rows / times[:, None], np.ones(len(seen)), rcond=None)[0]
    rest = [n for n in sorted(found) if n not in MOVED and n < HUGE]
    return [Score(f"{way} {n} pages", call + page * n, *found[n]) for n in rest]


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


if __name__ == "__main__":
    main()
