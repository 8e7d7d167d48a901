"""The one verb of workers: run tasks, give outcomes as they come."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from ....sim.errors import ScenarioError

VARIABLE = "FORETRACE_WORKERS"
FORM = re.compile(r"local(?::([1-9]\d{0,3}))?|dask://(local(?::([1-9]\d{0,3}))?|[\w.\-\[\]:]+:\d+)")
RETRIES = 2  # of a task whose worker died; then it is poisonous

Task = dict[str, Any]
Work = Callable[[Task], dict[str, Any]]


class Workers(Protocol):
    """Runs tasks, in any order, each until it is done."""

    name: str
    """For people."""

    def run(self, work: Work, tasks: Iterable[Task]) -> Iterator[tuple[Task, dict[str, Any]]]:
        """Every task with what came of it, as they come.

        A task whose worker dies is tried again; one that kills worker after worker comes back
        as ``poisonous``.
        """
        ...

    def close(self, *, kill: bool = False) -> None:
        """Let the workers go; at once if ``kill``, whatever they do."""
        ...


def poisonous(task: Task) -> dict[str, Any]:
    """The outcome of a task that killed every worker that it was given to."""
    from ..sweep.task import key

    message = f"killed the {RETRIES + 1} workers that it was given to; out of memory, or a crash"
    error = {"kind": "Poisonous", "message": message, "traceback": ""}
    return {"key": key(task), "set": task["set"], "error": error, "seconds": 0.0}


def checked(text: str) -> str:
    """A description of workers, as ``run.workers`` and ``--workers`` have it.

    Raises
    ------
    ValueError
        None of the forms.

    Examples
    --------
    >>> checked("dask://planner:8786")
    'dask://planner:8786'
    >>> checked("ray://x:1")
    Traceback (most recent call last):
    ValueError: no workers 'ray://x:1'; write local, local:4, dask://local or dask://HOST:PORT
    """
    if not FORM.fullmatch(text):
        raise ValueError(f"no workers '{text}'; write local, local:4, dask://local or "
                         "dask://HOST:PORT")  # fmt: skip
    return text


def chosen(option: str | None, scenario: str) -> str:
    """Who is asked: the option, else ``FORETRACE_WORKERS``, else the scenario.

    Raises
    ------
    ScenarioError
        No such workers.
    """
    asked = (("--workers", option), (VARIABLE, os.environ.get(VARIABLE)), ("", scenario))
    place, text = next((place, text) for place, text in asked if text)
    try:
        return checked(text)
    except ValueError as error:
        raise ScenarioError(f"{place or 'run.workers'}: {error}") from error


def workers(text: str) -> Workers:
    """The workers of a description.

    Raises
    ------
    ScenarioError
        They need an extra, cannot be reached, or run another version.
    """
    found = FORM.fullmatch(text)
    if not text.startswith("dask://"):
        from .pool import Pool

        return Pool(count(text))
    from .dask import DaskCluster

    if found and found[2].startswith("local"):
        return DaskCluster(None, count(text))
    return DaskCluster(text.removeprefix("dask://"), 0)


def count(text: str) -> int:
    """Processes that a description makes on this machine.

    >>> count("local:3"), count("dask://local:2")
    (3, 2)
    """
    found = FORM.fullmatch(text)
    return int(next((g for g in (found and (found[1], found[3])) or () if g), 0)) or cores()


def cores() -> int:
    """Processors that this process may use.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
