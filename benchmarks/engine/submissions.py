"""Cost of preparing a small graph, of submitting it many times, and the memory that remains.

Numbers of a submission are unchanged, recur, or are new each time; a way is chosen or not.

Usage: python -m foretrace.benchmarks.engine.submissions [submissions]
"""

import sys
from collections.abc import Callable, Iterator

import numpy as np
import simpy
from foretrace.sim.facts.backend import Backend, Spread, Timing, Usage
from foretrace.sim.facts.graph import Builder, Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.facts.way import Way
from foretrace.sim.run.process import Running
from foretrace.sim.run.simulation import Simulation

from .._measure import cpu, report

OPS, DISTINCT = 5, 200  # ops of the graph; numbers that its rows take in turn
EVENTS = 5  # SimPy events of a submission that somebody awaits: the floor
GPU = "node0.gpu0"
WAYS = 256  # routes of a chunk
IN_FLIGHT = 8  # chunks under way at a time
MACHINES = (100, 100_000)  # components
PREPARED = 50  # graphs prepared on each


class PerFlop(Backend):
    """Backend with one picosecond per flop, and jitter per rank and op."""

    source = "benchmark"
    spread = Spread(np.linspace(0.9, 1.1, 11), np.linspace(0.8, 1.2, 21), np.empty(0))

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        return Timing.of(ops.flop * 1e-12, spread=self.spread)


def step() -> Graph:
    """Graph of five kernels in sequence."""
    build, last = Builder("step"), ()
    for i in range(OPS):
        last = (build.op(Kind.COMPUTE, flop=1e6 * (i + 1), bytes=0, after=last),)
    return build.graph()


def submit_steps(
    count: int,
    change: Callable[[int], dict[int, float]] | None,
    memory_samples: list[float] | None = None,
) -> None:
    """Submit the step ``count`` times in one run; record memory after a sixth and at the end."""

    def serving(sim: Running) -> Iterator[simpy.Event]:
        prepared = sim.prepare(step())
        for i in range(count):
            flop = None if change is None else change(i)
            yield sim.submit(prepared, flop=flop).done
            sim.emit("end", sim.now)
            if memory_samples is not None and i in (count // 6, count - 1):
                memory_samples.append(resident_bytes())

    system = System((Component(GPU, "gpu", slots=1),), (GPU,))
    Simulation(system, {"*": PerFlop()}).run(None, serving, replica=0, keep="none")


def change(i: int) -> dict[int, float]:
    """New flop values for every row, in the ``i``-th submission."""
    return {row: 1e6 * (1 + (i + row) % DISTINCT) for row in range(OPS)}


def change_anew(i: int) -> dict[int, float]:
    """New flop values for every row, none of which was submitted before."""
    return {row: 1e6 + OPS * i + row for row in range(OPS)}


def gpus(count: int) -> System:
    """Machine of so many GPUs."""
    names = tuple(f"node{i}.gpu0" for i in range(count))
    return System(tuple(Component(name, "gpu", slots=1) for name in names), names)


def prepare_steps(components: int) -> float:
    """CPU seconds to prepare the step, on a machine with so many components."""
    spent: list[float] = []

    def preparing(sim: Running) -> Iterator[simpy.Event]:
        graphs = [step() for _ in range(PREPARED + 1)]
        sim.prepare(graphs[0])  # what belongs to the machine is computed once
        spent.append(cpu(lambda: [sim.prepare(graph) for graph in graphs[1:]]) / PREPARED)
        yield sim.wait(0.0)

    Simulation(gpus(components), {"*": PerFlop()}).run(None, preparing, replica=0, keep="none")
    return spent[0]


class Crossing(Backend):
    """Fabric whose messages share the links of their routes."""

    source = "benchmark"

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        assert ops.at is not None
        system, ends = ops.at.system, ops.at.members
        rows = [
            dict(system.crossing_fractions(*ends[i][[0, -1]].tolist())) for i in range(len(ops))
        ]
        return Timing.of(np.full(len(ops), 1e-6), ops.bytes, Usage.of(rows))


def submit_chunks(count: int, way: Callable[[int], int | None]) -> None:
    """Send chunks from one GPU to another, some at a time, each on a way of its own choice."""
    ends = (Component("node0.gpu0", "gpu", slots=1), Component("node1.gpu0", "gpu", slots=1))
    paths = (Component(f"path{i}", "link", rate=1e9) for i in range(WAYS))
    names = (ends[0].name, ends[1].name)
    system = System(
        (*ends, *paths, Component("fabric", "fabric")),
        names,
        router=lambda a, b: (2,),
        fabric="fabric",
    )
    build = Builder("chunk")
    build.op(Kind.SEND, rank=0, peer=1, bytes=1e6)

    def sending(sim: Running) -> Iterator[simpy.Event]:
        ways = [Way(routes={names: [f"path{i}"]}) for i in range(WAYS)]
        chunk, under_way = sim.prepare(build.graph(), ways=ways), []
        for i in range(count):
            if len(under_way) == IN_FLIGHT:
                yield under_way.pop(0).done
            under_way.append(sim.submit(chunk, way=way(i)))

    Simulation(system, {"*": Crossing()}).run(None, sending, keep="none")


def simpy_baseline(count: int) -> None:
    """Process in plain SimPy that waits as many times, for comparison."""
    env = simpy.Environment()

    def waiting() -> Iterator[simpy.Event]:
        for _ in range(count * EVENTS):
            yield env.timeout(1)

    env.process(waiting())
    env.run()


def resident_bytes() -> float:
    """Resident memory of this process in bytes (Linux)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096.0


def main(count: int = 1_000_000) -> None:
    """Time some submissions against the SimPy baseline, then measure memory over all of them."""
    part, spent = min(count, 50_000), {}
    for work in (None, change):
        submit_steps(2000, work)  # compile
    submit_chunks(2000, lambda i: i % WAYS)
    works = {
        "floor": lambda: simpy_baseline(part),
        "unchanged": lambda: submit_steps(part, None),
        "changed": lambda: submit_steps(part, change),
        "new": lambda: submit_steps(part, change_anew),
        "as prepared": lambda: submit_chunks(part, lambda i: None),
        "one way": lambda: submit_chunks(part, lambda i: 7),
        "all ways": lambda: submit_chunks(part, lambda i: i % WAYS),
    }
    rounds = {name: [] for name in works}
    for _ in range(3):
        for name, work in works.items():
            rounds[name].append(cpu(work) / part * 1e6)
    spent = {name: float(np.median(each)) for name, each in rounds.items()}
    prepared = {n: prepare_steps(n) * 1e6 for n in MACHINES}
    memory_samples: list[float] = []
    submit_steps(count, change, memory_samples)
    report(
        "submissions",
        {
            "us a submission, unchanged numbers, new draws": (spent["unchanged"], "<=", 60),
            "us a submission, changed numbers": (spent["changed"], "<=", 150),
            "us a submission, new numbers each time": (spent["new"], "<=", 150),
            "times a submission as prepared, on a way": (
                spent["one way"] / spent["as prepared"],
                "<=",
                1.2,
            ),
            f"chunks a second over {WAYS} ways": (1e6 / spent["all ways"], ">=", 5000),
            **{
                f"us to prepare on {n:,} components": (took, "<=", 1000)
                for n, took in prepared.items()
            },
            "times the floor, unchanged": (spent["unchanged"] / spent["floor"], "<=", 25),
            "times the floor, changed": (spent["changed"] / spent["floor"], "<=", 60),
            "MB that the rest of the run leaves behind": (
                (memory_samples[1] - memory_samples[0]) / 1e6,
                "<=",
                50,
            ),
        },
        submissions=count,
        ops=OPS,
        ways=WAYS,
        microseconds=spent,
        microseconds_to_prepare=prepared,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
