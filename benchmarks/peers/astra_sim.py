"""Our Chakra files in ASTRA-sim's analytical backend, and the same graphs here: makespans.

Usage: python -m foretrace.benchmarks.peers.astra_sim BINARY

BINARY is ``AstraSim_Analytical_Congestion_Unaware`` or ``..._Aware``, built from ASTRA-sim's own
sources (``build/astra_analytical/build.sh``). Both sides use a ring of eight, 50 GB/s (of 2^30
bytes, as in ASTRA-sim), 500 ns per hop, ring algorithms, one chunk and no endpoint delay.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from foretrace.models.compute.recorded import Recorded
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.topology.topology import NodeSpec, cluster
from foretrace.sim.facts.graph import Builder, Graph, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.run.simulation import Simulation
from foretrace.traces.formats import chakra

RANKS, RATE, HOP = 8, 50 * 2**30, 500e-9
WITHIN = 0.01
WAYS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
SYSTEM = {
    "scheduling-policy": "FIFO",
    "endpoint-delay": 0,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 1,
    **{f"{way}-implementation": ["ring"] for way in WAYS},
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1e6,
    "boost-mode": 0,
}
NETWORK = "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"


def steps(ways: tuple[str, ...], size: int, late: float = 1.0) -> Graph:
    """Four steps of compute followed by collectives; rank 3 computes ``late`` times as long."""
    build = Builder("steps")
    before: list[tuple[int, ...]] = [()] * RANKS
    for _ in range(4):
        work = [
            build.op(Kind.COMPUTE, rank=r, duration=1e-3 * (late if r == 3 else 1), after=before[r])
            for r in range(RANKS)
        ]
        before = [(w,) for w in work]
        for way in ways:
            members = [Member(r, 1, before[r]) for r in range(RANKS)]
            signature = f"collective:{way} uint8[{size}]"
            before = [(build.collective(members, bytes=size, signature=signature),)] * RANKS
    return build.graph()


def foretrace_makespan(graph: Graph) -> float:
    """Makespan in foretrace, in s."""
    nic = Nic(bandwidth=RATE, latency=HOP / 2, header=0)
    system = cluster(RANKS, NodeSpec(gpus=1, nics=1, nic=nic))
    backends = {"fabric": Fabric(algorithms="ring, pairwise"), "*": Recorded()}
    return Simulation(system, backends).run(graph).makespan


def astra_sim_makespan(binary: Path, graph: Graph, folder: Path) -> float:
    """Makespan in ASTRA-sim, in s: the last rank's end, in cycles of 1 ns."""
    chakra.write(graph, folder, prefix="case")
    (folder / "network.yml").write_text(NETWORK)
    (folder / "system.json").write_text(json.dumps(SYSTEM))
    (folder / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    done = subprocess.run(
        [
            str(binary.resolve()),
            f"--workload-configuration={folder}/case",
            f"--comm-group-configuration={folder}/case.groups.json",
            f"--system-configuration={folder}/system.json",
            f"--network-configuration={folder}/network.yml",
            f"--remote-memory-configuration={folder}/memory.json",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return max(int(c) for c in re.findall(r"finished, (\d+) cycles", done.stdout)) * 1e-9


def main(binary: Path) -> int:
    """Print every case; returns 1 if one that should agree does not."""
    missed = 0
    # all-to-all crosses several hops of their ring, while our machines meet in a switch
    cases = {way: (steps((way,), 64 << 20), way != "all-to-all") for way in WAYS}
    cases["all-reduce, 4 KiB"] = (steps(("all-reduce",), 4096), True)
    cases["three in a row"] = (steps(WAYS[:3], 16 << 20), True)
    cases["three, rank 3 late"] = (steps(WAYS[:3], 16 << 20, late=1.5), False)
    for name, (graph, bound) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            there = astra_sim_makespan(binary, graph, Path(folder))
        here = foretrace_makespan(graph)
        off = here / there - 1
        verdict = "" if not bound else "ok" if abs(off) <= WITHIN else "MISSED"
        missed += verdict == "MISSED"
        ms = f"here {here * 1e3:9.4f} ms   there {there * 1e3:9.4f} ms"
        print(f"{name:20} {ms}   {off:+8.2%} {verdict}")
    return min(missed, 1)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
