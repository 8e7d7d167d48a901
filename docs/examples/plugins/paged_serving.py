"""Example of a scheduler as a kernel: continuous batching over a paged KV cache.

A step generates one token of each running request, and prefills waiting ones while their prompts
fit into a budget of tokens and the cache has blocks. If a running request needs a block and none is
left, the youngest one gives its blocks back and is computed again later (Kwon et al. 2023,
doi:10.1145/3600006.3613165). A step is a prefill and a decode, each of which reads the weights;
attention within a prompt is left out. `paged_serving_twin.py` defines what the kernel means, and
`serving.py` has the cache.
"""

from collections import namedtuple

import foretrace as ft
import numpy as np
from foretrace.scenarios.config.schema import FileName
from foretrace.sim.kernel import policy
from foretrace.sim.kernel.jit import jit
from foretrace.sim.record.step_grid import geometric_axis

# Llama 3 8B in bf16: bytes of the weights (and flop of a token), bytes and flop of a cached token
WEIGHTS, TOKEN, ATTENTION = 16e9, 131072, 4 * 32 * 4096
PRODUCT = "compute:layers like=product bf16[]"
BLOCK, BUDGET = 16, 2048  # tokens of a block, and those that a step may prefill
AT, PROMPT, OUTPUT, MADE, BLOCKS, FIRST = range(6)  # columns of a request
ARRIVED, NEXT, RUNNING, SPARE, LEFT = range(5)  # numbers in `now`


# Arrays of the kernel; `running` has the rows of `request` that are in the batch, the oldest first.
Scheduler = namedtuple("Scheduler", "now request running")


@jit
def fits(state, turn, row):
    """Get blocks for the tokens of a request and one more; False if there are too few."""
    now, one = state.now, state.request[row]
    lacks = (one[PROMPT] + one[MADE] + BLOCK) // BLOCK - one[BLOCKS]
    more = max(lacks - now[SPARE], 0)
    if more and not policy.take(turn, 0, more):
        return False
    now[SPARE] += more - lacks
    one[BLOCKS] += lacks
    return True


@jit
def begin(state, turn):
    """Begin a step, unless nobody runs or waits."""
    now, one, running, k, context, tokens = state.now, state.request, state.running, 0, 0, 0
    while k < now[RUNNING]:  # each needs room for a token
        if fits(state, turn, running[k]):
            context, k = context + one[running[k], PROMPT] + one[running[k], MADE], k + 1
        else:
            now[RUNNING] -= 1
            now[NEXT] = running[now[RUNNING]]  # the youngest is the next to be computed
            now[SPARE], one[now[NEXT], BLOCKS] = now[SPARE] + one[now[NEXT], BLOCKS], 0
            policy.count(turn, 0, 1)
    while now[NEXT] < now[ARRIVED] and now[RUNNING] < len(running):
        if one[now[NEXT], MADE] < one[now[NEXT], OUTPUT]:
            more = one[now[NEXT], PROMPT] + one[now[NEXT], MADE]
            if (tokens and tokens + more > BUDGET) or not fits(state, turn, now[NEXT]):
                break
            tokens, running[now[RUNNING]] = tokens + more, now[NEXT]
            now[RUNNING] += 1
        now[NEXT] += 1
    if now[RUNNING]:
        policy.submit(turn, 0, 0)
        for axis, number in enumerate((tokens, context, k)):
            policy.at(turn, axis, number)


@jit
def finish(state, turn, at):
    """End a step: each running request has one token more."""
    kept, second = 0, policy.ticks_per_second(turn)
    for row in state.running[: state.now[RUNNING]]:
        one = state.request[row]
        one[MADE] += 1
        if one[MADE] == 1:
            one[FIRST] = at
            policy.emit(turn, 0, (at - one[AT]) / second)
        if one[MADE] < one[OUTPUT]:
            state.running[kept] = row
            kept += 1
        else:
            state.now[SPARE] += one[BLOCKS]
            state.now[LEFT] -= 1
            if one[OUTPUT] > 1:
                policy.emit(turn, 1, (at - one[FIRST]) / (one[OUTPUT] - 1) / second)
    state.now[RUNNING] = kept


@ft.policy_kernel
def schedule(state, event, turn):
    now, kind = state.now, event[policy.KIND]
    if kind == policy.ARRIVAL:
        now[ARRIVED] += 1
        state.request[event[policy.TAG], AT] = event[policy.NOW]
    elif kind == policy.ENDED:
        finish(state, turn, event[policy.NOW])
    if kind == policy.ENDED or not now[RUNNING]:
        begin(state, turn)
    if now[SPARE]:
        policy.release(turn, 0, now[SPARE])
        policy.settle(turn, 0)  # can be taken after this turn, by a request that arrives in it
        now[SPARE] = 0
    return policy.GO_ON if now[LEFT] else policy.DONE


def step(tokens, context, sequences):
    """Step that prefills ``tokens``, and decodes ``sequences`` with ``context`` tokens in all."""
    build, once, read = ft.Builder("step"), WEIGHTS * (tokens > 0), WEIGHTS * (sequences > 0)
    first = build.op(ft.Kind.COMPUTE, signature=PRODUCT, flop=WEIGHTS * tokens, bytes=once)
    flop, read = WEIGHTS * sequences + ATTENTION * context, read + TOKEN * context
    build.op(ft.Kind.COMPUTE, signature=PRODUCT, flop=flop, bytes=read, after=[first])
    return build.graph()


@ft.workload("paged-serving")
class PagedServing(ft.Workload):
    """Requests to a model on one GPU.

    Parameters
    ----------
    trace : CSV file with a heading, and for each request its arrival in s and the tokens of its
        prompt and output; without a file, 500 random requests
    rate : random requests that arrive per second
    sequences : most requests that run at once
    """

    metrics = (
        ft.Metric("ttft", "s", "From the arrival of a request to its first token.", better="lower"),
        ft.Metric("tpot", "s", "Time per token of a request after its first.", better="lower"),
        ft.Metric("preempted", "1", "Requests that gave their blocks back.", (), "lower"),
    )
    headline = "ttft.p99"
    needs = ft.Needs({"gpu": ft.Need("gpu", 1), "kv": ft.Need("kv", 1)})

    def __init__(self, *, trace: FileName | None = None, rate: float = 12.0, sequences: int = 128):
        self.trace, self.rate, self.sequences = trace, rate, sequences
        sizes = {"tokens": 2**17, "context": 2**18, "sequences": sequences}
        self.axes = {name: [0, *geometric_axis(1, most, 12)] for name, most in sizes.items()}

    def start(self, job):
        random, size = job.random("requests"), self.sequences
        if self.trace:
            table = np.loadtxt(self.trace, delimiter=",", skiprows=1, ndmin=2)
        else:
            at = random.exponential(1 / self.rate, 500).cumsum().round(6)  # us are ticks
            table = np.column_stack([at, random.integers((100, 20), (2000, 200), (500, 2))])
        request = np.pad(table.astype(np.int64), ((0, 0), (0, 3)))  # AT is set at the arrival
        now, running, most = np.array([0, 0, 0, 0, len(table)]), np.zeros(size, int), 8 + 4 * size
        named = {"parts": job.on["kv"], "metrics": ["ttft", "tpot"], "counters": ["preempted"]}
        named |= {"graphs": {"step": ft.StepGrid(step, self.axes)}, "arrivals": [table[:, 0]]}
        return ft.CompiledProcess(schedule, Scheduler(now, request, running), actions=most, **named)
