"""``processes``: what steers a run while it goes on: faults, controllers, policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union

from pydantic import Field, PlainValidator, ValidationInfo, create_model

from ....sim.graph import Graph
from ....sim.process import Process
from ..given import build_from_settings
from ..problems import did_you_mean_text
from ..schema import REQUIRED, Many, Section, register, validation_error
from ..settings import constructor_model, known_processes


@dataclass(frozen=True)
class ProcessBinding:
    """A process by name, with its settings in SI.

    Parameters
    ----------
    use : name of the process
    settings : keyword arguments of its constructor
    """

    use: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data as a scenario writes it."""
        return {"use": self.use, **self.settings}

    def make(self, graph: Graph | None = None) -> Process:
        """The process itself; every run has one of its own.

        Parameters
        ----------
        graph : that is run, for a process whose constructor takes a ``Graph``

        Examples
        --------
        >>> ProcessBinding("degrade", {"component": "node0.nic0.tx", "at": 0.1}).make().at
        0.1
        """
        made: Process = build_from_settings(known_processes()[self.use], self.settings, graph)
        return made


def _read_process(data: Any, info: ValidationInfo) -> ProcessBinding:
    """From what a file says: ``{use: NAME, …}``, or only the name."""
    if isinstance(data, str):
        data = {"use": data}
    if not isinstance(data, dict):
        raise validation_error("mapping", "a process is written like {use: NAME, …}", value=data)
    name, known = data.get("use"), known_processes()
    if name is None:
        raise validation_error("missing-key", "'use' is missing; it names the process", value=data)
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean_text(str(name), sorted(known))
        raise validation_error("unknown-process", f"no process named '{name}'{hint}", "use", name)
    model = constructor_model(known[name])
    if info.context is not None:
        info.context[id(data)] = ("use", *model.allowed())
    given = {k: v for k, v in data.items() if k != "use"}
    return ProcessBinding(name, dict(model.model_validate(given)))


def _process_form(name: str) -> type[Section]:
    """A process and its settings, as a file writes them."""
    model = constructor_model(known_processes()[name])
    own: dict[str, Any] = {"use": (Literal[name], Field(REQUIRED, description="This process."))}
    rest: dict[str, Any] = {k: (f.annotation, f) for k, f in model.model_fields.items()}
    told = (model.__doc__ or "").partition("\n")[0]
    return create_model(f"{name}_process", __base__=Section, __doc__=told, **own, **rest)


def process_list_type() -> Any:
    """A list of processes that are registered by now."""
    forms: Any = Union[(str, *(_process_form(name) for name in sorted(known_processes())))]
    reader = PlainValidator(_read_process, json_schema_input_type=forms)
    return Many[Annotated[ProcessBinding, reader]]


register(
    "processes",
    process_list_type,
    (),
    help="Processes that steer a run while it goes on: faults, controllers, policies.",
)
