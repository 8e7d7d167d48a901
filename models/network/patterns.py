"""The shapes that collectives are made of: rings, chains, trees, pairs, stars.

A shape says who sends how much to whom, or whose latencies add up from first byte to last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SWITCH = -1

Flows = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""(senders, receivers, share of S that each pair carries): member numbers, or ``SWITCH``."""
Path = list[tuple[int, int]]
"""The pairs whose latencies add up from the first byte to the last arrival."""
Share = Callable[[int], float]


def depth(n: int) -> int:
    """Least k with 2^k >= n.

    >>> [depth(n) for n in (1, 2, 3, 8, 9)]
    [0, 1, 2, 3, 4]
    """
    return (n - 1).bit_length()


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


def ring(share: Share) -> Callable[[int], Flows]:
    """Every member sends to the next.

    >>> ring(lambda n: 1 / n)(4)[1].tolist()
    [1, 2, 3, 0]
    """

    def flows(n: int) -> Flows:
        here = np.arange(n)
        return here, (here + 1) % n, np.full(n, share(n))

    return flows


def chain(into: bool) -> Callable[[int], Flows]:
    """Everything passes from member to member, away from member 0 or to it, in a pipeline.

    >>> chain(into=True)(3)[0].tolist(), chain(into=True)(3)[1].tolist()
    ([1, 2], [0, 1])
    """

    def flows(n: int) -> Flows:
        near, far, whole = np.arange(n - 1), np.arange(1, n), np.ones(n - 1)
        return (far, near, whole) if into else (near, far, whole)

    return flows


def pairs(share: Share) -> Callable[[int], Flows]:
    """Every member sends to every other.

    >>> len(pairs(lambda n: 1 / n)(4)[0])
    12
    """

    def flows(n: int) -> Flows:
        source, target = np.divmod(np.arange(n * n), n)
        other = source != target
        return source[other], target[other], np.full(n * (n - 1), share(n))

    return flows


def star(into: bool) -> Callable[[int], Flows]:
    """Member 0 gets a part from, or gives one to, every other.

    >>> star(into=True)(4)[0].tolist()
    [1, 2, 3]
    """

    def flows(n: int) -> Flows:
        leaf, root = np.arange(1, n), np.zeros(n - 1, np.int64)
        return (leaf, root, np.full(n - 1, 1 / n)) if into else (root, leaf, np.full(n - 1, 1 / n))

    return flows


def doubling(phases: int) -> Callable[[int], Flows]:
    """Half of S at distance 1, a quarter at distance 2, …: near partners carry most.

    >>> doubling(1)(4)[2].tolist()
    [0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    """

    def flows(n: int) -> Flows:
        here = np.arange(n)
        return _joined(
            [(here, here ^ (1 << k), np.full(n, phases / (2 << k))) for k in range(depth(n))]
        )

    return flows


def trees(n: int) -> Flows:
    """Half of S up and down each of two trees: inner nodes of one are leaves of the other.

    >>> float(trees(8)[2].sum())  # 2 trees x 7 edges x up and down x S / 2
    14.0
    """
    half = [(low, high, np.full(len(low), 0.5)) for low, high in _two_trees(n)]
    return _joined(half + [(high, low, share) for low, high, share in half])


def chained_trees(n: int, width: int) -> Flows:
    """A chain through each node, and the two trees between their first members.

    >>> len(chained_trees(16, 8)[0])  # 2 chains of 7, up and down; 2 trees of 1 edge
    32
    """
    inner = np.arange(n)[np.arange(n) % width > 0]
    low, high, share = trees(n // width)
    whole = np.ones(len(inner))
    return _joined(
        [
            (inner, inner - 1, whole),
            (inner - 1, inner, whole),
            (low * width, high * width, share),
        ]
    )


def rooted(into: bool) -> Callable[[int], Flows]:
    """Two trees of all but member 0, which gives half of S to the root of each, or gets it.

    >>> high = rooted(into=False)(4)[1]
    >>> np.bincount(high).tolist()  # two halves to each but member 0
    [0, 2, 2, 2]
    """

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


def switched(n: int) -> Flows:
    """The switch reads all buffers and returns each member's part, which it then multicasts.

    >>> switched(4)[2].tolist()[:1]
    [1.25]
    """
    here, switch = np.arange(n), np.full(n, SWITCH)
    share = np.full(n, 1 + 1 / n)
    return _joined([(here, switch, share), (switch, here, share)])


def _joined(parts: list[Flows]) -> Flows:
    source, target, share = zip(*parts, strict=True)
    return np.concatenate(source), np.concatenate(target), np.concatenate(share)


def nothing(n: int) -> Flows:
    """No bytes, only messages.

    >>> nothing(3)[2].tolist()
    [0.0, 0.0, 0.0]
    """
    here = np.arange(n)
    return here, (here + 1) % n, np.zeros(n)


# --- whose latencies add up -------------------------------------------------------------------


def rounds(laps: int) -> Callable[[int], Path]:
    """``laps`` times from member to member, n - 1 hops each.

    >>> rounds(2)(3)
    [(0, 1), (1, 2), (2, 0), (0, 1)]
    """
    return lambda n: [(i % n, (i + 1) % n) for i in range(laps * (n - 1))]


def back(n: int) -> Path:
    """From the last member to the first.

    >>> back(3)
    [(2, 1), (1, 0)]
    """
    return [(i, i - 1) for i in range(n - 1, 0, -1)]


def distances(phases: int) -> Callable[[int], Path]:
    """Partners at distances that double.

    >>> distances(1)(8)
    [(0, 1), (0, 2), (0, 4)]
    """
    return lambda n: [(0, (1 << k) % n) for k in range(depth(n))] * phases


def climb(n: int) -> Path:
    """From the deepest leaf, member 0, to the root of the tree and back.

    >>> climb(4)
    [(0, 1), (1, 3), (3, 1), (1, 0)]
    """
    hops = _hops(n)
    return hops + [(b, a) for a, b in reversed(hops)]


def chained_climb(n: int, width: int) -> Path:
    """Down the chain of a node, up the tree and back.

    >>> chained_climb(4, 2)
    [(1, 0), (0, 2), (2, 0), (0, 1)]
    """
    chain = [(i, i - 1) for i in range(width - 1, 0, -1)]
    between = [(a * width, b * width) for a, b in climb(n // width)]
    return [*chain, *between, *((b, a) for a, b in reversed(chain))]


def to_root(n: int) -> Path:
    """From the deepest leaf of the tree without member 0 to its root, then to member 0.

    >>> to_root(4)
    [(1, 2), (2, 0)]
    """
    hops = [(a + 1, b + 1) for a, b in _hops(n - 1)]
    return [*hops, (hops[-1][1] if hops else 1, 0)]


def from_root(n: int) -> Path:
    """From member 0 to the deepest leaf of the tree of the others.

    >>> from_root(4)
    [(0, 2), (2, 1)]
    """
    return [(b, a) for a, b in reversed(to_root(n))]


def _hops(n: int) -> Path:
    """From leaf to root in the first tree."""
    hops, here = [], 1
    while parent(here, n):
        hops.append((here - 1, parent(here, n) - 1))
        here = parent(here, n)
    return hops


def direct(steps: int) -> Callable[[int], Path]:
    """All at once, to the farthest.

    >>> direct(2)(8)
    [(0, 7), (0, 7)]
    """
    return lambda n: [(0, n - 1)] * steps


def others(n: int) -> int:
    """One message to each of the others.

    >>> others(8)
    7
    """
    return n - 1
