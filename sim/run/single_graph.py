"""Run of a single graph without processes: as an SPMD graph, folded, or op by op."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..engine_api.interface import EngineGraph
from ..errors import BackendError, GraphError, SimulationError
from ..facts.graph import Graph
from ..record.aggregates import BYTES_PER_OP_RUN, MOST_OPS
from ..record.schedule import SubmittedRun
from .result import Result
from .running_job import RunningJob
from .session import Session
from .timing.graph_timing import TimedGraph

if TYPE_CHECKING:
    from ..core.quotient import Quotient
    from ..facts.spmd.spmd_graph import SpmdGraph
    from ..spmd.spmd_run import SpmdRun

log = logging.getLogger(__name__)

SHARING = 4  # fold if at least one op in four shares a rate: the search takes 0.8 us per op
MOST_WRITTEN = 20_000_000  # largest SPMD graph that is expanded to find an op at fault


def runs_as_spmd(graph: Graph, keep: str | None) -> bool:
    """True if a graph is an SPMD graph and no row per op is kept: it need not be expanded."""
    return graph.template is not None and detail_by_size(keep, graph) != "ops"


def detail_by_size(keep: str | None, graph: Graph) -> str:
    """Level of detail to keep of a run: as requested, or else by the number of ops."""
    return keep or ("ops" if len(graph) <= MOST_OPS else "ranks")


def run_graph(
    session: Session, graph: Graph, keep: str | None, repeat_run: Callable[[], Result]
) -> Result:
    """Run a single graph without processes, if possible as an SPMD graph, and return the result."""
    if runs_as_spmd(graph, keep):
        assert graph.template is not None  # noqa: S101
        found = _run_as_spmd(
            session, graph, graph.template, detail_by_size(keep, graph), repeat_run
        )
        if found is not None:
            return found
    only = session.jobs[0]
    run_timed(session, session.time_graph(graph, only), only)
    return session.finish(detail_by_size(keep, graph), repeat_run)


def _run_as_spmd(
    session: Session, graph: Graph, template: SpmdGraph, keep: str, repeat_run: Callable[[], Result]
) -> Result | None:
    """Run an SPMD graph without expanding it; None, with a log line, if it must be expanded."""
    from ..spmd.query import NotUniform
    from ..spmd.spmd_run import SpmdRun

    try:
        if session.simulation.engine != "core":
            raise NotUniform("the reference engine runs every op")
        if not session.jobs[0].job.workload.periodic:
            raise NotUniform("its job has no periods")
        if graph.times is not None:
            raise NotUniform("rules override the times of some ops")
        graph = session.timing.place(graph, session.jobs[0].placement)
        spmd = SpmdRun.of(session.simulation, graph, template, session.replica)
        kept = spmd.aggregates(keep)
    except NotUniform as why:
        _require_room_to_write(session, graph, str(why))
        log.info("%s: all %s ops are expanded, since %s", graph.name, len(graph), why)
        return None
    except (GraphError, BackendError, SimulationError) as error:
        if len(graph) > MOST_WRITTEN:
            raise
        log.info("%s: expanded, to find the op at fault: %s", graph.name, error)
        return None
    log.info(
        "%s: %s ops as an SPMD graph, %s of %s ranks run", graph.name, len(graph),
        spmd.template.ranks, template.ranks,
    )  # fmt: skip
    written = spmd.reason_not_expanded()
    found = replace(session.result_without_times(), summary=kept)
    if spmd.shares_rates and not written:
        return replace(found, repeat_run=repeat_run)
    return replace(found, repeat_run=written or (lambda: _write_spmd_result(session, spmd)))


def _require_room_to_write(session: Session, graph: Graph, why: str) -> None:
    """Raise an error if an SPMD graph must be expanded but does not fit into memory."""
    most, needed = session.simulation.memory, BYTES_PER_OP_RUN * len(graph)
    if most is not None and needed > most:
        raise SimulationError(
            "memory",
            f"{graph.name}: the SPMD graph has to be expanded, since {why}; its {len(graph):,} "
            f"ops need about {needed / 1e9:.3g} GB, and {most / 1e9:.3g} GB are free; use fewer "
            "ranks or periods, or allow more memory",
        )


def _write_spmd_result(session: Session, spmd: SpmdRun) -> Result:
    """Result of an SPMD graph with one row per op, for one rank of each class."""
    repeat_run = Session(session.simulation, session.replica)
    repeat_run.add_job(session.jobs[0].job)
    graph, said, lowered = spmd.expand_representatives()
    repeat_run.runs.append(SubmittedRun(graph, said, lowered, 0))
    _run_lowered(repeat_run, lowered)
    found = repeat_run.result("ops", "it is only a part of a run")
    return replace(found, copies=spmd.ranks_represented())


def run_timed(session: Session, timed_graph: TimedGraph, job: RunningJob) -> None:
    """Run one timed graph without processes."""
    run = session.with_ranks_and_draws(timed_graph, job)
    session.runs.append(run)
    _run_lowered(session, run.lowered)


def _run_lowered(session: Session, lowered: EngineGraph) -> None:
    """Run an engine graph; if ops share rates, identical ops are run once."""
    folded = fold_graph(session, lowered)
    if folded is not None:
        machine = session.new_machine(folded.parts)
        try:
            machine.submit(folded.graph)
            machine.run()
        except (GraphError, SimulationError):
            log.info("%s: repeated with every op, to find the one at fault", lowered.name)
        else:
            session.columns = folded.expand(machine.columns())
            return
    session.machine.submit(lowered)
    session.machine.run()


def fold_graph(session: Session, lowered: EngineGraph) -> Quotient | None:
    """Folded graph, in which each group of identical ops is one op; None if not useful.

    It is not used if the graph hardly shrinks, with the reference engine, or if fewer than one op
    in four shares a rate, since the search for groups would then cost more than it saves.
    """
    works = np.count_nonzero(lowered.flows.work_hi | lowered.flows.work_lo.astype(np.int64))
    if session.simulation.engine != "core" or SHARING * works < len(lowered):
        return None
    if session.parts.medium is not None or session.parts.queues is not None:
        return None  # equal ops in a queue are not equal: one is first
    from ..core.quotient import fold_identical_ops

    found = fold_identical_ops(session.parts, lowered)
    if found is not None:
        log.info("%s: %s of %s ops run", lowered.name, len(found.graph), len(lowered))
    return found
