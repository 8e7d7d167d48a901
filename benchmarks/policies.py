"""CPU time and memory of a decision of a compiled process, next to a generator that does the same.

Usage: python -m foretrace.benchmarks.policies [DECISIONS]
"""

import sys
from typing import NamedTuple

import foretrace as ft
import numpy as np
from foretrace.sim.kernel import policy, policy_store

from ._measure import peak_memory, report, side_by_side

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
BY_GENERATOR = 20_000  # decisions of a generator, which takes 20 times as long
ROUNDS = 3
KV, CACHE = "node0.kv", "node0.cache"


class Calls(NamedTuple):
    left: np.ndarray


@ft.policy_kernel
def timers(state, event, turn):
    """Set a timer, and count."""
    policy.count(turn, 0, 1)
    state.left[0] -= 1
    if state.left[0] < 0:
        return policy.DONE
    policy.after(turn, 5, 0)
    return policy.GO_ON


@ft.policy_kernel
def arrivals(state, event, turn):
    """Count what arrives."""
    policy.count(turn, 0, 1)
    state.left[0] -= 1
    return policy.GO_ON if state.left[0] else policy.DONE


@ft.policy_kernel
def steps(state, event, turn):
    """Take, submit, emit and release."""
    if event[policy.KIND] == policy.ENDED:
        policy.release(turn, 0, 1)
    state.left[0] -= 1
    if state.left[0] < 0:
        return policy.DONE
    policy.take(turn, 0, 1)
    policy.submit(turn, 0, 0)
    policy.emit(turn, 0, 1.0)
    return policy.GO_ON


@ft.policy_kernel
def points(state, event, turn):
    """Like `steps`, with a point of a grid of three axes."""
    if event[policy.KIND] == policy.ENDED:
        policy.release(turn, 0, 1)
    state.left[0] -= 1
    left = state.left[0]
    if left < 0:
        return policy.DONE
    policy.take(turn, 0, 1)
    policy.submit(turn, 0, 0)
    policy.at(turn, 0, left % 4001)
    policy.at(turn, 1, left * 7 % 60_013)
    policy.at(turn, 2, left * 3 % 127)
    policy.emit(turn, 0, 1.0)
    return policy.GO_ON


@ft.policy_kernel
def entries(state, event, turn):
    """Hold one of 64 entries, of which 40 fit; submit, emit and release."""
    if event[policy.KIND] == policy.ENDED:
        policy_store.release(turn, 1, event[policy.TAG])
    state.left[0] -= 1
    if state.left[0] < 0:
        return policy.DONE
    key = 7 * state.left[0] % 64
    policy_store.hold(turn, 1, key, 1)
    policy.submit(turn, 0, key)
    policy.emit(turn, 0, 1.0)
    return policy.GO_ON


@ft.policy_kernel
def submissions(state, event, turn):
    """Submit only, so that nothing has to stay in memory."""
    state.left[0] -= 1
    if state.left[0] < 0:
        return policy.DONE
    policy.submit(turn, 0, 0)
    return policy.GO_ON


class PerFlop(ft.Backend):
    source = "the benchmark"

    def timing(self, ops, now=0.0):
        return ft.Timing.of(ops.flop)


def graph(ops):
    """Ops in a chain, which are submitted together."""
    build, last = ft.Builder("step"), []
    for _ in range(ops):
        last = [build.op(ft.Kind.COMPUTE, flop=1.0, after=last)]
    return build.graph()


def step_of(ops):
    """Grid of such a graph, whose times depend on three numbers."""

    def step(tokens, context, sequences):
        build, last = ft.Builder("step"), []
        for k in range(ops):
            flop = 1e6 + 1e3 * tokens * (k + 1) + 3.0 * context + 1e4 * sequences
            last = [build.op(ft.Kind.COMPUTE, flop=1e-9 * flop, after=last)]
        return build.graph()

    axes = {"tokens": [0, 64, 512, 4096], "context": [0, 8192, 65_536], "sequences": [0, 16, 128]}
    return ft.StepGrid(step, axes)


def compiled(kernel, ops, count):
    at = [np.arange(count) * 1e-6] if kernel is arrivals else []
    return ft.CompiledProcess(
        kernel,
        Calls(np.array([count], np.int64)),
        graphs={"step": step_of(ops) if kernel is points else graph(ops)},
        parts=[KV, CACHE],
        metrics=["sample"],
        counters=["calls"],
        arrivals=at,
    )


def timers_twin(sim):
    for _ in range(BY_GENERATOR):
        yield sim.env.timeout(5)
        sim.count("calls")


def steps_twin(ops):
    def twin(sim):
        step = sim.prepare(graph(ops))
        for _ in range(BY_GENERATOR):
            sim.take(KV, 1)
            done = sim.submit(step).done
            sim.emit("sample", 1.0)
            yield done
            sim.release(KV, 1)

    return twin


def entries_twin(sim):
    step, cache = sim.prepare(graph(1)), sim.store(CACHE)
    for left in range(BY_GENERATOR):
        cache.hold(7 * left % 64, 1)
        done = sim.submit(step).done
        sim.emit("sample", 1.0)
        yield done
        cache.release(7 * left % 64)


def main():
    parts = (
        ft.Component("node0.gpu0", "gpu", slots=1),
        ft.Component(KV, "memory", capacity=40, unit="block"),
        ft.Component(CACHE, "memory", capacity=ft.Store(40), unit="block"),
    )
    system = ft.System(parts, ("node0.gpu0",))
    simulate = ft.Simulation(system, {"*": PerFlop()}, tick=1e-9).run

    def run(process):
        return lambda: simulate(None, process, keep="ranks")

    kernels = {
        "timers": (timers, 1),
        "arrivals": (arrivals, 1),
        "one": (steps, 1),
        "five": (steps, 5),
        "grid": (points, 5),
        "entries_one": (entries, 1),
        "entries_five": (entries, 5),
    }
    for kernel, ops in kernels.values():
        run(compiled(kernel, ops, 3000))()  # compiles
    run(compiled(submissions, 1, 3000))()
    before = peak_memory()
    run(compiled(submissions, 1, COUNT))()
    flat = peak_memory() - before
    run(compiled(steps, 1, COUNT))()
    grown = peak_memory() - before - flat
    works = {name: run(compiled(*of, COUNT)) for name, of in kernels.items()}
    twins = {"timers": timers_twin, "one": steps_twin(1), "five": steps_twin(5)}
    twins["entries_one"] = entries_twin
    by_twin = {f"{name}_twin": run(twin) for name, twin in twins.items()}
    spent = side_by_side(ROUNDS, **works, **by_twin)
    us = {
        name: seconds / (BY_GENERATOR if name in by_twin else COUNT) * 1e6
        for name, seconds in spent.items()
    }
    report(
        "policies",
        {
            "a timer and a count, us": (us["timers"], "<=", 0.5),
            "an arrival and a count, us": (us["arrivals"], "<=", 0.5),
            "take, submit, release, emit: one op, us": (us["one"], "<=", 2.0),
            "take, submit, release, emit: five ops, us": (us["five"], "<=", 4.0),
            "the same at a point of a grid with three axes: five ops, us": (us["grid"], "<=", 4.0),
            "hold, submit, release an entry, emit: one op, us": (us["entries_one"], "<=", 2.0),
            "hold, submit, release an entry, emit: five ops, us": (us["entries_five"], "<=", 4.0),
            "memory of submissions, MB": (flat / 1e6, "<=", 50.0),
        },
        decisions=COUNT,
        samples_and_amounts_mb=grown / 1e6,
        generators={name: us[name] for name in by_twin},
    )


if __name__ == "__main__":
    main()
