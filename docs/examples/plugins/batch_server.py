"""Example of a policy as a kernel: a server that batches the requests that wait.

Requests arrive at given times. A batch takes those that wait, in order, as long as the cache has
blocks for them; it is one op, whose work is the sum of its tokens. Then its blocks are given back.
"""

from typing import NamedTuple

import foretrace as ft
import numpy as np
from foretrace.sim.kernel import policy

HEAD, END, TAIL = range(3)  # requests that are over, in the batch, and arrived: a row of `queue`


class Server(NamedTuple):
    queue: np.ndarray  # HEAD, END and TAIL
    at: np.ndarray  # tick at which each request arrived
    tokens: np.ndarray  # of each request, which are also its blocks


@ft.policy_kernel
def serve(state, event, turn):
    queue, kind = state.queue, event[policy.KIND]
    if kind == policy.ARRIVAL:
        row = event[policy.TAG]
        state.at[row], state.tokens[row] = event[policy.NOW], event[policy.A]
        queue[TAIL] += 1
    elif kind == policy.ENDED:
        for row in range(queue[HEAD], queue[END]):
            waited = event[policy.NOW] - state.at[row]
            policy.emit(turn, 0, waited / policy.ticks_per_second(turn))
            policy.release(turn, 0, state.tokens[row])
        queue[HEAD] = queue[END]
        if queue[HEAD] == len(state.at):
            return policy.DONE
        policy.settle(turn, 0)  # what was given back can be taken after this turn
        return policy.GO_ON
    if queue[HEAD] < queue[END]:
        return policy.GO_ON  # busy
    while queue[END] < queue[TAIL] and policy.take(turn, 0, state.tokens[queue[END]]):
        queue[END] += 1
    if queue[HEAD] < queue[END]:
        policy.submit(turn, 0, 0)
        policy.with_flop(turn, 0, state.tokens[queue[HEAD] : queue[END]].sum())
    return policy.GO_ON


@ft.workload("batch-server")
class BatchServer(ft.Workload):
    """Server on the first GPU of its pool; request k of ``tokens`` arrives at ``k * every``."""

    metrics = (ft.Metric("latency", "s", "From arrival to the end of its batch.", better="lower"),)
    headline = "latency.mean"
    needs = ft.Needs({"gpu": ft.Need("gpu", 1), "kv": ft.Need("kv", 1)})

    def __init__(self, *, tokens: list[int], every: float):
        self.tokens, self.every = tokens, every

    def start(self, job):
        n, build = len(self.tokens), ft.Builder("batch")
        build.op(ft.Kind.COMPUTE, flop=1.0, bytes=0.0)
        zeros = np.zeros(n, np.int64)
        return ft.CompiledProcess(
            serve,
            Server(np.zeros(3, np.int64), zeros, zeros),
            graphs={"batch": build.graph()},
            arrivals=(self.every * np.arange(n), self.tokens),
            parts=job.on["kv"],
            metrics=["latency"],
        )
