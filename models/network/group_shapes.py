"""Shapes of groups of GPUs: groups of one shape load parts that correspond, so one speaks for all.

A shape says which members share a machine, links, a NIC or a leaf, and what each of those parts is
like, whatever their numbers.  It is known where a way is parts of the sender's and parts of the
receiver's (machines below leaves whose uplinks are one pool), the *ends* of the two.  Where a way
has more to it (a hash of the pair, spines one by one), a group that spans several leaves has a
shape of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...sim.csr import Csr
from ...sim.system import System
from .router import GraphRouter

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class GroupShapes:
    """Shape of the group of each row, and how parts of groups of one shape correspond.

    Parameters
    ----------
    shape : (rows,) number, by first appearance
    first : (shapes,) the first row of each
    ends : by size, (groups, parts) components at the ends of the members; none where groups of that
        size were not compared
    group : (rows,) row of each in the table of its size
    size : (rows,) members

    Examples
    --------
    >>> from .link import Link
    >>> from .topology import NodeSpec, Nic, cluster
    >>> nic, nvlink = Nic(bandwidth=50e9, latency=6e-7), Link(bandwidth=450e9, latency=1e-6)
    >>> system = cluster(4, NodeSpec(gpus=2, gpu_link=nvlink, nics=2, nic=nic))
    >>> a, b, c, d, e, f, g, h = system.numbers
    >>> GroupShapes.of(Csr.of([(a, b), (c, d), (a, d), (c, f), (h, b)]), system).shape.tolist()
    [0, 0, 1, 1, 1]
    """

    shape: Ints
    first: Ints
    ends: dict[int, Ints]
    group: Ints
    size: Ints

    @classmethod
    def of(cls, members: Csr, system: System, compared: bool = True) -> GroupShapes:
        """Shapes of the groups that rows of members are.

        Parameters
        ----------
        compared : whether different groups may have one shape
        """
        size = members.counts
        number, group = np.zeros(len(size), np.int64), np.zeros(len(size), np.int64)
        ends: dict[int, Ints] = {}
        used = 0
        for n in np.unique(size).tolist():
            rows = np.flatnonzero(size == n)
            table = members.values[members.indptr[rows][:, None] + np.arange(n)].astype(np.int64)
            group[rows], first = _equal_rows(table)
            own = np.arange(len(first))
            if compared and n > 1 and isinstance(system.router, GraphRouter):
                ends[n] = system.router.ends(table[first]).reshape(len(first), -1)
                own = _shapes(table[first], ends[n], system, system.router)
            number[rows] = used + own[group[rows]]
            used += len(first)
        _, first, which = np.unique(number, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return cls(np.argsort(order)[which], first[order], ends, group, size)

    def corresponding(self, component: NDArray[np.int32], rows: Ints) -> NDArray[np.int32]:
        """(rows, parts) what components of the first group of their shape are to that of each.

        Parameters
        ----------
        rows : of one shape
        """
        first, n = self.first[self.shape[rows[0]]], int(self.size[rows[0]])
        if n not in self.ends or np.all(self.group[rows] == self.group[first]):
            return np.broadcast_to(component, (len(rows), len(component)))
        ends = self.ends[n]
        there = ends[self.group[first]]
        order = np.argsort(there, kind="stable")
        at = order[np.searchsorted(there[order], component)]
        return ends[self.group[rows]][:, at].astype(np.int32)


def _shapes(groups: Ints, ends: Ints, system: System, router: GraphRouter) -> Ints:
    """(groups,) number of each one's shape, in any order."""
    sharing = [_first_places(x) for x in (groups, *router.places(groups), ends)]
    alone = np.zeros(len(groups), np.int64)
    if not router.ends_are_whole:
        alone = np.where(router.spans_leaves(groups), 1 + np.arange(len(groups)), 0)
    like = _kinds(ends, system), router.joined(groups)
    return _equal_rows(np.hstack([*sharing, *like, alone[:, None]]))[0]


def _first_places(table: Ints) -> Ints:
    """Table whose cells say where in their row the same number stands first.

    >>> _first_places(np.array([[7, 3, 7], [5, 5, 5]])).tolist()
    [[0, 1, 0], [0, 0, 0]]
    """
    order = np.argsort(table, axis=1, kind="stable")
    ordered = np.take_along_axis(table, order, axis=1)
    new = np.ones(table.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    begins = np.maximum.accumulate(np.where(new, np.arange(table.shape[1]), 0), axis=1)
    found = np.empty_like(table)
    np.put_along_axis(found, order, np.take_along_axis(order, begins, axis=1), axis=1)
    return found


def _kinds(ends: Ints, system: System) -> Ints:
    """Table of numbers that are equal where components are alike; 0 for none."""
    there = ends >= 0
    kind = np.zeros(ends.shape, np.int64)
    kind[there] = 1 + system.likeness(ends[there])
    return kind


def _equal_rows(table: Ints) -> tuple[Ints, Ints]:
    """(rows,) number of each row, equal for equal rows; and the first row of each number."""
    if not table.shape[1]:
        return np.zeros(len(table), np.int64), np.zeros(min(len(table), 1), np.int64)
    whole = np.ascontiguousarray(table).view(np.dtype((np.void, table.shape[1] * 8))).ravel()
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    return which.astype(np.int64), first.astype(np.int64)
