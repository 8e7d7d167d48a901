"""Errors of a run in terms of the scenario: the setting, its file position, a cure.

Engine errors address authors of processes (restore, resume); authors of scenarios have settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

from ....sim.errors import SimulationError
from ....sim.units import MAX_TICK, PICOSECOND
from ...config.scenario import Scenario
from .limits import TimeLimitExceeded

TOLD = ("lost", "starvation")
DAYS = MAX_TICK * PICOSECOND / 86400
SPARE = "hot-spare"


@contextmanager
def rewording_errors(scenario: Scenario, gpus: Sequence[str]) -> Iterator[None]:
    """Context manager that adds the responsible settings to the error of a deadlocked run."""
    try:
        yield
    except SimulationError as error:
        told = error_with_cure(error, scenario, gpus)
        if told is error:
            raise
        raise told from error


def error_with_cure(
    error: SimulationError, scenario: Scenario, gpus: Sequence[str]
) -> SimulationError:
    """The error with a cure in terms of settings; unchanged if no setting is responsible.

    Parameters
    ----------
    gpus : names of GPUs, which a spare can replace

    Examples
    --------
    >>> from foretrace.scenarios.config.loader import load
    >>> said = "op 1 would end beyond the range of ticks; use a coarser tick"
    >>> print(error_with_cure(SimulationError("time overflow", said), load("first"), ()).message)
    op 1 would end beyond the 107 days that a run may last; raise the rates, or shorten the times
    """
    said = error.message.rpartition("; ")[0]
    if error.kind == "time overflow" and said.endswith("range of ticks"):
        said = said.replace("range of ticks", f"{DAYS:.0f} days that a run may last")
        return _with_message(error, f"{said}; raise the rates, or shorten the times")
    if error.kind == "memory":
        fewer = ", keep fewer rows (run.keep: ranks)" if "keep=" in error.message else ""
        return _with_message(error, f"{said}; make the run shorter{fewer}, or raise run.memory")
    if isinstance(error, TimeLimitExceeded) and error.submitted:
        return TimeLimitExceeded(error.limit, f" ({_busiest_process(error.submitted)})")
    found = [*_steering_cures(error, scenario, gpus), *_override_cures(error, scenario, gpus)]
    if error.kind not in TOLD or not found:
        return error
    return _with_message(error, f"{said}; {'; '.join(found)}")


def _busiest_process(submitted: Mapping[str, tuple[int, int]]) -> str:
    """Sentence about the process that submitted most ops.

    >>> _busiest_process({"Policy": (300, 3), "Other": (20, 20)})
    'Policy submitted 300 ops in 3 graphs so far'
    """
    who, (ops, graphs) = max(submitted.items(), key=lambda one: one[1])
    return f"{who} submitted {ops:,} ops in {graphs:,} graphs so far"


def _with_message(error: SimulationError, message: str) -> SimulationError:
    return SimulationError(error.kind, message, error.ops, error.open_ops)


def _component_named(error: SimulationError, names: Sequence[str]) -> str:
    """First component named in the error that matches one of the globs; "" for none."""
    words = (word.strip(",;:()") for word in error.message.split())
    return next((w for w in words if any(fnmatchcase(w, name) for name in names)), "")


def _steering_cures(
    error: SimulationError, scenario: Scenario, gpus: Sequence[str]
) -> Iterator[str]:
    """Cure for each process whose settings name a component that the error also names."""
    for i, steering in enumerate(scenario.processes):
        given = steering.settings.values()
        names = [v for g in given for v in (g if isinstance(g, tuple | list) else (g,))]
        at = _component_named(error, [name for name in names if isinstance(name, str)])
        if at and steering.use != SPARE:
            where = _place_text(f"processes.{i}", scenario)
            cure = _cure_for_process(steering.use, scenario, at in gpus)
            yield f"{steering.use} has {at} ({where}): {cure}"


def _cure_for_process(use: str, scenario: Scenario, gpu: bool) -> str:
    if use == "degrade":
        return "write how long it 'lasts', or lower its 'slowdown'"
    if use == "fail":
        return _replacement_cure(scenario, gpu)
    return "let it restore failed components, and resume or cancel stopped ops"


def _replacement_cure(scenario: Scenario, gpu: bool) -> str:
    """Advice to replace a failed component, or to remove the process that makes it fail."""
    if not gpu:
        return "remove it, or use a slowdown instead"
    if any(s.use == SPARE for s in scenario.processes):
        return f"add a component to the 'spares' of {SPARE}, or remove it"
    return f"add a {SPARE} under processes, or remove it"


def _override_cures(
    error: SimulationError, scenario: Scenario, gpus: Sequence[str]
) -> Iterator[str]:
    """Cure for each entry of ``cluster.override`` that matches a component of the error."""
    for glob, override in scenario.cluster.override.items():
        at = _component_named(error, [glob])
        where = _place_text(f"cluster.override.{glob}", scenario)
        if at and override.down:
            yield f"{at} is down ({where}): {_replacement_cure(scenario, at in gpus)}"
        elif at and override.slowdown > 1:
            yield f"{at} is slowed down ({where}): lower its 'slowdown'"


def _place_text(path: str, scenario: Scenario) -> str:
    place = scenario.message_prefix(f"{path}.").removesuffix(": ")
    return f"{path}, {place}" if place else path
