"""A point as a plain dict, and the function that runs it on any worker."""

from __future__ import annotations

import hashlib
import json
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....sim.errors import ForetraceError, ScenarioError
from ...config.reading.files import (
    content_digest,
    file_digests_by_setting,
    setting_names_file,
    with_bare_file_names,
)
from ...config.reading.tree import Plain
from ...config.scenario import Scenario
from ..workers.worker_pool import RETRIES, Outcome, Task

if TYPE_CHECKING:
    from ....sim.facts.system import System
    from ..variants.variant import BuiltGraphs, Variant

Settings = dict[str, Plain]
APART = ("question", "report", "sweep", "what_if", "expect")  # sections that change no result
UNHEARD = ("workers", "time_limit", "memory")  # settings of ``run`` that change no result


def shared_task_part(scenario: Scenario) -> Task:
    """Part of the task that all points of a scenario share: all that can change their results.

    Parameters
    ----------
    scenario : scenario; its variants and conditions are ignored
    """
    from importlib.metadata import version

    from ..folders.digests import code_digest, trace_digest

    described = {k: v for k, v in scenario.resolved().items() if k not in APART}
    described["run"] = {k: v for k, v in described.get("run", {}).items() if k not in UNHEARD}
    return {
        "scenario": described,
        "digest": digest_of(
            with_bare_file_names(described)
        ),  # the content of files counts, not their folder
        "files": file_digests_by_setting(described),
        "trace": trace_digest(scenario),
        "code": code_digest(),
        "version": version("foretrace"),
    }


def make_task(shared: Task, settings: Mapping[str, Plain], wanted: tuple[str, ...] = ()) -> Task:
    """Task of one point: the shared part, and its settings.

    Parameters
    ----------
    shared : result of ``shared_task_part``
    settings : values by dotted path
    wanted : metrics of single components to keep in the outcome; metrics of kinds of component are
        always kept
    """
    named = {
        k: content_digest(v)
        for k, v in settings.items()
        if isinstance(v, str) and setting_names_file(k)
    }
    files = {**shared["files"], **named}
    return {**shared, "files": files, "set": dict(settings), "wanted": sorted(wanted)}


def point_key(point: Task) -> str:
    """Key of a point: hash of all that can change its result.

    >>> point_key({"set": {"a": 1, "b": 2}}) == point_key({"set": {"b": 2, "a": 1}})
    True
    """
    shared = {k: v for k, v in point.items() if k != "scenario"}  # it has a digest, made once
    return digest_of(shared)


def digest_of(value: Plain) -> str:
    """SHA-256 of plain data, as 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def evaluate_point(point: Task) -> Outcome:
    """Run one point; an error becomes part of its outcome.

    Parameters
    ----------
    point : task from ``make_task``, a plain dict that can be sent to any worker

    Returns
    -------
    Outcome
        ``key``, ``set``, and ``values`` (SI, by metric and statistic) with ``intervals``; or
        ``error`` with its kind, message and traceback. ``seconds`` is wall time.
    """
    began = time.perf_counter()
    outcome: Outcome = {"key": point_key(point), "set": point["set"]}
    try:
        outcome |= _outcome_of_point(point)
    except Exception as error:
        outcome["error"] = _error_facts(error)
    return {**outcome, "seconds": round(time.perf_counter() - began, 6)}


def poison_outcome(point: Task) -> Outcome:
    """Outcome of a point that killed every worker that ran it.

    >>> poison_outcome({"set": {"a": 1}})["error"]["kind"]
    'Poisonous'
    """
    message = f"killed {RETRIES + 1} workers; give them more memory, or look for a crash"
    error = {"kind": "Poisonous", "message": message, "traceback": ""}
    return {"key": point_key(point), "set": point["set"], "error": error, "seconds": 0.0}


def _error_facts(error: Exception) -> dict[str, str]:
    ours = isinstance(error, ForetraceError)
    return {
        "kind": type(error).__name__,
        "message": str(error).partition("\n")[0] if ours else f"{type(error).__name__}: {error}",
        "traceback": "" if ours else traceback.format_exc(),
    }


def _outcome_of_point(point: Task) -> Outcome:
    from ..summaries.summary import metric_values, replicas_may_differ
    from ..variants.prints import capture_prints
    from ..variants.variants import run_with_replicas

    one = variant_of_point(point)
    with capture_prints():  # discarded; a run of a single point keeps them
        results = run_with_replicas(one)
    metrics = metric_values(_without_component_metrics(results, tuple(point["wanted"])))
    return {
        "ops": results.result.count,
        "ranks": results.result.ranks,
        "values": {name: v.value for name, v in metrics.items()},
        "intervals": {name: v.interval for name, v in metrics.items() if v.interval},
        **({} if replicas_may_differ([results]) else {"varies": False}),
    }


def variant_of_point(point: Task, settings: Mapping[str, Plain] | None = None) -> Variant:
    """Variant built from the task of a point; what points have in common is cached in each process.

    Parameters
    ----------
    settings : further settings, which override those of the point
    """
    from ...config.loader import with_overrides
    from ..variants.variants import build_variant
    from .machine_cache import cached_machine

    scenario = with_overrides(point["scenario"], {**point["set"], **(settings or {})})
    machine = cached_machine(scenario, point["files"])
    graphs = cached_graphs(scenario, machine[0], point["files"])
    return build_variant(scenario, graphs, machine)


def _without_component_metrics(done: Any, wanted: tuple[str, ...]) -> Any:
    """Results without the metrics of single components, except wanted ones."""
    from dataclasses import replace

    components = done.point.simulation.system.components
    parts, kinds = components.by_name, {part.kind for part in components.parts}
    heads = tuple(f"{w}." for w in wanted)

    def kept(name: str) -> bool:
        who = name.removesuffix(".utilization").removesuffix(".occupancy")
        return who == name or who not in parts or who in kinds or f"{name}.".startswith(heads)

    return replace(
        done,
        samples={k: s for k, s in done.samples.items() if kept(k)},
        replicas=tuple({k: s for k, s in r.items() if kept(k)} for r in done.replicas),
    )


WORKS = 8  # graphs cached in a process
_works: dict[str, BuiltGraphs] = {}


def cached_graphs(scenario: Scenario, system: System, files: Mapping[str, str]) -> BuiltGraphs:
    """Graphs of a scenario with their variation, built and read once per process.

    Parameters
    ----------
    system : system of the scenario
    files : digest of the content of each file that the point names, by setting

    Raises
    ------
    ScenarioError
        A file differs from the one of the point.
    """
    from ..building.jobs import files_of, graph_inputs
    from ..variants.variant import BuiltGraphs

    named = {path: files.get(path, "") for path, _ in files_of(scenario)}
    description = repr((graph_inputs(scenario, system), named))
    if description in _works:
        return _works[description]
    for path, name in files_of(scenario):
        if content_digest(name) != named[path]:
            raise ScenarioError(
                f"{path}: '{name}' has other contents on this worker; copy it to the same "
                "path on every worker"
            )
    while len(_works) >= WORKS:
        del _works[next(iter(_works))]
    return _works.setdefault(description, BuiltGraphs.of(scenario, system))
