"""A point as a plain dict, and the one function that runs it, wherever it is."""

from __future__ import annotations

import hashlib
import json
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....sim.errors import ForetraceError, ScenarioError
from ...config.reading.files import bare, content, contents, is_file
from ...config.reading.tree import Plain
from ...config.scenario import Scenario
from ..workers.crew import RETRIES, Outcome, Task

if TYPE_CHECKING:
    from ..variant import Built

Settings = dict[str, Plain]
APART = ("question", "report", "sweep", "what_if", "expect")  # of no number of one point
UNHEARD = ("workers", "time_limit", "memory")  # of ``run``: where, not what


def base(scenario: Scenario) -> Task:
    """Shared part of all points of a scenario: all that can change their answer.

    Parameters
    ----------
    scenario : any variant is left out; what its conditions are is no matter of a point
    """
    from importlib.metadata import version

    from ..digests import code_digest, trace_digest

    described = {k: v for k, v in scenario.resolved().items() if k not in APART}
    described["run"] = {k: v for k, v in described.get("run", {}).items() if k not in UNHEARD}
    return {
        "scenario": described,
        "digest": _digest(bare(described)),  # where files lie is no matter, but what is in them
        "files": contents(described),
        "trace": trace_digest(scenario),
        "code": code_digest(),
        "version": version("foretrace"),
    }


def task(shared: Task, settings: Mapping[str, Plain], wanted: tuple[str, ...] = ()) -> Task:
    """Task of one point: the shared part, and its settings.

    Parameters
    ----------
    shared : from ``base``
    settings : by dotted path
    wanted : metrics of single components to keep; those of kinds are kept anyway
    """
    named = {k: content(v) for k, v in settings.items() if isinstance(v, str) and is_file(k)}
    files = {**shared["files"], **named}
    return {**shared, "files": files, "set": dict(settings), "wanted": sorted(wanted)}


def key(point: Task) -> str:
    """Key of a point: a hash of all that can change its answer.

    >>> key({"set": {"a": 1, "b": 2}}) == key({"set": {"b": 2, "a": 1}})
    True
    """
    shared = {k: v for k, v in point.items() if k != "scenario"}  # it has a digest, made once
    return _digest(shared)


def _digest(value: Plain) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def evaluate(point: Task) -> Outcome:
    """Run one point; an error in it becomes its outcome.

    Parameters
    ----------
    point : from ``task``; a plain dict, so that it can be sent anywhere

    Returns
    -------
    Outcome
        ``key``, ``set``, and ``values`` (SI, by metric and statistic) with ``intervals``; or
        ``error`` with its kind, message and traceback.  ``seconds`` is wall time.
    """
    began = time.perf_counter()
    outcome: Outcome = {"key": key(point), "set": point["set"]}
    try:
        outcome |= _measured(point)
    except Exception as error:
        outcome["error"] = _wrong(error)
    return {**outcome, "seconds": round(time.perf_counter() - began, 6)}


def poison_outcome(point: Task) -> Outcome:
    """The outcome of a point that killed every worker that it was given to.

    >>> poison_outcome({"set": {"a": 1}})["error"]["kind"]
    'Poisonous'
    """
    message = f"killed the {RETRIES + 1} workers that it was given to; out of memory, or a crash"
    error = {"kind": "Poisonous", "message": message, "traceback": ""}
    return {"key": key(point), "set": point["set"], "error": error, "seconds": 0.0}


def _wrong(error: Exception) -> dict[str, str]:
    ours = isinstance(error, ForetraceError)
    return {
        "kind": type(error).__name__,
        "message": str(error).partition("\n")[0] if ours else f"{type(error).__name__}: {error}",
        "traceback": "" if ours else traceback.format_exc(),
    }


def _measured(point: Task) -> Outcome:
    from ...config.loader import with_overrides
    from ..summary import values
    from ..variants import measured
    from ..variants import point as built

    scenario = with_overrides(point["scenario"], point["set"])
    graphs = work(scenario, point["files"])
    results = measured(built(scenario, graphs))
    metrics = values(_narrowed(results, tuple(point["wanted"])))
    return {
        "ops": results.result.count,
        "ranks": results.result.ranks,
        "values": {name: v.value for name, v in metrics.items()},
        "intervals": {name: v.interval for name, v in metrics.items() if v.interval},
    }


def _narrowed(done: Any, wanted: tuple[str, ...]) -> Any:
    """Results without the metrics of single components, unless they are asked for."""
    from dataclasses import replace

    parts = {c.name for c in done.point.simulation.system.components}
    kinds = {c.kind for c in done.point.simulation.system.components}
    heads = tuple(f"{w}." for w in wanted)

    def kept(name: str) -> bool:
        who = name.removesuffix(".utilization")
        return who == name or who not in parts or who in kinds or f"{name}.".startswith(heads)

    return replace(
        done,
        samples={k: s for k, s in done.samples.items() if kept(k)},
        replicas=tuple({k: s for k, s in r.items() if kept(k)} for r in done.replicas),
    )


WORKS = 8  # kept in a process
_works: dict[str, Built] = {}


def work(scenario: Scenario, files: Mapping[str, str]) -> Built:
    """The graphs of a scenario and how their ops vary, built and read once in a process.

    Parameters
    ----------
    files : what is in those that the point names, by setting

    Raises
    ------
    ScenarioError
        The files are not those that the point was made of.
    """
    from ..building.jobs import files_of
    from ..variant import Built

    named = {path: files.get(path, "") for path, _ in files_of(scenario)}
    jobs = [(name, job.workload, job.on) for name, job in scenario.jobs.items()]
    beside = scenario.cluster.gpu(), scenario.cluster.fabric.expand  # a quick GPU copies quicker
    description = repr((jobs, beside, named))
    if description in _works:
        return _works[description]
    for path, name in files_of(scenario):
        if content(name) != named[path]:
            raise ScenarioError(
                f"{path}: '{name}' is not the same file here; put it where workers see "
                "it under the same path"
            )
    while len(_works) >= WORKS:
        del _works[next(iter(_works))]
    return _works.setdefault(description, Built.of(scenario))
