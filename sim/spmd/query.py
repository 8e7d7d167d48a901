"""Timing queries of an SPMD graph: collected, then sent to each backend in one call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import EngineGraph, Flows
from ..engine_api.lowering import lower_flows, ticks_from_seconds, warn_of_weights
from ..engine_api.validation import check_graph
from ..facts.backend import Backend
from ..facts.csr import Csr
from ..facts.graph import Graph
from ..facts.kind import OUR_ROLES
from ..facts.ops import Ops
from ..facts.roles import components_by_role
from ..facts.spmd.spmd_graph import SpmdGraph
from ..kernel.factorize import number_by_first_appearance, number_pairs
from ..record.binding import OpTimings, time_ops
from ..record.bound_system import BoundSystem

Numbers = NDArray[np.int64]
PLAYED = OUR_ROLES  # by number; 3 means no component; graphs with other roles are expanded


class NotUniform(Exception):  # noqa: N818  a reason, not an error
    """Reason why an SPMD graph must be expanded to a graph of single ops before it runs."""


class RankAnswers(NamedTuple):
    """Timings of all queries of an SPMD graph, their flows, and a number per distinct timing."""

    ticks: Numbers
    spread: Numbers
    source: Numbers
    same: Numbers
    flows: Flows  # of the questions whose ops have work
    flow: Numbers  # of each question; -1 for none

    @classmethod
    def of(cls, answers: OpTimings, simulation: BoundSystem, name: str) -> RankAnswers:
        """Convert backend timings of all queries to ticks and flows; ``name`` is the graph's name.

        Raises
        ------
        NotUniform
            Ops hold amounts of a capacity, are timed during the run, or use a plugged-in medium.
        GraphError, BackendError
            A backend returned an invalid timing.
        """
        if answers.drivers:
            raise NotUniform("a backend times its ops only during the run")
        if answers.timing.holds is not None:
            raise NotUniform("its ops hold amounts of a capacity")
        fixed = ticks_from_seconds(answers.timing.fixed, simulation.tick)
        flows, flow = _flows_of_questions(answers, simulation, name, fixed)
        spread = np.zeros(len(fixed), np.int64)
        for i, (rows, _) in enumerate(answers.spreads, 1):
            spread[rows] = i
        if len(answers.spreads) > 254:
            raise NotUniform("its ops have more than 254 different distributions of durations")
        source = answers.source.astype(np.int64)
        same = number_pairs(number_pairs(number_by_first_appearance(fixed)[0], spread)[0], source)[
            0
        ]
        return cls(fixed, spread, source, same, flows, flow)


def _flows_of_questions(
    answers: OpTimings, simulation: BoundSystem, name: str, fixed: Numbers
) -> tuple[Flows, Numbers]:
    """Flows of the queries whose ops have work, and the flow of each query (-1 for none)."""
    timing, parts = answers.timing, simulation.parts
    number = np.full(len(fixed), -1, np.int64)
    if timing.work is None or not np.any(timing.work > 0):
        return Flows.none(), number
    if timing.usage is not None:
        warn_of_weights(name, timing.usage, simulation.system)
    flows = lower_flows(timing, simulation.system, simulation.scale, simulation.tick)
    check_graph(parts, EngineGraph.of_independent_ops(name, fixed, flows))
    work = np.flatnonzero((flows.work_hi != 0) | (flows.work_lo != 0))
    number[flows.op[work]] = np.arange(len(work))
    flows = flows.take(work)
    if len(parts.plugged) and np.any(parts.plugged[flows.component]):
        raise NotUniform("its ops share rates of a medium that is plugged in")
    return flows, number


class QuestionTable:
    """Table of the timing queries of an SPMD graph, collected first and then sent in one call.

    Parameters
    ----------
    ask_every_rank : True to query every rank's own ops separately, even for ranks with equally
        timed components
    """

    def __init__(
        self,
        simulation: BoundSystem,
        graph: Graph,
        template: SpmdGraph,
        ask_every_rank: bool = False,
    ):
        assert graph.gpus is not None  # noqa: S101  it was placed
        self.graph, self.template, self.gpus = graph, template, graph.gpus
        self.system, self.bound = system, bound = simulation.system, simulation.bound
        played = components_by_role(system, self.gpus)
        self.component = np.stack(
            [*(played[role] for role in PLAYED), np.full(len(self.gpus), -1, np.int32)]
        )
        self.timing_groups, self.ask_every_rank = simulation.timing_groups, ask_every_rank
        self.fabric = system.number(system.fabric) if system.fabric else -1
        if (
            self.fabric >= 0
            and self.timing_groups[self.fabric] < 0
            and bound[self.fabric] is not None
        ):
            raise NotUniform(reason_to_ask_every_op(bound[self.fabric]))
        self._tables: list[Ops] = []
        self._component: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
        self._members: list[Csr] = []
        self._groups: dict[int, Csr] = {}
        self._n = 0

    def gpus_of_groups(self, family: int) -> Csr:
        """GPUs of each communication group of a family."""
        if family not in self._groups:
            groups = self.template.groups[family]
            order = np.argsort(groups, kind="stable")
            indptr = np.concatenate([[0], np.cumsum(np.bincount(groups))])
            self._groups[family] = Csr(indptr, self.gpus[order])
        return self._groups[family]

    def add(
        self,
        ops: Ops,
        ranks: Numbers,
        component: NDArray[np.int32],
        members: Csr | None = None,
    ) -> Numbers:
        """Add timing queries for some ops of the given ranks; returns their rows, (ranks, queries).

        Parameters
        ----------
        component : (ranks,) index of the component whose backend times the ops
        members : (ranks,) GPUs of the participants, for sends and collectives
        """
        n, m = len(ops), len(ranks)
        table = ops.take(np.tile(np.arange(n), m))
        self._tables.append(table.replace(rank=np.repeat(ranks, n).astype(np.int32)))
        self._component.append(np.repeat(component, n).astype(np.int32))
        each = Csr.empty(m) if members is None else members
        self._members.append(each.take(np.repeat(np.arange(m), n)))
        self._n += n * m
        return self._n - n * m + np.arange(n * m).reshape(m, n)

    def ask(self) -> OpTimings:
        """Send all queries to their backends, one call per backend, and return the timings."""
        ops = Ops.concat(self._tables)
        counts = np.concatenate([m.counts for m in self._members])
        members = Csr(
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([m.values for m in self._members]),
        )
        return time_ops(ops, np.concatenate(self._component), members, self.system, self.bound)


def equal_timing_groups(simulation: BoundSystem) -> Numbers:
    """(components,) number of the group of equally timed components; -1 if timed individually."""
    bound = simulation.bound
    found = np.full(len(bound), -1, np.int64)
    used = 0
    for i, backend in enumerate(simulation.distinct_backends):
        numbers = backend.timing_groups(simulation.system)
        if numbers is None or backend.online:
            continue
        own = bound.backend_index == i
        mine = numbers[own]
        if len(mine) and np.all(mine == mine[0]):
            compact, count = np.zeros(1, np.int64), 1
        else:
            compact, first = number_by_first_appearance(mine)
            count = len(first)
        found[own] = compact + used
        used += count
    return found


def reason_to_ask_every_op(backend: Backend | None) -> str:
    """Reason, as a sentence, why timings of a backend cannot be shared between equal components."""
    who = type(backend).__name__
    if backend is not None and backend.online:
        return f"{who} times its ops only during the run"
    return f"{who} does not declare which components have equal timings (Backend.uniform)"
