"""Shapes of GPU groups: groups with equal shape load corresponding components.

So one group represents all groups of its shape. A shape records which members share a machine,
links, a NIC or a leaf switch, and the properties of those components, but not their indices. Two
groups can share a shape if every path consists only of components at the sender's end and at the
receiver's end, as below leaves with pooled uplinks. If a path also depends on a hash or on
individual spines, a group that spans several leaves has a shape of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....sim.facts.csr import Csr
from ....sim.facts.system import System
from ..topology.router import GraphRouter

Ints = NDArray[np.int64]
WIDE = 64  # tables with more columns are compared row by row


@dataclass(frozen=True)
class GroupShapes:
    """Shape of each row's group, and the mapping between components of groups with the same shape.

    Parameters
    ----------
    shape : (rows,) shape number of each row, in order of first appearance
    first : (shapes,) first row of each shape
    groups : for each group size, the distinct groups as an array of members, shape (groups, size);
        empty for sizes that were not compared
    group : (rows,) index of each row's group in the array of its size
    size : (rows,) number of members
    router : router that returns the components at the ends of paths

    Examples
    --------
    >>> from ..part.link import Link
    >>> from ..topology.topology import NodeSpec, Nic, cluster
    >>> nic, nvlink = Nic(bandwidth=50e9, latency=6e-7), Link(bandwidth=450e9, latency=1e-6)
    >>> system = cluster(4, NodeSpec(gpus=2, gpu_link=nvlink, nics=2, nic=nic))
    >>> a, b, c, d, e, f, g, h = system.numbers
    >>> GroupShapes.of(Csr.of([(a, b), (c, d), (a, d), (c, f), (h, b)]), system).shape.tolist()
    [0, 0, 1, 1, 1]
    """

    shape: Ints
    first: Ints
    groups: dict[int, Ints]
    group: Ints
    size: Ints
    router: GraphRouter | None

    @classmethod
    def of(cls, members: Csr, system: System, compared: bool = True) -> GroupShapes:
        """Compute the shapes of the groups in a table of members.

        Parameters
        ----------
        compared : True if different groups may share a shape
        """
        size = members.counts
        number, group = np.zeros(len(size), np.int64), np.zeros(len(size), np.int64)
        router = system.router if compared and isinstance(system.router, GraphRouter) else None
        alike = (
            None
            if router is None
            else _EquivalentGpus.of(members.values.astype(np.int64), system, router)
        )
        groups: dict[int, Ints] = {}
        used = 0
        for n in np.flatnonzero(np.bincount(size)).tolist():
            rows = np.flatnonzero(size == n)
            table = members.values[members.indptr[rows][:, None] + np.arange(n)].astype(np.int64)
            group[rows], first = _equal_rows(table)
            own = np.arange(len(first))
            if n < 2:
                own[:] = 0  # no traffic
            elif alike is not None:
                groups[n] = table[first]
                own = alike.shapes(groups[n])
            number[rows] = used + own[group[rows]]
            used += len(first)
        which, first = _equal_rows(number[:, None])
        order = np.argsort(first)
        return cls(np.argsort(order)[which], first[order], groups, group, size, router)

    def corresponding(self, component: NDArray[np.int32], rows: Ints) -> NDArray[np.int32]:
        """Translate components of a shape's first group to each row's group, shape (rows, parts).

        Parameters
        ----------
        component : (parts,) components of the first group
        rows : row numbers of groups with the same shape
        """
        first, n = self.first[self.shape[rows[0]]], int(self.size[rows[0]])
        if n not in self.groups or np.all(self.group[rows] == self.group[first]):
            return np.broadcast_to(component, (len(rows), len(component)))
        there = self._ends(n, self.group[first : first + 1])[0]
        order = np.argsort(there, kind="stable")
        at = order[np.searchsorted(there[order], component)]
        return self._ends(n, self.group[rows])[:, at].astype(np.int32)

    def _ends(self, n: int, groups: Ints) -> Ints:
        """Components at the ends of the members' paths, shape (groups, parts), for one size."""
        assert self.router is not None  # noqa: S101  groups of that size were compared
        which, first = _equal_rows(groups[:, None])
        return self.router.ends(self.groups[n][groups[first]]).reshape(len(first), -1)[which]


@dataclass(frozen=True)
class _EquivalentGpus:
    """Class number of each GPU, equal for GPUs with equal components around them.

    In GPUs of one class, these components have the same properties and the same index offsets from
    the GPU.

    Parameters
    ----------
    number : (components,) class of each GPU
    distinct : True if each NIC, and each leaf, has components of its own in the fabric
    """

    system: System
    router: GraphRouter
    number: Ints
    distinct: bool

    @classmethod
    def of(cls, gpus: Ints, system: System, router: GraphRouter) -> _EquivalentGpus:
        gpus = np.flatnonzero(np.bincount(gpus, minlength=1))
        ends, inside = router.ends(gpus), router.ends_in_machine
        behind, *_, nic, leaf = ends[:, inside:], *router.locations(gpus)
        ports = behind[nic >= 0]
        apart = _count(nic[nic >= 0]) + (ports.shape[1] - 1) * _count(leaf[nic >= 0])
        number = np.full(len(system.components), -1)
        far = np.where(ends >= 0, ends - gpus[:, None], -len(number))[:, :inside]
        kinds, joined = _kind_numbers(ends, system), router.local_link_kinds(gpus)
        number[gpus] = _equal_rows(np.vstack([far.T, kinds.T, joined]).T)[0]
        return cls(system, router, number, _count(ports.ravel()) == apart)

    def shapes(self, groups: Ints) -> Ints:
        """Shape number of each group, shape (groups,), in no particular order.

        Groups that are equal except for a shift by several equal machines share a shape, so only
        one of them is compared in full.
        """
        alone = np.zeros((len(groups), 1), np.int64)
        if not self.router.has_pooled_uplinks:
            alone[:, 0] = np.where(self.router.spans_leaves(groups), 1 + np.arange(len(groups)), 0)
        which = first = np.arange(len(groups))
        if self.distinct:
            places = (groups, *self.router.locations(groups))
            moved = [np.where(x >= 0, x - x[:, :1], -len(self.number)) for x in places]
            columns = np.vstack([self.number[groups].T, *(x.T for x in moved), alone.T])
            which, first = _equal_rows(columns.T)
        return _shapes(groups[first], alone[first], self.system, self.router)[which]


def _shapes(groups: Ints, alone: Ints, system: System, router: GraphRouter) -> Ints:
    """Shape number of each group, shape (groups,), in no particular order.

    Parameters
    ----------
    alone : (groups, 1) unique number for each group that must have a shape of its own
    """
    ends = router.ends(groups).reshape(len(groups), -1)
    sharing = [_first_occurrences(x) for x in (groups, *router.locations(groups), ends)]
    like = _kind_numbers(ends, system), router.local_link_kinds(groups)
    return _equal_rows(np.hstack([*sharing, *like, alone]))[0]


def _count(numbers: Ints) -> int:
    """Number of distinct values in consecutive numbers that start at 0."""
    return int(np.count_nonzero(np.bincount(numbers[numbers >= 0], minlength=1)))


def _first_occurrences(table: Ints) -> Ints:
    """Column of the first occurrence of each cell's value in its row; same shape as the table.

    >>> _first_occurrences(np.array([[7, 3, 7], [5, 5, 5]])).tolist()
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


def _kind_numbers(ends: Ints, system: System) -> Ints:
    """Kind of each component: equal numbers for equal properties, 0 for no component."""
    kind = np.append(1 + system.equivalence_classes(np.arange(len(system.components))), 0)
    return np.asarray(kind[ends])  # -1 selects the last entry, which is none


def _equal_rows(table: Ints) -> tuple[Ints, Ints]:
    """Number of each row, equal for equal rows, shape (rows,); and the first row of each number.

    >>> [x.tolist() for x in _equal_rows(np.array([[7, 1], [5, 2], [7, 1], [7, 0]]))]
    [[2, 0, 2, 1], [1, 3, 0]]
    """
    if table.shape[1] > WIDE:
        whole = np.ascontiguousarray(table).view(np.dtype((np.void, table.shape[1] * 8))).ravel()
        _, first, which = np.unique(whole, return_index=True, return_inverse=True)
        return which.astype(np.int64), first.astype(np.int64)
    number, count = np.zeros(len(table), np.int64), min(len(table), 1)
    for column in table.T:
        value, values = _dense_ranks(column)
        if values > 1:
            number, count = _dense_ranks(number * values + value)
    first = np.empty(count, np.int64)
    first[number[::-1]] = np.arange(len(table) - 1, -1, -1)  # the last of equal rows remains
    return number, first


def _dense_ranks(values: Ints) -> tuple[Ints, int]:
    """Rank of each value among the distinct values, shape (n,), and the number of distinct values.

    Values that are close together are counted in place of sorted, which is ten times faster.
    """
    if not len(values):
        return values, 0
    least, most = int(values.min()), int(values.max())
    if most - least >= 4 * len(values) + 1024:
        found, number = np.unique(values, return_inverse=True)
        return number, len(found)
    there = np.zeros(most - least + 1, bool)
    there[values - least] = True
    number = np.cumsum(there) - 1
    return number[values - least], int(number[-1]) + 1
