"""Double binary trees: inner nodes of one tree are leaves of the other.

Sanders, Speck, Träff 2009, doi:10.1016/j.parco.2009.09.001.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .steps import Step


def depth(n: int) -> int:
    """Depth of a binary tree of n nodes: least k with 2^k >= n.

    >>> [depth(n) for n in (1, 2, 3, 8, 9)]
    [0, 1, 2, 3, 4]
    """
    return (n - 1).bit_length()


def power_of_two(n: int) -> bool:
    """True if n is 2, 4, 8, ….

    >>> [power_of_two(n) for n in (1, 2, 6, 8)]
    [False, True, False, True]
    """
    return n >= 2 and n & (n - 1) == 0


def tree_parent(i: int, n: int) -> int:
    """Parent of node ``i`` (1 to n) in the binary tree with odd leaves; 0 for the root.

    >>> [tree_parent(i, 6) for i in range(1, 7)]
    [2, 4, 2, 0, 6, 4]
    """
    low = i & -i
    if i == 1 << (n.bit_length() - 1):
        return 0
    above = (i - low) | (low << 1)
    return above if above <= n else i - low


def mirror_position(member: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Member's position in the second tree: mirrored for even n, shifted by one for odd n.

    >>> mirror_position(np.arange(4), 4).tolist(), mirror_position(np.arange(3), 3).tolist()
    ([3, 2, 1, 0], [1, 2, 0])
    """
    return (member + 1) % n if n % 2 else n - 1 - member


def tree_roots(n: int) -> NDArray[np.int64]:
    """Members at the roots of the two trees.

    >>> tree_roots(4).tolist()
    [3, 0]
    """
    top = np.array([(1 << (n.bit_length() - 1)) - 1])
    return np.concatenate([top, mirror_position(top, n)])


def tree_climb_steps(n: int) -> list[Step]:
    """Steps that send half of the data up each of the two trees, level by level.

    >>> [(step.source.tolist(), step.target.tolist()) for step in tree_climb_steps(4)]
    [([0, 2, 3, 1], [1, 1, 2, 2]), ([1, 2], [3, 0])]
    """
    levels: dict[int, list[int]] = {}
    for i in range(1, n + 1):
        levels.setdefault(_tree_depth(i, n), []).append(i)
    steps = []
    for level in sorted(levels, reverse=True)[:-1]:
        low = np.array(levels[level])
        high = np.array([tree_parent(i, n) for i in levels[level]])
        low, high = low - 1, high - 1
        source, target = ([a, mirror_position(a, n)] for a in (low, high))
        steps.append(Step(np.concatenate(source), np.concatenate(target), 1, 2))
    return steps


def _tree_depth(i: int, n: int) -> int:
    """Number of edges between a node and the root."""
    level = 0
    while (i := tree_parent(i, n)) != 0:
        level += 1
    return level


def reversed_steps(steps: list[Step]) -> list[Step]:
    """Steps in reverse order, with each message in the opposite direction.

    >>> descent = reversed_steps(tree_climb_steps(3))
    >>> [(step.source.tolist(), step.target.tolist()) for step in descent]
    [([1, 1, 2, 2], [0, 2, 1, 0])]
    """
    return [s._replace(source=s.target, target=s.source) for s in reversed(steps)]
