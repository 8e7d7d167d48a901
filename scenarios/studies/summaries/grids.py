"""Grids of op times as plain data, of a run and of a plan: their size and their error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ....sim.record.prepared_grid import GridError
from ....sim.record.step_grid import StepGrid
from ....sim.run.policies.compiled_process import CompiledProcess
from ....sim.run.session import Session
from ..variants.variant import Variant


def errors_of_grids(grids: Mapping[str, GridError]) -> dict[str, dict[str, Any]]:
    """Size, and median and largest relative error between points, of each grid by name."""
    return {name: one._asdict() for name, one in grids.items()}


def grids_of_policies(point: Variant) -> dict[str, dict[str, Any]]:
    """Errors of the grids of a variant's compiled processes, which are timed as before a run.

    Grids that a generator prepares are known only when it runs.
    """
    session = Session(replace(point.simulation, engine="reference"), None)
    for job in point.jobs():
        entered = session.add_job(job)
        policy = entered.graph_or_process
        graphs = policy.graphs.values() if isinstance(policy, CompiledProcess) else ()
        for graph in graphs:
            if isinstance(graph, StepGrid):
                session.prepare(graph, entered)
    return errors_of_grids(session.grid_errors)
