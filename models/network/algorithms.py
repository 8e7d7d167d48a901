"""How collectives move data: for each algorithm its steps, and who sends how much to whom.

Everything else follows: the steps give the latency, the flows give the load on every link, and
the busiest link gives the bandwidth term.  For the ring that is ``2(n-1)(α + S/(nB))``.

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.units import ByteRate, Bytes, Seconds

SWITCH = -1

Flows = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""(senders, receivers, share of S that each pair carries): member numbers, or ``SWITCH``."""
Path = list[tuple[int, int]]
"""The pairs whose latencies add up from the first byte to the last arrival."""
Share = Callable[[int], float]


@dataclass(frozen=True)
class Algorithm:
    """One way to do one collective of ``S`` bytes with ``n`` members.

    Parameters
    ----------
    collective, name : str
    flows : from n to Flows
    path : from n to Path
    usable : whether it works for n members
    in_switch : bool
        Needs a switch that reduces and multicasts.
    posts : messages that a member posts one after the other in a step
    nested : bool
        Between nodes only; ``flows`` and ``path`` also take the number of members in a node.
    """

    collective: str
    name: str
    flows: Callable[..., Flows]
    path: Callable[..., Path]
    usable: Callable[[int], bool] = lambda n: n >= 2
    in_switch: bool = False
    posts: Callable[[int], int] = lambda n: 1
    nested: bool = False

    def steps(self, *n: int) -> int:
        """Latencies that add up.

        >>> ALGORITHMS["all-reduce"]["ring"].steps(8)
        14
        """
        return len(self.path(*n))

    def volume(self, *n: int) -> float:
        """What the busiest member sends or receives, as a multiple of S.

        >>> ALGORITHMS["all-reduce"]["ring"].volume(8)
        1.75
        """
        source, target, share = self.flows(*n)
        out = np.bincount(source[source != SWITCH], share[source != SWITCH], n[0])
        into = np.bincount(target[target != SWITCH], share[target != SWITCH], n[0])
        return float(max(out.max(), into.max()))


def closed_form(
    algorithm: Algorithm, n: int, size: Bytes, alpha: Seconds, rate: ByteRate
) -> Seconds:
    """Time on identical links: steps x α + volume x S / B.

    Examples
    --------
    >>> ring = ALGORITHMS["all-reduce"]["ring"]
    >>> closed_form(ring, 4, 1e9, 1.0, 1e9) == 2 * 3 * (1.0 + 1e9 / (4 * 1e9))
    True
    """
    return algorithm.steps(n) * alpha + algorithm.volume(n) * size / rate


def bus_factor(collective: str, n: int) -> float:
    """Bus bandwidth is algorithm bandwidth (S / time) times this, the convention of nccl-tests.

    It makes the number comparable with the rate of one link, whatever n
    (nccl-tests, doc/PERFORMANCE.md).

    Examples
    --------
    >>> [bus_factor(c, 8) for c in ("all-reduce", "all-gather", "broadcast")]
    [1.75, 0.875, 1.0]
    """
    if collective == "all-reduce":
        return 2 * (n - 1) / n
    split = ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")
    return (n - 1) / n if collective in split else 1.0


def depth(n: int) -> int:
    """Least k with 2^k >= n.

    >>> [depth(n) for n in (1, 2, 3, 8, 9)]
    [0, 1, 2, 3, 4]
    """
    return (n - 1).bit_length()


def power_of_two(n: int) -> bool:
    """Whether n is 2, 4, 8, ….

    >>> [power_of_two(n) for n in (1, 2, 6, 8)]
    [False, True, False, True]
    """
    return n >= 2 and n & (n - 1) == 0


def parent(i: int, n: int) -> int:
    """Parent of node ``i`` (1 to n) in the binary tree whose leaves are odd; 0 of the root.

    >>> [parent(i, 6) for i in range(1, 7)]
    [2, 4, 2, 0, 6, 4]
    """
    low = i & -i
    if i == 1 << (n.bit_length() - 1):
        return 0
    above = (i - low) | (low << 1)
    return above if above <= n else i - low


# --- who sends how much to whom ---------------------------------------------------------------


def _ring(share: Share) -> Callable[[int], Flows]:
    """Every member sends to the next."""

    def flows(n: int) -> Flows:
        here = np.arange(n)
        return here, (here + 1) % n, np.full(n, share(n))

    return flows


def _chain(into: bool) -> Callable[[int], Flows]:
    """Everything passes from member to member, away from member 0 or to it, in a pipeline."""

    def flows(n: int) -> Flows:
        near, far, whole = np.arange(n - 1), np.arange(1, n), np.ones(n - 1)
        return (far, near, whole) if into else (near, far, whole)

    return flows


def _pairs(share: Share) -> Callable[[int], Flows]:
    """Every member sends to every other."""

    def flows(n: int) -> Flows:
        source, target = np.divmod(np.arange(n * n), n)
        other = source != target
        return source[other], target[other], np.full(n * (n - 1), share(n))

    return flows


def _star(into: bool) -> Callable[[int], Flows]:
    """Member 0 gets a part from, or gives one to, every other."""

    def flows(n: int) -> Flows:
        leaf, root = np.arange(1, n), np.zeros(n - 1, np.int64)
        return (leaf, root, np.full(n - 1, 1 / n)) if into else (root, leaf, np.full(n - 1, 1 / n))

    return flows


def _doubling(phases: int) -> Callable[[int], Flows]:
    """Half of S at distance 1, a quarter at distance 2, …: near partners carry most."""

    def flows(n: int) -> Flows:
        here = np.arange(n)
        return _joined(
            [(here, here ^ (1 << k), np.full(n, phases / (2 << k))) for k in range(depth(n))]
        )

    return flows


def _trees(n: int) -> Flows:
    """Half of S up and down each of two trees: inner nodes of one are leaves of the other."""
    half = [(low, high, np.full(len(low), 0.5)) for low, high in _two_trees(n)]
    return _joined(half + [(high, low, share) for low, high, share in half])


def _chained_trees(n: int, width: int) -> Flows:
    """A chain through each node, and the two trees between their first members."""
    inner = np.arange(n)[np.arange(n) % width > 0]
    low, high, share = _trees(n // width)
    whole = np.ones(len(inner))
    return _joined(
        [
            (inner, inner - 1, whole),
            (inner - 1, inner, whole),
            (low * width, high * width, share),
        ]
    )


def _rooted(into: bool) -> Callable[[int], Flows]:
    """Two trees of all but member 0, which gives half of S to the root of each, or gets it."""

    def flows(n: int) -> Flows:
        root = (1 << ((n - 1).bit_length() - 1)) - 1
        roots = np.array([root, _twin(root, n - 1)])
        parts = [(low, high, np.full(len(low), 0.5)) for low, high in _two_trees(n - 1)]
        low, high, share = _joined([*parts, (roots, np.full(2, -1), np.full(2, 0.5))])
        low, high = low + 1, high + 1  # member 0 is outside the trees
        return (low, high, share) if into else (high, low, share)

    return flows


def _two_trees(n: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(children, parents) of a tree and of its mirror (n even) or its shift by one (n odd)."""
    edges = [(i - 1, parent(i, n) - 1) for i in range(1, n + 1) if parent(i, n)]
    low, high = np.array(edges, np.int64).reshape(-1, 2).T
    return [(low, high), (_twin(low, n), _twin(high, n))]


def _twin(member: Any, n: int) -> Any:
    """Who has a member's place in the other tree."""
    return (member + 1) % n if n % 2 else n - 1 - member


def _switched(n: int) -> Flows:
    """The switch reads all buffers and returns each member's part, which it then multicasts."""
    here, switch = np.arange(n), np.full(n, SWITCH)
    share = np.full(n, 1 + 1 / n)
    return _joined([(here, switch, share), (switch, here, share)])


def _joined(parts: list[Flows]) -> Flows:
    source, target, share = zip(*parts, strict=True)
    return np.concatenate(source), np.concatenate(target), np.concatenate(share)


def _nothing(n: int) -> Flows:
    """No bytes, only messages."""
    here = np.arange(n)
    return here, (here + 1) % n, np.zeros(n)


# --- whose latencies add up -------------------------------------------------------------------


def _round(laps: int) -> Callable[[int], Path]:
    """``laps`` times from member to member, n - 1 hops each."""
    return lambda n: [(i % n, (i + 1) % n) for i in range(laps * (n - 1))]


def _back(n: int) -> Path:
    """From the last member to the first."""
    return [(i, i - 1) for i in range(n - 1, 0, -1)]


def _distances(phases: int) -> Callable[[int], Path]:
    """Partners at distances that double."""
    return lambda n: [(0, (1 << k) % n) for k in range(depth(n))] * phases


def _climb(n: int) -> Path:
    """From the deepest leaf, member 0, to the root of the tree and back."""
    hops = _hops(n)
    return hops + [(b, a) for a, b in reversed(hops)]


def _chained_climb(n: int, width: int) -> Path:
    """Down the chain of a node, up the tree and back."""
    chain = [(i, i - 1) for i in range(width - 1, 0, -1)]
    between = [(a * width, b * width) for a, b in _climb(n // width)]
    return [*chain, *between, *((b, a) for a, b in reversed(chain))]


def _to_root(n: int) -> Path:
    """From the deepest leaf of the tree without member 0 to its root, then to member 0."""
    hops = [(a + 1, b + 1) for a, b in _hops(n - 1)]
    return [*hops, (hops[-1][1] if hops else 1, 0)]


def _from_root(n: int) -> Path:
    return [(b, a) for a, b in reversed(_to_root(n))]


def _hops(n: int) -> Path:
    """From leaf to root in the first tree."""
    hops, here = [], 1
    while parent(here, n):
        hops.append((here - 1, parent(here, n) - 1))
        here = parent(here, n)
    return hops


def _direct(steps: int) -> Callable[[int], Path]:
    """All at once, to the farthest."""
    return lambda n: [(0, n - 1)] * steps


def _others(n: int) -> int:
    """One message to each of the others."""
    return n - 1


ALL = (
    Algorithm("all-reduce", "ring", _ring(lambda n: 2 * (n - 1) / n), _round(2)),
    Algorithm("all-reduce", "tree", _trees, _climb),
    Algorithm("all-reduce", "chain-tree", _chained_trees, _chained_climb, nested=True),
    Algorithm("all-reduce", "halving-doubling", _doubling(2), _distances(2), power_of_two),
    Algorithm("all-reduce", "two-shot", _pairs(lambda n: 2 / n), _direct(2), posts=_others),
    Algorithm("all-reduce", "one-shot", _pairs(lambda n: 1.0), _direct(1), posts=_others),
    Algorithm("all-reduce", "in-switch", _switched, _direct(2), lambda n: n >= 3, in_switch=True),
    Algorithm("all-gather", "ring", _ring(lambda n: (n - 1) / n), _round(1)),
    Algorithm("all-gather", "doubling", _doubling(1), _distances(1), power_of_two),
    Algorithm("all-gather", "direct", _pairs(lambda n: 1 / n), _direct(1), posts=_others),
    Algorithm("reduce-scatter", "ring", _ring(lambda n: (n - 1) / n), _round(1)),
    Algorithm("reduce-scatter", "halving", _doubling(1), _distances(1), power_of_two),
    Algorithm("reduce-scatter", "direct", _pairs(lambda n: 1 / n), _direct(1), posts=_others),
    Algorithm("all-to-all", "grouped", _pairs(lambda n: 1 / n), _direct(1), posts=_others),
    Algorithm("all-to-all", "pairwise", _pairs(lambda n: 1 / n), _round(1)),
    Algorithm("broadcast", "chain", _chain(into=False), _round(1)),
    Algorithm("broadcast", "tree", _rooted(into=False), _from_root),
    Algorithm("reduce", "chain", _chain(into=True), _back),
    Algorithm("reduce", "tree", _rooted(into=True), _to_root),
    Algorithm("gather", "linear", _star(into=True), _direct(1)),
    Algorithm("scatter", "linear", _star(into=False), _direct(1), posts=_others),
    Algorithm("barrier", "dissemination", _nothing, _distances(1)),
)

ALGORITHMS: dict[str, dict[str, Algorithm]] = {}
for _a in ALL:
    ALGORITHMS.setdefault(_a.collective, {})[_a.name] = _a
