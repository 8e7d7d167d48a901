"""Example of page tiering: a count-min sketch finds hot pages, which move to the fast memory.

The kernel draws accesses to pages, of which a few are hot, and counts those of the slow memory in
a sketch: rows of counters, of which a page has one each by a hash. The least one is never below its
number of accesses (Cormode and Muthukrishnan 2005, doi:10.1016/j.jalgor.2003.12.001). A page whose
estimate reaches the threshold is promoted. It takes the place of the next page of the fast memory
that was not used since the clock hand passed it. Moves are copies that share both memories with the
accesses of the next epoch.
"""

from typing import NamedTuple

import foretrace as ft
import numpy as np
from foretrace.sim.facts.backend import Usage
from foretrace.sim.kernel import policy
from foretrace.sim.kernel.jit import jit
from foretrace.sim.units import Ratio

PRIME, HOT_FROM = 2**31 - 1, 4  # of random numbers and hashes; accesses that make a page hot
DRAWN, MOVED, IN_FLIGHT = 50 * 64.0, 2 * 4096.0, 20e3  # bytes: 50 accesses; a page out and one in
CROSSED = {"copy:fast": ("dram",), "copy:slow": ("cxl",), "copy:move": ("dram", "cxl")}
SLOW, LISTED, FAST, USED = range(4)  # a page, by its memory; used ones since the hand passed
SPEND, MOVE = range(2)  # graphs, and the tags of their ends
RANDOM, EPOCH, HAND, HOT, MOVING, HEAT, EPOCHS, SAMPLES, QUOTA = range(9)  # numbers in `now`


class Tiers(NamedTuple):
    now: np.ndarray
    page: np.ndarray  # one of SLOW, LISTED, FAST, USED
    hot: np.ndarray  # pages that are listed; the first ones are on their way
    sketch: np.ndarray  # rows of counters


@jit
def draw(state, below):
    state.now[RANDOM] = state.now[RANDOM] * 48271 % PRIME  # Park and Miller's generator
    return state.now[RANDOM] * below // PRIME


@jit
def estimate(sketch, page):
    """Count an access to a page; returns how many there were, or more."""
    least = PRIME
    for row in range(sketch.shape[0]):
        cell = (page + 1) * (40503 * row + 69621) % PRIME % sketch.shape[1]
        sketch[row, cell] += 1
        least = min(least, sketch[row, cell])
    return least


@jit
def spend(state, turn):
    """Submit the accesses of one epoch, first those to the fast memory and then the others."""
    now, n, hits = state.now, len(state.page), 0
    for _ in range(now[SAMPLES]):
        warm = n - n // 8 if draw(state, 1000) < now[HEAT] else 0
        k = warm + draw(state, n - warm)
        if state.page[k] >= FAST:
            hits, state.page[k] = hits + 1, USED
        elif estimate(state.sketch, k) >= HOT_FROM and state.page[k] == SLOW:
            state.hot[now[HOT]], state.page[k] = k, LISTED
            now[HOT] += 1
    state.sketch[:] = 0
    policy.submit(turn, SPEND, SPEND)
    policy.with_bytes(turn, 0, DRAWN * hits)
    policy.with_bytes(turn, 1, DRAWN * (now[SAMPLES] - hits))
    policy.emit(turn, 0, hits / now[SAMPLES])


@jit
def move(state, turn):
    """Begin to move hot pages, each in exchange for one that is not used."""
    now, page = state.now, state.page
    now[MOVING] = min(now[HOT], now[QUOTA])
    for _ in range(now[MOVING]):
        while page[now[HAND]] != FAST:
            page[now[HAND]] -= page[now[HAND]] == USED
            now[HAND] = (now[HAND] + 1) % len(page)
        page[now[HAND]] = SLOW
    if now[MOVING]:
        policy.submit(turn, MOVE, MOVE)
        policy.with_bytes(turn, 0, MOVED * now[MOVING])


@ft.policy_kernel
def tiering(state, event, turn):
    now = state.now
    if event[policy.TAG] == MOVE:
        state.page[state.hot[: now[HOT]]] = SLOW  # what is still hot is listed again
        state.page[state.hot[: now[MOVING]]] = USED
        now[HOT] = now[MOVING] = 0
    elif now[EPOCH] == now[EPOCHS]:
        return policy.DONE
    else:
        now[EPOCH] += 1
        if not now[MOVING]:
            move(state, turn)
        spend(state, turn)
    return policy.GO_ON


@ft.backend("tiers")
class TieredMemory(ft.Backend):
    """Bytes that cross one or both memories of a machine, at the latencies of both."""

    source = "model:tiers"

    def timing(self, ops, now=0.0):
        parts, rows = ops.at.system.components, range(len(ops))
        memory = {c.role: k for k, c in enumerate(parts) if c.kind == "memory"}
        paths = [[memory[role] for role in CROSSED[ops.signature_text(row)]] for row in rows]
        latency = np.array([sum(parts[c].latency for c in path) for path in paths]) + 1e-15
        usage = Usage.of([dict.fromkeys(path, 1.0) for path in paths])
        return ft.Timing.of(0.0 * latency, ops.bytes, usage, limit=IN_FLIGHT / latency)


@ft.workload("page-tiering")
class PageTiering(ft.Workload):
    """Accesses to pages of two memories, in epochs; the hot pages begin in the slow memory.

    Parameters
    ----------
    pages, fast : number of pages, and of those in the fast memory
    heat : share of accesses that go to the last eighth of the pages only
    epochs, samples : number of epochs, and of accesses that are drawn in each
    quota, width : pages that move at a time, and counters in a row of the sketch
    """

    metrics = (ft.Metric("hit_rate", "", "Accesses to the fast memory, of all.", better="higher"),)
    needs = ft.Needs({"host": ft.Need("host", 1)})

    def __init__(
        self,
        *,
        pages: int = 16384,
        fast: int = 4096,
        heat: Ratio = 0.9,
        epochs: int = 100,
        samples: int = 20000,
        quota: int = 256,
        width: int = 8192,
    ):
        self.of = round(1000 * heat), epochs, samples, min(quota, fast)
        self.page = np.where(np.arange(pages) < fast, FAST, SLOW)
        self.sketch = np.zeros((3, width), np.int64)

    def start(self, job):
        accesses, moves = ft.Builder("accesses"), ft.Builder("moves")
        first = accesses.op(ft.Kind.COPY, bytes=0.0, signature="copy:fast")
        accesses.op(ft.Kind.COPY, bytes=0.0, signature="copy:slow", after=[first])
        moves.op(ft.Kind.COPY, bytes=0.0, signature="copy:move")
        now = np.array([job.random("accesses").integers(1, PRIME), 0, 0, 0, 0, *self.of])
        state = Tiers(now, self.page, np.zeros_like(self.page), self.sketch)
        graphs = {"accesses": accesses.graph(), "moves": moves.graph()}
        return ft.CompiledProcess(tiering, state, graphs=graphs, metrics=["hit_rate"])
