"""CPU time of a decision: a compiled process next to the generator that does the same.

Usage: python benchmarks/policies.py [DECISIONS]
"""

import sys
import time
from typing import NamedTuple

import foretrace as ft
import numpy as np
from foretrace.sim.kernel import policy

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
ROUNDS = 3
KV = "node0.kv"


class Calls(NamedTuple):
    left: np.ndarray


@ft.policy_kernel
def timers(state, event, turn):
    state.left[0] -= 1
    if state.left[0] < 0:
        return policy.DONE
    policy.after(turn, 5, 0)
    return policy.GO_ON


@ft.policy_kernel
def submissions(state, event, turn):
    state.left[0] -= 1
    if state.left[0] < 0:
        return policy.DONE
    policy.submit(turn, 0, 0)
    return policy.GO_ON


@ft.policy_kernel
def steps(state, event, turn):
    if event[policy.KIND] == policy.ENDED:
        policy.release(turn, 0, 1)
    state.left[0] -= 1
    if state.left[0] < 0:
        return policy.DONE
    policy.take(turn, 0, 1)
    policy.submit(turn, 0, 0)
    policy.emit(turn, 0, 1.0)
    return policy.GO_ON


class PerFlop(ft.Backend):
    source = "the benchmark"

    def timing(self, ops, now=0.0):
        return ft.Timing.of(ops.flop)


def graph():
    build = ft.Builder("op")
    build.op(ft.Kind.COMPUTE, flop=1.0)
    return build.graph()


def timers_twin(sim):
    for _ in range(COUNT):
        yield sim.env.timeout(5)


def submissions_twin(sim):
    op = sim.prepare(graph())
    for _ in range(COUNT):
        yield sim.submit(op).done


def steps_twin(sim):
    op = sim.prepare(graph())
    for _ in range(COUNT):
        sim.take(KV, 1)
        done = sim.submit(op).done
        sim.emit("sample", 1.0)
        yield done
        sim.release(KV, 1)


def main():
    parts = (
        ft.Component("node0.gpu0", "gpu", slots=1),
        ft.Component(KV, "memory", capacity=40, unit="block"),
    )
    system = ft.System(parts, ("node0.gpu0",))
    run = ft.Simulation(system, {"*": PerFlop()}, tick=1e-9).run
    pairs = (timers, timers_twin), (submissions, submissions_twin), (steps, steps_twin)
    for kernel, twin in pairs:
        state = Calls(np.array([COUNT], np.int64))
        policy_of = ft.CompiledProcess(
            kernel, state, graphs={"op": graph()}, parts=[KV], metrics=["sample"]
        )
        run(None, policy_of, keep="ranks")  # compiles
        for process in (policy_of, twin):
            best = np.inf
            for _ in range(ROUNDS):
                begun = time.process_time()
                run(None, process, keep="ranks")
                best = min(best, time.process_time() - begun)
            print(f"{process.__name__:18} {best / COUNT * 1e6:6.1f} us a decision")


if __name__ == "__main__":
    main()
