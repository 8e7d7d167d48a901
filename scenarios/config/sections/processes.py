"""``processes``: what steers a run while it goes on: faults, controllers, policies."""

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
    """The process of a choice; every run has one of its own.

    Parameters
    ----------
    choice : of a process
    graph : that is run, for a process whose constructor takes a ``Graph``

    Examples
    --------
    >>> make_process(Choice("degrade", {"component": "node0.nic0.tx", "at": 0.1})).at
    0.1
    """
    made: Process = build_from_settings(known_processes()[choice.use], choice.settings, graph)
    return made


def process_list_type() -> Any:
    """A list of processes that are registered by now."""
    forms: Any = Union[(str, *map(PROCESS.form, sorted(known_processes())))]
    reader = PlainValidator(PROCESS.read, json_schema_input_type=forms)
    return Many[Annotated[Choice, reader]]


register(
    "processes",
    process_list_type,
    (),
    help="Processes that act during a run: faults, controllers, policies.",
)
