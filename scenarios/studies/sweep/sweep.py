"""A sweep from Python: a scenario in, every point out."""

from __future__ import annotations

import os
from pathlib import Path

from ....sim.errors import ScenarioError
from ...config.scenario import Scenario
from ..building.limits import time_limit
from ..workers.worker_pool import working
from ..workers.workers import make_workers as hired
from ..workers.workers import workers_option
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
    """Try every point of a scenario's ``sweep``; finished points are kept, and found again.

    A program that calls this keeps its own work under ``if __name__ == "__main__":``, since
    processes import it again.

    Parameters
    ----------
    scenario : Scenario
        With a ``sweep``.
    workers : str or None
        ``local``, ``local:4``, ``dask://…``; as the scenario or ``FORETRACE_WORKERS`` says.
    out : folder
        Where outcomes are kept.
    progress : told of every point that is known

    Raises
    ------
    ScenarioError
        Nothing varies, or there are no such workers.
    """
    if scenario.section("sweep") is None:
        raise ScenarioError(f"{scenario.file}: has no 'sweep', so nothing varies; add one")
    kept, asked = outcome_store(Path(out), scenario), workers_option(workers, scenario.run.workers)
    with working(hired(asked)) as crew, kept, time_limit(scenario.run.time_limit):
        return SweepInProgress(scenario, kept, crew, progress).try_all_points()
