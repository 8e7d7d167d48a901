"""Files that a scenario names and that are not there; none of them is opened."""

from __future__ import annotations

from collections.abc import Iterator

from ....sim.errors import ScenarioError
from ...config.problems import FilePosition, Problem
from ...config.reading.files import CHOSEN, content_digest, named_files
from ...config.reading.tree import dotted_path_text
from ...config.scenario import Scenario
from ...workloads.trace_files import paths
from .jobs import files_of


def missing_file_problems(scenario: Scenario) -> Iterator[Problem]:
    """Every name of a file, in the scenario or a variant, that no file fits.

    Examples
    --------
    >>> from foretrace.scenarios.config.loader import load
    >>> said = load("first", set=["workload.trace=foretrace:ddp-gtp"])
    >>> [p.message for p in missing_file_problems(said)][0]
    "workload.trace: no bundled trace 'foretrace:ddp-gtp'; did you mean 'foretrace:ddp-gpt'?"
    """
    told: set[str] = set()
    for one in scenario.variants():
        for path, name in files_of(one):
            message = _missing_message(path.rpartition(".")[2], name)
            if message and message not in told:
                told.add(message)
                yield Problem("missing-file", message, _spot_of(one, path))
        yield from _missing_of_backends(one, told)


def _missing_of_backends(scenario: Scenario, reported: set[str]) -> Iterator[Problem]:
    """Problem for each file of a backend, a process or a sweep that is missing, once each."""
    for path, name in named_files(scenario.plain):
        if path[0] in (*CHOSEN, "sweep") and not content_digest(name):
            message = f"no file '{name}'; correct the path"
            if message not in reported:
                reported.add(message)
                yield Problem("missing-file", message, _spot_of(scenario, dotted_path_text(path)))


def _missing_message(key: str, name: str) -> str:
    """Message on a name that no file fits; "" where one does."""
    try:
        return "" if paths(name) else f"no file matches '{name}'; correct the path"
    except ScenarioError as error:
        return str(error)


def _spot_of(scenario: Scenario, path: str) -> FilePosition:
    parts = scenario.message_prefix(path).rstrip(": ").rsplit(":", 2)
    if len(parts) < 3:
        return FilePosition(scenario.file, path=path)
    return FilePosition(parts[0], int(parts[1]), int(parts[2]), path=path)
