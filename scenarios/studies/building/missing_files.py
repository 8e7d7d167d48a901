"""Files that a scenario names but that do not exist; no file is opened."""

from __future__ import annotations

from collections.abc import Iterator

from ....sim.errors import ScenarioError
from ...config.problems import Problem
from ...config.reading.files import CHOSEN, content_digest, named_files
from ...config.reading.tree import dotted_path_text
from ...config.scenario import Scenario
from ...workloads.trace_files import paths
from .jobs import files_of


def missing_file_problems(scenario: Scenario) -> Iterator[Problem]:
    """Problems of file names, in the scenario or a variant, that match no file.

    Examples
    --------
    >>> from foretrace.scenarios.config.loader import load
    >>> said = load("first", set=["workload.trace=foretrace:ddp-gtp"])
    >>> [p.message for p in missing_file_problems(said)][0]
    "workload.trace: no bundled trace 'foretrace:ddp-gtp'; did you mean 'foretrace:ddp-gpt'?"
    """
    told: set[str] = set()
    for one in scenario.variants():
        for path, message in _missing_files(one):
            if message and message not in told:
                told.add(message)
                yield Problem("missing-file", message, one.spot(path))


def _missing_files(one: Scenario) -> Iterator[tuple[str, str]]:
    """Setting and error message of each file name; the message is "" if a file exists."""
    for path, name in files_of(one):
        try:
            yield path, "" if paths(name) else f"no file fits '{name}'; correct the path"
        except ScenarioError as error:
            yield path, str(error)
    for place, name in named_files(one.plain):
        if place[0] in (*CHOSEN, "sweep") and not content_digest(name):
            yield dotted_path_text(place), f"no file '{name}'; correct the path"
