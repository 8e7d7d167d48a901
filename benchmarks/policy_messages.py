"""CPU time of a message between compiled processes, next to generators.

Usage: python -m foretrace.benchmarks.policy_messages [MESSAGES]
"""

import sys
from typing import NamedTuple

import foretrace as ft
import numpy as np
from foretrace.sim.kernel import policy
from foretrace.sim.run.policies.compiled_process import Mail

from ._measure import report, side_by_side

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
BY_GENERATOR = 20_000
ROUNDS = 3


class Calls(NamedTuple):
    left: np.ndarray
    burst: np.ndarray


@ft.policy_kernel
def sends(state, event, turn):
    """Send some messages per timer."""
    for k in range(state.burst[0]):
        policy.send(turn, 0, k, 0, 0)
    state.left[0] -= 1
    if state.left[0] == 0:
        return policy.DONE
    policy.after(turn, 5, 0)
    return policy.GO_ON


@ft.policy_kernel
def receives(state, event, turn):
    """Count what arrives."""
    policy.count(turn, 0, 1)
    return policy.GO_ON


def compiled(timers, burst):
    """A process that sends, and one that receives."""
    state = Calls(np.array([timers], np.int64), np.array([burst], np.int64))
    return (
        ft.CompiledProcess(sends, state, mail=Mail(["box"])),
        ft.CompiledProcess(receives, counters=["received"], mail=Mail(inbox="box")),
    )


def generators(timers):
    """The same as generators, with one message per timer."""

    def sends(sim):
        for _ in range(timers):
            sim.mailbox("box").send(1)
            yield sim.env.timeout(5)

    def receives(sim):
        while True:
            yield sim.mailbox("box").receive()
            sim.count("received")

    return sends, receives


def main():
    simulate = ft.Simulation(ft.System((), ()), {}, tick=1e-9).run

    def run(*processes):
        return lambda: simulate(None, *processes, keep="ranks")

    run(*compiled(3000, 1))()  # compiles
    spent = side_by_side(
        ROUNDS,
        timers=run(*compiled(COUNT, 0)),
        single=run(*compiled(COUNT, 1)),
        bursts=run(*compiled(COUNT // 8, 8)),
        generators=run(*generators(BY_GENERATOR)),
    )
    single = (spent["single"] - spent["timers"]) / COUNT * 1e6
    report(
        "policy_messages",
        {
            "a message and its receipt, us": (single, "<=", 1.0),
            "one of eight at a tick, us": (spent["bursts"] / COUNT * 1e6, "<=", 1.0),
        },
        messages=COUNT,
        timer_us=spent["timers"] / COUNT * 1e6,
        generators_us=spent["generators"] / BY_GENERATOR * 1e6,
    )


if __name__ == "__main__":
    main()
