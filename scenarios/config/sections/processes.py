"""``processes``: processes that act during a run: faults, controllers, policies."""

from __future__ import annotations

from typing import Annotated, Any, Union

from pydantic import PlainValidator

from ....sim.facts.graph import Graph
from ....sim.run.process import Process
from ..choice import Choice, ChoiceKind
from ..run_arguments import build_from_settings
from ..schema import Many, register
from ..settings import known_processes

PROCESS = ChoiceKind("process", known_processes)


def make_process(choice: Choice, graph: Graph | None = None) -> Process:
    """Construct the process of a choice; every run gets its own.

    Parameters
    ----------
    choice : name and settings of the process
    graph : graph of the run, for a process whose constructor takes a ``Graph``

    Examples
    --------
    >>> make_process(Choice("degrade", {"component": "node0.nic0.tx", "at": 0.1})).at
    0.1
    """
    made: Process = build_from_settings(known_processes()[choice.use], choice.settings, graph)
    return made


def process_list_type() -> Any:
    """Type of a list of registered processes."""
    forms: Any = Union[(str, *map(PROCESS.form, sorted(known_processes())))]
    reader = PlainValidator(PROCESS.read, json_schema_input_type=forms)
    return Many[Annotated[Choice, reader]]


register(
    "processes",
    process_list_type,
    (),
    help="Processes that act during a run: faults, controllers, policies.",
)
