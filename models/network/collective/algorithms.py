"""Collective algorithms, each defined by its steps.

The time of a collective is the sum of the latencies of its steps, plus a bandwidth term set by the
busiest link. For the ring all-reduce this gives ``2(n-1)(α + S/(nB))``.

References
----------
Thakur, Rabenseifner, Gropp 2005, doi:10.1177/1094342005051521 (ring, halving-doubling, pairwise).
Chan, Heimlich, Purkayastha, van de Geijn 2007, doi:10.1002/cpe.1206 (lower bounds, blocks).
Patarasu, Yuan 2009, doi:10.1016/j.jpdc.2008.09.002 (ring all-reduce is bandwidth optimal).
Sanders, Speck, Träff 2009, doi:10.1016/j.parco.2009.09.001 (two trees at full bandwidth).
Klenk et al. 2020, doi:10.1109/ISCA45697.2020.00085 (reduction and multicast in the switch).
Hensgen, Finkel, Manber 1988, doi:10.1007/BF01379320 (dissemination barrier).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....sim.facts.splits import Splits
from ....sim.units import ByteRate, Bytes, Seconds
from .patterns import depth, power_of_two, reversed_steps, tree_climb_steps, tree_roots
from .steps import ALGORITHMS as ALGORITHMS  # registers the algorithms of these modules
from .steps import SWITCH, Algorithm, Exchange, Step, algorithm, shift, split_step


def closed_form(
    algorithm: Algorithm, n: int, size: Bytes, alpha: Seconds, rate: ByteRate
) -> Seconds:
    """Time on identical links in s: number of latencies x α + bytes of the busiest member / B.

    A pipelined algorithm is assumed to use arbitrarily small segments.

    Examples
    --------
    >>> ring = ALGORITHMS["all-reduce"]["ring"]
    >>> closed_form(ring, 4, 1e9, 1.0, 1e9) == 2 * 3 * (1.0 + 1e9 / (4 * 1e9))
    True
    """
    return algorithm.latencies(n) * alpha + algorithm.volume(n) * size / rate


def bus_factor(collective: str, n: int) -> float:
    """Ratio of bus bandwidth to algorithm bandwidth (collective size / time), as in nccl-tests.

    Bus bandwidth can be compared with the rate of one link for any n (nccl-tests,
    doc/PERFORMANCE.md).

    Examples
    --------
    >>> [bus_factor(c, 8) for c in ("all-reduce", "all-gather", "broadcast")]
    [1.75, 0.875, 1.0]
    """
    if collective == "all-reduce":
        return 2 * (n - 1) / n
    split = ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")
    return (n - 1) / n if collective in split else 1.0


# The order matters: the first of equally fast algorithms is used.

# --- rings and chains: one part to the next member ----------------------------------------------


@algorithm("all-reduce", "ring", passes_on=True)
def two_laps(n: int) -> Iterator[Step]:
    """Ring all-reduce: 1/n of the data to the next member; lap one reduces, lap two gathers.

    >>> [step.times for step in two_laps(4)]
    [6]
    """
    yield shift(n, 1, of=n, times=2 * (n - 1))


@algorithm("all-gather", "ring", passes_on=True)
@algorithm("reduce-scatter", "ring", passes_on=True)
def one_lap(n: int) -> Iterator[Step]:
    """Ring all-gather or reduce-scatter: 1/n of the data to the next member, once around the ring.

    >>> [step.times for step in one_lap(4)]
    [3]
    """
    yield shift(n, 1, of=n, times=n - 1)


@algorithm("broadcast", "chain", pipelined=True)
def chain(n: int) -> Iterator[Step]:
    """Chain: each member sends to the next one, away from member 0.

    >>> [(step.source.tolist(), step.target.tolist()) for step in chain(3)]
    [([0], [1]), ([1], [2])]
    """
    for k in range(n - 1):
        yield Step(np.array([k]), np.array([k + 1]), 1)


@algorithm("reduce", "chain", pipelined=True)
def chain_back(n: int) -> Iterator[Step]:
    """Chain: each member sends to the previous one, towards member 0.

    >>> [(step.source.tolist(), step.target.tolist()) for step in chain_back(3)]
    [([2], [1]), ([1], [0])]
    """
    yield from reversed_steps(list(chain(n)))


# --- trees ------------------------------------------------------------------------------------


@algorithm("all-reduce", "tree", pipelined=True)
def trees(n: int) -> Iterator[Step]:
    """Double binary tree: half of the data up and down each of two trees.

    >>> [step.source.tolist() for step in trees(2)]
    [[0, 1], [1, 0]]
    """
    up = tree_climb_steps(n)
    yield from [*up, *reversed_steps(up)]


@algorithm("all-reduce", "chain-tree", nested=True, pipelined=True)
def chain_tree(n: int, width: int) -> Iterator[Step]:
    """Chains within nodes, and a double binary tree between the first members of the nodes.

    >>> [(step.source.tolist(), step.target.tolist()) for step in chain_tree(4, 2)]
    [([1, 3], [0, 2]), ([0, 2], [2, 0]), ([2, 0], [0, 2]), ([0, 2], [1, 3])]
    """
    first = np.arange(0, n, width)
    down = [Step(first + k, first + k - 1, 1) for k in range(width - 1, 0, -1)]
    yield from down
    for step in trees(n // width):
        yield step._replace(source=step.source * width, target=step.target * width)
    yield from reversed_steps(down)


@algorithm("reduce", "tree", pipelined=True)
def tree_in(n: int) -> Iterator[Step]:
    """Double binary tree, reduce: half of the data up each tree; the roots send to member 0.

    >>> [(step.source.tolist(), step.target.tolist()) for step in tree_in(3)]
    [([1, 2], [2, 1]), ([2, 1], [0, 0])]
    """
    for step in tree_climb_steps(n - 1):
        yield step._replace(source=step.source + 1, target=step.target + 1)
    yield Step(tree_roots(n - 1) + 1, np.zeros(2, np.int64), 1, 2)


@algorithm("broadcast", "tree", pipelined=True)
def tree_out(n: int) -> Iterator[Step]:
    """Double binary tree, broadcast: from member 0 to the two roots, then down each tree.

    >>> [(step.source.tolist(), step.target.tolist()) for step in tree_out(3)]
    [([0, 0], [2, 1]), ([2, 1], [1, 2])]
    """
    yield from reversed_steps(list(tree_in(n)))


@algorithm("broadcast", "binomial")
def binomial(n: int) -> Iterator[Step]:
    """Binomial tree, broadcast: every member that has the data sends it on, at halving distances.

    >>> [(step.source.tolist(), step.target.tolist()) for step in binomial(6)]
    [([0], [4]), ([0], [2]), ([0, 2, 4], [1, 3, 5])]
    """
    for k in reversed(range(depth(n))):
        source = np.arange(0, n, 2 << k)
        source = source[source + (1 << k) < n]
        yield Step(source, source + (1 << k), 1)


@algorithm("reduce", "binomial")
def binomial_back(n: int) -> Iterator[Step]:
    """Binomial tree, reduce: towards member 0, at doubling distances.

    >>> [(step.source.tolist(), step.target.tolist()) for step in binomial_back(4)]
    [([1, 3], [0, 2]), ([2], [0])]
    """
    yield from reversed_steps(list(binomial(n)))


# --- within nodes, then between them ----------------------------------------------------------


def within_nodes(n: int, width: int, parts: int, of: int) -> Iterator[Step]:
    """One lap of a ring within each node of ``width`` members; no step if a node has one member.

    >>> [(s.target.tolist(), s.times) for s in within_nodes(6, 3, 1, 3)]
    [([1, 2, 0, 4, 5, 3], 2)]
    """
    here = np.arange(n)
    if width > 1:
        first = here - here % width
        yield Step(here, first + (here + 1) % width, parts, of, width - 1)


@algorithm("reduce-scatter", "hierarchical", nested=True, pipelined=True)
def scatter_within_first(n: int, width: int) -> Iterator[Step]:
    """Reduce-scatter: rings within nodes, then rings between members with the same local index.

    >>> [(s.target.tolist(), s.parts, s.times) for s in scatter_within_first(4, 2)]
    [([1, 0, 3, 2], 2, 1), ([2, 3, 0, 1], 1, 1)]
    """
    yield from within_nodes(n, width, n // width, n)
    yield shift(n, width, of=n, times=n // width - 1)


@algorithm("all-gather", "hierarchical", nested=True, pipelined=True)
def gather_between_first(n: int, width: int) -> Iterator[Step]:
    """All-gather: rings between members with the same local index, then rings within nodes.

    >>> [(s.target.tolist(), s.parts, s.times) for s in gather_between_first(4, 2)]
    [([2, 3, 0, 1], 1, 1), ([1, 0, 3, 2], 2, 1)]
    """
    yield shift(n, width, of=n, times=n // width - 1)
    yield from within_nodes(n, width, n // width, n)


@algorithm("all-reduce", "hierarchical", nested=True, pipelined=True)
def hierarchical(n: int, width: int) -> Iterator[Step]:
    """Hierarchical all-reduce: reduce-scatter in nodes, all-reduce between, all-gather in nodes.

    The all-reduce runs between the members that have the same local index in their node.

    >>> [s.times for s in hierarchical(8, 4)]
    [3, 1, 1, 3]
    """
    yield from scatter_within_first(n, width)
    yield from gather_between_first(n, width)


@algorithm("all-to-all", "hierarchical", nested=True, uneven=True)
def two_dimensional(n: int, width: int, splits: Splits | None = None) -> Iterator[Step]:
    """2D all-to-all: within the node to the receiver's local index, then between nodes.

    A message between nodes carries the data of all members of the sender's node for one receiver
    (Hwang et al. 2023, arXiv:2206.03382, section 3.3).

    >>> [(s.source.tolist(), s.target.tolist(), s.parts) for s in two_dimensional(4, 2)]
    [([0, 1, 2, 3], [1, 0, 3, 2], 2), ([0, 1, 2, 3], [2, 3, 0, 1], 2)]
    """
    here, nodes = np.arange(n), n // width
    first = here - here % width
    within, between = _phases(splits, nodes, width)
    if width > 1:
        there = [first + (here + k) % width for k in range(width - 1, 0, -1)]
        step = Step(np.tile(here, width - 1), np.concatenate(there), nodes, n)
        yield split_step(step, within)
    there = [(here + k * width) % n for k in range(nodes - 1, 0, -1)]
    step = Step(np.tile(here, nodes - 1), np.concatenate(there), width, n)
    yield split_step(step, between)


def _phases(splits: Splits | None, nodes: int, width: int) -> tuple[Splits | None, Splits | None]:
    """Splits of the two phases of a 2D all-to-all: within nodes, and between nodes."""
    if splits is None:
        return None, None
    parts = splits.parts.reshape(nodes, width, nodes, width)
    within, between = np.zeros_like(parts), np.zeros_like(parts)
    node, place = np.arange(nodes), np.arange(width)
    within[node, :, node, :] = parts.sum(axis=2)
    between[:, place, :, place] = parts.sum(axis=1).transpose(2, 0, 1)
    n = nodes * width
    return Splits(within.reshape(n, n)), Splits(between.reshape(n, n))


# --- partners at distances that double --------------------------------------------------------


@algorithm("reduce-scatter", "halving", usable=power_of_two)
def halving(n: int) -> Iterator[Step]:
    """Recursive halving: half of the data at distance 1, a quarter at distance 2, and so on.

    >>> [(step.target.tolist(), step.parts, step.of) for step in halving(4)]
    [([1, 0, 3, 2], 1, 2), ([2, 3, 0, 1], 1, 4)]
    """
    here = np.arange(n)
    for k in range(depth(n)):
        yield Step(here, here ^ (1 << k), 1, 2 << k)


@algorithm("all-gather", "doubling", usable=power_of_two)
def doubling(n: int) -> Iterator[Step]:
    """Recursive doubling: starts with the farthest partner, which gets the least data.

    >>> [step.of for step in doubling(4)]
    [4, 2]
    """
    yield from reversed_steps(list(halving(n)))


@algorithm("all-reduce", "halving-doubling", usable=power_of_two)
def halving_doubling(n: int) -> Iterator[Step]:
    """All-reduce: reduce-scatter by recursive halving, all-gather by recursive doubling.

    >>> [step.of for step in halving_doubling(4)]
    [2, 4, 4, 2]
    """
    yield from halving(n)
    yield from doubling(n)


@algorithm("barrier", "dissemination")
def dissemination(n: int) -> Iterator[Step]:
    """Dissemination barrier: messages without bytes, at distances that double.

    >>> [step.target.tolist() for step in dissemination(3)]
    [[1, 2, 0], [2, 0, 1]]
    """
    for k in range(depth(n)):
        yield shift(n, 1 << k, parts=0)


# --- all at once, farthest member first ----------------------------------------------------------


def pairwise_exchange(n: int, of: int, times: int = 1) -> Step:
    """Pairwise exchange: every member sends one part to every other member.

    >>> step = pairwise_exchange(3, of=3)
    >>> list(zip(step.source.tolist(), step.target.tolist()))
    [(0, 2), (2, 0), (0, 1), (1, 0), (1, 2), (2, 1)]
    """
    source, target = np.divmod(np.arange(n * n), n)
    near = n - np.abs(source - target)
    far = np.argsort(near.astype(np.min_scalar_type(n)), kind="stable")[: n * (n - 1)]  # by digits
    return Step(source[far], target[far], 1, of, times)


@algorithm("all-reduce", "two-shot", exchange=Exchange(times=2))
def two_shot(n: int) -> Iterator[Step]:
    """Two-shot all-reduce: each member reduces 1/n of the data, then sends it to all.

    >>> [step.times for step in two_shot(4)]
    [2]
    """
    yield pairwise_exchange(n, of=n, times=2)


@algorithm("all-reduce", "one-shot", exchange=Exchange(whole=True))
def one_shot(n: int) -> Iterator[Step]:
    """One-shot all-reduce: each member receives all buffers and reduces them itself.

    >>> [step.of for step in one_shot(4)]
    [1]
    """
    yield pairwise_exchange(n, of=1)


@algorithm("all-gather", "direct", exchange=Exchange())
@algorithm("reduce-scatter", "direct", exchange=Exchange())
@algorithm("all-to-all", "grouped", uneven=True, exchange=Exchange())
def direct(n: int, splits: Splits | None = None) -> Iterator[Step]:
    """Direct exchange: 1/n of the data from each member to each other member.

    >>> [len(step.source) for step in direct(4)]
    [12]
    """
    yield split_step(pairwise_exchange(n, of=n), splits)


@algorithm("scatter", "linear")
def scatter(n: int) -> Iterator[Step]:
    """Linear scatter: member 0 sends each other member 1/n of the data.

    >>> [step.target.tolist() for step in scatter(4)]
    [[3, 2, 1]]
    """
    yield Step(np.zeros(n - 1, np.int64), np.arange(n - 1, 0, -1), 1, n)


@algorithm("gather", "linear")
def gather(n: int) -> Iterator[Step]:
    """Linear gather: member 0 gets 1/n of the data from each other member.

    >>> [step.source.tolist() for step in gather(4)]
    [[3, 2, 1]]
    """
    yield from reversed_steps(list(scatter(n)))


@algorithm("all-reduce", "in-switch", usable=lambda n: n >= 3, in_switch=True, pipelined=True)
def in_switch(n: int) -> Iterator[Step]:
    """In-switch reduction: the switch reads all buffers, reduces and multicasts.

    >>> [step.parts.tolist() for step in in_switch(3)]
    [[3, 3, 3, 1, 1, 1], [1, 1, 1, 3, 3, 3]]
    """
    here, switch = np.arange(n), np.full(n, SWITCH)
    source, target = np.concatenate([here, switch]), np.concatenate([switch, here])
    for out, into in ((n, 1), (1, n)):
        yield Step(source, target, np.repeat([out, into], n), n)


# --- round by round ---------------------------------------------------------------------------


@algorithm("all-to-all", "pairwise", uneven=True)
def rounds(n: int, splits: Splits | None = None) -> Iterator[Step]:
    """All-to-all in rounds: in round k, each member sends 1/n of its data k positions ahead.

    >>> [step.target.tolist() for step in rounds(3)]
    [[1, 2, 0], [2, 0, 1]]
    """
    for k in range(1, n):
        yield split_step(shift(n, k, of=n), splits)
