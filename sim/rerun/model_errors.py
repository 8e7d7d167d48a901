"""Effect of model errors on a run, determined by repeating it with erroneous op timings.

Held-out errors of one family of ops on one machine are mostly a common shift. So one probability
is chosen for all ops of a family, and each time is multiplied by that quantile of its error
distribution. Families are independent of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..facts.backend import Backend, Timing, uncontended_seconds
from ..facts.csr import Csr
from ..facts.doubt import Doubt
from ..facts.graph import Graph
from ..facts.ops import Kind, Ops
from ..facts.roles import components_by_role
from ..facts.spmd.program_encoding import distinct_ops_to_time
from ..facts.system import System
from ..record.binding import ops_by_backend
from ..run.simulation import Simulation


class BackendWithErrors(Backend):
    """Backend that multiplies a wrapped backend's times by a quantile of their error.

    Like ``ScaledBackend`` it uses a copy of the wrapped backend, unless that is a device.

    Parameters
    ----------
    inner : wrapped backend, whose times are multiplied
    families : families of ops to change; empty for all
    probability : probability of the quantile to use, e.g. 0.95 for slow times
    unjudged : error distribution to assume for families whose error was never measured
    """

    def __init__(
        self, inner: Backend, families: Iterable[str], probability: float, unjudged: Doubt
    ):
        self.inner = inner if inner.online else copy(inner)
        self.families, self.probability = frozenset(families), probability
        self.unjudged = unjudged
        self.online, self.uniform, self.source = inner.online, inner.uniform, inner.source

    def __copy__(self) -> BackendWithErrors:
        """Copy that has its own copy of the wrapped backend."""
        return BackendWithErrors(self.inner, self.families, self.probability, self.unjudged)

    def open(self, system: System) -> None:
        """Open the wrapped backend."""
        self.inner.open(system)

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """Boolean array: True for each op that the wrapped backend can time."""
        return self.inner.knows(ops)

    def timing_groups(self, system: System) -> NDArray[np.int64] | None:
        """Timing groups of components, as in the wrapped backend."""
        return self.inner.timing_groups(system)

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Timings of the wrapped backend, multiplied by the error factor of each op's family."""
        said = self.inner.timing(ops, now)
        if said.doubt is None:
            return said
        factors = np.array([*map(self._factor, said.doubt.values), 1.0])[said.doubt.codes]
        work = None if said.work is None else said.work * factors
        return replace(said, fixed=said.fixed * factors, work=work)

    def _factor(self, doubt: Doubt) -> float:
        if self.families and doubt.family not in self.families:
            return 1.0
        return (doubt if doubt.quantiles else self.unjudged).factor(self.probability)


def simulation_with_errors(
    simulation: Simulation, families: Iterable[str], probability: float, unjudged: Doubt
) -> Simulation:
    """Simulation in which op times have the errors of their family; see ``BackendWithErrors``.

    Examples
    --------
    >>> from foretrace.sim.facts.graph import Builder
    >>> from foretrace.sim.facts.ops import Kind
    >>> from foretrace.sim.facts.system import Component
    >>> class Model(Backend):
    ...     def timing(self, ops, now=0.0):
    ...         return Timing.of([1.0] * len(ops), doubt=Doubt("norm", "", (-0.7, 0.7)))
    >>> build = Builder("one")
    >>> _ = build.op(Kind.COMPUTE)
    >>> system = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))
    >>> simulation = Simulation(system, {"node0.gpu0": Model()}, engine="reference")
    >>> wide = Doubt("", "", (-1.0, 1.0))
    >>> slow = simulation_with_errors(simulation, ["norm"], 0.95, unjudged=wide)
    >>> round(slow.run(build.graph()).makespan, 2)
    2.01
    """
    return simulation.with_other_backends(
        simulation.system, lambda b: BackendWithErrors(b, families, probability, unjudged)
    )


def interval_factors(
    graph: Graph, bound: Sequence[Backend | None], unjudged: Doubt
) -> NDArray[np.float64]:
    """Factors on each op's time that bound its 90 % error interval, shape (2, n); NaN if unknown.

    Parameters
    ----------
    graph : placed graph; for an SPMD graph all factors are NaN
    bound : opened backend of each component; online backends are left out
    unjudged : error distribution to assume for families whose error was never measured
    """
    found = np.full((2, len(graph)), np.nan)
    if graph.template is not None:
        return found
    for who, rows, ops in ops_by_backend(graph, bound):
        said = None if who.online else who.timing(ops)
        if said is None or said.doubt is None:
            continue
        known = [(d if d.quantiles else unjudged).interval() for d in said.doubt.values]
        found[:, rows] = np.array([*known, (np.nan, np.nan)])[said.doubt.codes].T
    return found


def seconds_by_error_family(
    graphs: Iterable[Graph], bound: Sequence[Backend | None]
) -> dict[str, float]:
    """Uncontended time of ops in s, summed by the family of their error distribution.

    Ops without an error distribution are left out.

    Parameters
    ----------
    graphs : placed graphs; of an SPMD graph only ops of GPUs and hosts count
    bound : opened backend of each component; online backends are left out
    """
    found: dict[str, float] = {}
    for graph in graphs:
        for who, ops, asked, times in _ops_to_time(graph, bound):
            said = None if who.online else who.timing(ops)
            if said is None or said.doubt is None:
                continue
            took = (uncontended_seconds(said, ops) * times)[asked]
            whole = np.bincount(said.doubt.codes[asked] + 1, took, len(said.doubt.values) + 1)[1:]
            for doubt, seconds in zip(said.doubt.values, whole.tolist(), strict=True):
                found[doubt.family] = found.get(doubt.family, 0.0) + seconds
    return found


def _ops_to_time(
    graph: Graph, bound: Sequence[Backend | None]
) -> Iterator[tuple[Backend, Ops, NDArray[np.int64], int]]:
    """Distinct ops that each backend times, as tuples (backend, ops, index, ranks).

    ``index`` gives for each op of the backend the row of its distinct op. For an SPMD graph, one
    rank per program is used, with the ops of its GPU and its host; ``ranks`` is the number of ranks
    that run the program.
    """
    if graph.template is None:
        for who, rows, ops in ops_by_backend(graph, bound):
            yield who, ops, np.arange(len(rows)), 1
        return
    assert graph.system is not None and graph.gpus is not None  # noqa: S101, PT018  it was placed
    played = components_by_role(graph.system, graph.gpus)
    kinds = (Kind.COMPUTE, Kind.HOST)
    for (number, program), kind in product(enumerate(graph.template.programs), kinds):
        ranks = np.flatnonzero(graph.template.program == number)
        rows = np.flatnonzero(program.ops.kind == kind)
        if not len(ranks) or not len(rows):
            continue
        part = played[kind.role][ranks[0]]
        who = bound[part]
        if who is not None:
            asked, first = distinct_ops_to_time(program.ops.take(rows), program.family[rows])
            where = np.full(len(first), part, np.int32)
            ops = program.ops.take(rows[first]).with_placement(
                graph.system, where, Csr.empty(len(first))
            )
            yield who, ops, asked, len(ranks)
