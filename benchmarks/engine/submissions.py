"""Cost of submitting a small graph many times, and the memory that remains.

Usage: python -m foretrace.benchmarks.engine.submissions [submissions]
"""

import sys
from collections.abc import Callable, Iterator

import numpy as np
import simpy
from foretrace.sim.facts.backend import Backend, Spread, Timing
from foretrace.sim.facts.graph import Builder, Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.process import Running
from foretrace.sim.run.simulation import Simulation

from .._measure import cpu, report

OPS, DISTINCT = 5, 200  # ops of the graph; numbers that its rows take in turn
EVENTS = 5  # SimPy events of a submission that somebody awaits: the floor
GPU = "node0.gpu0"


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
    for work in (lambda n: submit_steps(n, None), lambda n: submit_steps(n, change)):
        work(2000)  # compile
    works = {
        "floor": lambda: simpy_baseline(part),
        "unchanged": lambda: submit_steps(part, None),
        "changed": lambda: submit_steps(part, change),
    }
    rounds = {name: [] for name in works}
    for _ in range(3):
        for name, work in works.items():
            rounds[name].append(cpu(work) / part * 1e6)
    spent = {name: float(np.median(each)) for name, each in rounds.items()}
    memory_samples: list[float] = []
    submit_steps(count, change, memory_samples)
    report(
        "submissions",
        {
            "us a submission, unchanged numbers, new draws": (spent["unchanged"], "<=", 60),
            "us a submission, changed numbers": (spent["changed"], "<=", 150),
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
        microseconds=spent,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
