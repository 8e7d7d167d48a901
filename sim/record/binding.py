"""Binding of backends to components, and timing of all ops by one call to each backend."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import UNBOUNDED, BackendError, GraphError
from ..facts.backend import Backend, Spread, Timing, check_timing
from ..facts.csr import Csr
from ..facts.doubt import Doubt
from ..facts.graph import Graph
from ..facts.op_time_overrides import SAID, OpTimeOverrides
from ..facts.ops import Kind, Ops
from ..facts.part_names import Names
from ..facts.place import timing_component_per_op
from ..facts.roles import NETWORK
from ..facts.system import PartialRouter, System
from ..facts.timing_merge import Merge

AS_RECORDED = "recorded: delay or gap of the trace"
NOBODY, TOLD = -1, -2  # component codes of ops that no backend times: as recorded, or overridden


class Bindings(Sequence[Backend | None]):
    """Backend of each component; a sequence indexed by component number.

    Parameters
    ----------
    backends : the distinct backends
    backend_index : (components,) index into ``backends`` of each component; -1 for no backend

    Examples
    --------
    >>> model = Backend()
    >>> bound = Bindings.of([model, None, model])
    >>> bound.backend_index.tolist(), bound[1], bound[2] is model
    ([0, -1, 0], None, True)
    """

    def __init__(self, backends: Sequence[Backend], backend_index: NDArray[np.int32]):
        self.backends, self.backend_index = tuple(backends), backend_index

    @classmethod
    def of(cls, bound: Sequence[Backend | None]) -> Bindings:
        """Bindings from a sequence with the backend of each component."""
        if isinstance(bound, cls):
            return bound
        once = {id(b): b for b in bound if b is not None}
        number = {key: i for i, key in enumerate(once)}
        return cls(tuple(once.values()), np.array([number.get(id(b), -1) for b in bound], np.int32))

    def __len__(self) -> int:
        return len(self.backend_index)

    @overload
    def __getitem__(self, at: int) -> Backend | None: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Backend | None]: ...
    def __getitem__(self, at: int | slice) -> Backend | Sequence[Backend | None] | None:
        """Backend of a component by number, or of several by a slice."""
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        which = int(self.backend_index[at])
        return None if which < 0 else self.backends[which]

    def first_component_per_backend(self, components: Sequence[int]) -> list[int]:
        """First of the given components for each distinct backend.

        Components without a backend count as one more group.
        """
        numbers = np.asarray(components, np.int64)
        _, first = np.unique(self.backend_index[numbers], return_index=True)
        return [int(i) for i in numbers[first]]

    def without_unused(self) -> Bindings:
        """Bindings without backends that no component uses, ordered by first use."""
        used, first = np.unique(self.backend_index[self.backend_index >= 0], return_index=True)
        order = used[np.argsort(first)]
        place = np.full(len(self.backends) + 1, -1, np.int32)  # the last one: no backend
        place[order] = np.arange(len(order))
        return Bindings([self.backends[i] for i in order.tolist()], place[self.backend_index])

    def map_backends(self, function: Callable[[Backend], Backend]) -> Bindings:
        """Bindings in which each backend is replaced by the result of a function."""
        return Bindings([function(b) for b in self.backends], self.backend_index)


class BackendsByName(Mapping[str, Backend]):
    """Mapping from component name to backend, computed without storing every name.

    Parameters
    ----------
    names : names of all components
    bound : backend of each component

    Examples
    --------
    >>> from foretrace.sim.facts.part_names import ListedNames
    >>> model = Backend()
    >>> named = BackendsByName(ListedNames(("a", "b"), ("", "")), Bindings.of([None, model]))
    >>> list(named), named["b"] is model, "a" in named
    (['b'], True, False)
    """

    def __init__(self, names: Names, bound: Bindings):
        self.names, self.bound = names, bound

    @cached_property
    def _numbers(self) -> list[int]:
        return [int(i) for i in np.flatnonzero(self.bound.backend_index >= 0)]

    def __getitem__(self, name: str) -> Backend:
        """Backend of the component with the given name."""
        number = self.names.find(name)
        found = self.bound[number] if number >= 0 else None
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        """Iterator over the names of components with a backend."""
        return map(self.names.name, self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def values(self) -> ValuesView[Backend]:
        """The distinct backends."""
        return dict(enumerate(self.bound.backends)).values()

    def map_backends(self, function: Callable[[Backend], Backend]) -> BackendsByName:
        """Mapping in which each backend is replaced by the result of a function."""
        return BackendsByName(self.names, self.bound.map_backends(function))


def map_backends(
    backends: Mapping[str, Backend], function: Callable[[Backend], Backend]
) -> Mapping[str, Backend]:
    """Replace each backend in a mapping by a function's result; one call per distinct backend."""
    if isinstance(backends, BackendsByName):
        return backends.map_backends(function)
    made = {id(b): function(b) for b in backends.values()}
    return {name: made[id(b)] for name, b in backends.items()}


def bind(system: System, backends: Mapping[str, Backend]) -> Bindings:
    """Backend of each component, from names and globs: exact names first, then longer globs.

    Raises
    ------
    GraphError
        A name or glob matches no component.

    Examples
    --------
    >>> from foretrace.sim.facts.system import Component
    >>> system = System((Component("node0.gpu0", "gpu", slots=1),))
    >>> model, driver = Backend(), Backend()
    >>> bind(system, {"node*.gpu*": model, "node0.gpu0": driver})[0] is driver
    True
    """
    if isinstance(backends, BackendsByName):
        return backends.bound
    which = np.full(len(system.components), -1, np.int32)
    once = {id(b): b for b in backends.values()}
    number = {key: i for i, key in enumerate(once)}
    for pattern in sorted(backends, key=lambda p: (p in system.index, len(p))):
        there = system.matching(pattern)
        which[there if len(there) else system.number(pattern)] = number[id(backends[pattern])]
    return Bindings(tuple(once.values()), which).without_unused()


@dataclass(frozen=True)
class OpTimings:
    """Timing of every op of a graph, merged from all backends.

    Parameters
    ----------
    timing : Timing
        One row per op, with explicit usage.
    component : (n,) component whose backend timed each op, -1 for none
    source : (n,) index into ``sources`` of each op
    sources : texts that name the origins of times
    spreads : distributions of durations, each with the rows that it applies to
    online : (n,) index into ``drivers`` of ops that are timed when they start; -1 for others
    drivers : online backends, which are called during the run
    doubt : (n,) index into ``doubts``, -1 for none; None if no backend knows its errors
    doubts : error distributions of the times
    """

    timing: Timing
    component: NDArray[np.int32]
    source: NDArray[np.int32]
    sources: tuple[str, ...]
    spreads: tuple[tuple[NDArray[np.int64], Spread], ...]
    online: NDArray[np.int16]
    drivers: tuple[Backend, ...]
    doubt: NDArray[np.int16] | None = None
    doubts: tuple[Doubt, ...] = ()


def time_graph(
    graph: Graph, bound: Sequence[Backend | None], system: System | None = None
) -> OpTimings:
    """Time all ops of a placed graph, by one call to each backend.

    Parameters
    ----------
    system : system with the current routes; by default that of the placement

    Raises
    ------
    GraphError
        The component of an op has no backend.
    BackendError
        A backend returned an impossible timing.
    """
    system = system or graph.system
    component = timing_component_per_op(graph)
    assert system is not None  # noqa: S101  asked() refuses an unplaced graph
    return time_ops(
        graph.ops, component, communication_endpoints(graph), system, bound, times=graph.times
    )


def time_ops(
    ops: Ops,
    component: NDArray[np.int32],
    members: Csr,
    system: System,
    bound: Sequence[Backend | None],
    row_names: NDArray[np.int64] | None = None,
    times: OpTimeOverrides | None = None,
    answered: Sequence[Timing] = (),
) -> OpTimings:
    """Time a table of ops, by one call to each backend; see :func:`time_graph`.

    Parameters
    ----------
    component : (n,) component whose backend times each op, -1 for none
    members : (n,) GPUs of each send and collective
    row_names : (n,) number of each op in error messages; by default its row
    times : times and factors that override the backends
    answered : timings that the first backends of :func:`backend_calls` returned already
    """
    _check_nics(ops, members, system, row_names)
    merge, asked_about = Merge(len(ops)), component
    if times is not None:
        told = np.flatnonzero(times.is_given)
        merge.add(told, Timing.of(times.time[told]), component[told], SAID)
        asked_about = _components_to_time(component, times)
    _add_recorded_timings(ops, asked_about, merge)
    drivers: list[Backend] = []
    online = np.full(len(ops), -1, np.int16)
    ready = list(answered)
    for who, rows, table in backend_calls(ops, asked_about, members, system, bound):
        if who.online:
            online[rows] = len(drivers)
            drivers.append(who)
            merge.add(rows, Timing.of(np.zeros(len(rows))), component[rows], who.source)
            continue
        said = ready.pop(0) if ready else who.timing(table)
        names = rows if row_names is None else row_names[rows]
        check_timing(said, table, system.components[component[rows[0]]].name, names)
        merge.add(rows, said, component[rows], who.source)
    timing = merge.timing()
    if times is not None:
        timing = times.apply_to(timing)
    return OpTimings(
        timing, component, merge.source, tuple(merge.sources), tuple(merge.spreads), online,
        tuple(drivers), *((timing.doubt.codes, timing.doubt.values) if timing.doubt else ()),
    )  # fmt: skip


def backend_calls(
    ops: Ops,
    component: NDArray[np.int32],
    members: Csr,
    system: System,
    bound: Sequence[Backend | None],
) -> Iterator[tuple[Backend, NDArray[np.int64], Ops]]:
    """Calls that time a table of ops: backend, its rows, and their table; see :func:`time_ops`."""
    for who, rows in _rows_by_backend(component, bound, system, ops):
        whole = len(rows) == len(ops)  # then no copy is needed
        own = ops if whole else ops.take(rows)
        yield (
            who,
            rows,
            own.with_placement(system, component[rows], members if whole else members.take(rows)),
        )


def _check_nics(
    ops: Ops, members: Csr, system: System, row_names: NDArray[np.int64] | None
) -> None:
    """Raise an error for an op that must send data to or from a machine without a NIC."""
    router = system.router
    if not isinstance(router, PartialRouter) or not router.cut_off.any():
        return
    for row in np.flatnonzero(members.counts).tolist():
        gpus = members[row]
        lonely = gpus[router.cut_off[gpus]]
        if len(lonely) and len(np.unique(router.domain[gpus])) > 1:
            _refuse_cut_off(ops, row, row if row_names is None else int(row_names[row]),
                            system, int(lonely[0]))  # fmt: skip


def _refuse_cut_off(ops: Ops, row: int, name: int, system: System, lonely: int) -> NoReturn:
    part = system.components[lonely]
    whose = f" of kind {part.pool!r}" if part.pool else ""
    path = f"kinds.{part.pool}.nic" if part.pool else "node.nic"
    raise GraphError(
        "cluster",
        f"op {name} ({ops.signature_text(row) or ops.kind_names[row]}) has to travel between "
        f"machines, but {part.node}{whose} has no NIC to reach other machines; write "
        f"cluster.{path}, or place its ranks in one machine",
        (name,),
    )


def ops_by_backend(
    graph: Graph, bound: Sequence[Backend | None]
) -> Iterator[tuple[Backend, NDArray[np.int64], Ops]]:
    """For each backend, the rows of a placed graph that it times, and the table of those ops.

    Raises
    ------
    GraphError
        The component of an op has no backend.
    """
    system, component, members = (
        graph.system,
        timing_component_per_op(graph),
        communication_endpoints(graph),
    )
    assert system is not None  # noqa: S101  asked() refuses an unplaced graph
    asked_about = component if graph.times is None else _components_to_time(component, graph.times)
    for who, rows in _rows_by_backend(asked_about, bound, system, graph.ops):
        ops = graph.ops.take(rows).with_placement(system, component[rows], members.take(rows))
        yield who, rows, ops


def backend_refusals(
    graph: Graph, bound: Sequence[Backend | None]
) -> Iterator[tuple[int, NDArray[np.int32], str]]:
    """Errors of backends for ops of a placed graph: ``(row, components, error message)``.

    One op is tried of each set of similar ops: same kind, same signature, and same known columns;
    the sets with the longest total time first. Online backends are not called.

    Raises
    ------
    GraphError
        The component of an op has no backend.
    """
    for who, rows, ops in ops_by_backend(graph, bound):
        known = sum(np.isnan(c) << k for k, c in enumerate((ops.flop, ops.bytes, ops.duration)))
        key = (ops.signature.astype(np.int64) * len(Kind) + ops.kind) * 8 + known
        _, first, alike = np.unique(key, return_index=True, return_inverse=True)
        took = np.bincount(alike.reshape(-1), np.nan_to_num(ops.duration))
        one = first[np.argsort(-took, kind="stable")]

        def why(at: NDArray[np.int64], who: Backend = who, ops: Ops = ops) -> str:
            try:
                free = who.timing(ops.take_with_placement(at)).rows_without_rate_bound()
            except BackendError as error:
                return str(error)
            if not len(free):
                return ""
            return f"op {free[0]}: {UNBOUNDED}"

        if who.online or not why(one):
            continue
        assert ops.at is not None  # noqa: S101  questions() places them
        for row in one.tolist():
            if said := why(np.array([row])):
                name = f"op {rows[row]}"
                yield int(rows[row]), ops.at.component, re.sub(r"^op 0\b", name, said)


def communication_endpoints(graph: Graph) -> Csr:
    """GPUs that take part in each send or collective, in group order; empty rows for other ops."""
    block = graph.explicit
    network = np.isin(block.ops.kind, NETWORK)
    own, sends = np.flatnonzero(network), np.flatnonzero(network & (block.peer >= 0))
    row = np.concatenate([own, sends, block.places.op])
    rank = np.concatenate([block.ops.rank[own], block.peer[sends], block.places.rank])
    assert graph.gpus is not None  # noqa: S101
    return Csr.from_pairs(row, graph.gpus[rank], len(block))


def _components_to_time(component: NDArray[np.int32], times: OpTimeOverrides) -> NDArray[np.int32]:
    """Component whose backend times each op, shape (n,); TOLD if the op's time is overridden."""
    return np.where(times.is_given, TOLD, component).astype(np.int32)


def _add_recorded_timings(ops: Ops, component: NDArray[np.int32], merge: Merge) -> None:
    """Add the timing of ops without a component: delays and gaps last as recorded."""
    rows = np.flatnonzero(component == NOBODY)
    strange = rows[~np.isin(ops.kind[rows], (Kind.DELAY, Kind.GAP))]
    if len(strange):
        row = int(strange[0])
        raise GraphError(
            "no fabric",
            f"op {row} ({ops.kind_names[row]}) needs the network, but the system has no fabric; "
            "give the cluster one",
            (row,),
        )
    unknown = rows[np.isnan(ops.duration[rows])]
    if len(unknown):
        raise BackendError(
            f"op {unknown[0]} (a {ops.kind_names[unknown[0]]}) has no recorded duration; give it "
            f"one"
        )
    merge.add(rows, Timing.of(ops.duration[rows]), component[rows], AS_RECORDED)


def _rows_by_backend(
    component: NDArray[np.int32], bound: Sequence[Backend | None], system: System, ops: Ops
) -> list[tuple[Backend, NDArray[np.int64]]]:
    """Rows that each backend times, ordered by their first row."""
    rows = np.flatnonzero(component >= 0)
    made = Bindings.of(bound)
    group = made.backend_index[component[rows]]
    if np.any(group < 0):
        row = int(rows[np.argmax(group < 0)])
        name = system.components[component[row]].name
        raise GraphError(
            "unbound",
            f"op {row} ({ops.signature_text(row) or ops.kind_names[row]}) needs {name}, which "
            f"has no backend; bind one, e.g. backends: {{{name}: {{use: recorded}}}}",
            (row,),
        )
    found = [(who, rows[group == g]) for g, who in enumerate(made.backends)]
    return sorted((one for one in found if len(one[1])), key=lambda one: int(one[1][0]))
