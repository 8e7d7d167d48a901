"""``cluster.fabric.topology``: the name of a topology, or ``{use: NAME, …}`` with its settings."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from pydantic import Field, ValidationInfo, create_model

from ...models.network.wiring import TOPOLOGIES, Topology
from .schema import REQUIRED, Section, validation_error
from .settings import constructor_model, known_backends


@dataclass(frozen=True)
class TopologyChoice:
    """A topology by name, with its settings in SI.

    Parameters
    ----------
    use : name of the topology
    settings : keyword arguments of its constructor that are said here
    """

    use: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data as a scenario writes it: ``use`` and the settings."""
        return {"use": self.use, **self.settings}


def known_topologies() -> Mapping[str, type[Topology]]:
    """Every topology that there is, by the name that scenarios use.

    >>> list(known_topologies())
    ['dragonfly', 'fat-tree', 'graph', 'rail', 'torus']
    """
    known_backends()  # imports all that registers
    return dict(sorted(TOPOLOGIES.items()))


def read_topology(data: Any, info: ValidationInfo) -> str | TopologyChoice:
    """From what a file says."""
    name = data.get("use") if isinstance(data, dict) else data
    if isinstance(data, dict) and name is None:
        raise validation_error("missing-key", "'use' is missing; it names the topology", value=data)
    known = known_topologies()
    where = "use" if isinstance(data, dict) else ""
    if not isinstance(name, str) or name not in known:
        written = str(name).lower() if isinstance(name, bool) else name
        near = difflib.get_close_matches(str(name), known, 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        message = f"'{written}' is not one of: {', '.join(known)}{hint}"
        raise validation_error("not-one-of", message, where, name)
    if not isinstance(data, dict):
        return name
    given = {k: v for k, v in data.items() if k != "use"}
    model = constructor_model(known[name], optional=True)
    if info.context is not None:
        info.context[id(data)] = ("use", *model.allowed())
    return TopologyChoice(name, {k: v for k, v in model.model_validate(given) if v is not None})


def topology_forms() -> Any:
    """The forms of ``topology`` in a file, for editors."""
    known = known_topologies()
    return Union[
        (Literal[tuple(known)], *(_topology_form(name, cls) for name, cls in known.items()))
    ]


def _topology_form(name: str, cls: type[Topology]) -> type[Section]:
    model = constructor_model(cls, optional=True)
    own: dict[str, Any] = {"use": (Literal[name], Field(REQUIRED, description="This topology."))}
    rest: dict[str, Any] = {k: (f.annotation, f) for k, f in model.model_fields.items()}
    told = (model.__doc__ or "").partition("\n")[0]
    return create_model(f"{name}_topology", __base__=Section, __doc__=told, **own, **rest)
