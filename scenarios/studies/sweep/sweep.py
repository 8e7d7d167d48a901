"""Sweeps from Python: a scenario in, the results of all points out."""

from __future__ import annotations

import os
from pathlib import Path

from ....sim.errors import ScenarioError
from ...config.scenario import Scenario
from ..building.limits import time_limit
from ..workers.worker_pool import closing_pool
from ..workers.workers import make_workers, workers_option
from .sweep_folder import outcome_store
from .sweep_summary import Swept
from .sweeping import Progress, SweepInProgress


def sweep(
    scenario: Scenario,
    *,
    workers: str | None = None,
    out: str | os.PathLike[str] = "runs",
    progress: Progress = lambda _: None,
) -> Swept:
    """Run every point of a scenario's ``sweep``; finished points are stored and reused.

    A program that calls this needs ``if __name__ == "__main__":``, since worker processes import
    it.

    Parameters
    ----------
    scenario : Scenario
        With a ``sweep``.
    workers : str or None
        ``local``, ``local:4``, ``dask://…``; by default ``FORETRACE_WORKERS`` or the scenario's
        setting.
    out : folder
        Folder of all runs; outcomes are stored below it.
    progress : called with each finished point

    Raises
    ------
    ScenarioError
        Nothing varies, or there are no such workers.
    """
    if scenario.section("sweep") is None:
        raise ScenarioError(f"{scenario.file}: has no 'sweep', so nothing varies; add one")
    kept, asked = outcome_store(Path(out), scenario), workers_option(workers, scenario.run.workers)
    with closing_pool(make_workers(asked)) as crew, kept, time_limit(scenario.run.time_limit):
        return SweepInProgress(scenario, kept, crew, progress).try_all_points()
