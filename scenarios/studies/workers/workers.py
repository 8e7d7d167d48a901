"""Worker pools from a text such as ``local:4`` or ``dask://HOST:PORT``."""

from __future__ import annotations

import os

from ....sim.errors import ScenarioError
from ...config.sections.run import FORM, check_workers_text
from .worker_pool import WorkerPool

VARIABLE = "FORETRACE_WORKERS"


def workers_option(option: str | None, scenario: str) -> str:
    """Text that selects the workers: the option, else ``FORETRACE_WORKERS``, else the scenario.

    Raises
    ------
    ScenarioError
        The text has an unknown form.
    """
    asked = (("--workers", option), (VARIABLE, os.environ.get(VARIABLE)), ("", scenario))
    place, text = next((place, text) for place, text in asked if text)
    try:
        return check_workers_text(text)
    except ValueError as error:
        raise ScenarioError(f"{place or 'run.workers'}: {error}") from error


def make_workers(text: str) -> WorkerPool:
    """Create the worker pool that a text selects.

    Raises
    ------
    ScenarioError
        A package is missing, no scheduler answers, or the workers run another version.
    """
    if not text.startswith("dask://"):
        from .process_pool import ProcessPool

        return ProcessPool(local_process_count(text))
    from .dask import DaskCluster

    form = FORM.fullmatch(text)
    if form and form[2].startswith("local"):
        return DaskCluster(None, local_process_count(text))
    return DaskCluster(text.removeprefix("dask://"), 0)


def local_process_count(text: str) -> int:
    """Number of local processes that a text selects.

    >>> local_process_count("local:3"), local_process_count("dask://local:2")
    (3, 2)
    """
    form = FORM.fullmatch(text)
    return int(next((g for g in (form and (form[1], form[3])) or () if g), 0)) or usable_cores()


def usable_cores() -> int:
    """Number of cores that this process may use.

    >>> usable_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
