"""``backends: {GLOB: {use: NAME, …}}``: which backend answers for which components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from pydantic import ValidationInfo

from ..sim.backend import Backend
from .problems import nearest
from .schema import refusal
from .settings import known_backends, settings_of

T = TypeVar("T")


@dataclass(frozen=True)
class Binding:
    """A backend by name, with its settings in SI.

    Parameters
    ----------
    use : name of the backend
    settings : keyword arguments of its constructor, defaults included
    """

    use: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """All of it, as a scenario has it."""
        return {"use": self.use, **self.settings}

    def make(self) -> Backend:
        """The backend itself; building one touches nothing.

        >>> Binding("link", {"bandwidth": 1e9, "latency": 0.0}).make().rate
        1000000000.0
        """
        return known_backends()[self.use](**self.settings)


def read_binding(data: Any, info: ValidationInfo) -> Binding:
    """From what a file says: ``{use: NAME, …}``, or only the name."""
    if isinstance(data, str):
        data = {"use": data}
    if not isinstance(data, dict):
        raise refusal("mapping", "a backend is written like {use: NAME, …}", value=data)
    name = data.get("use")
    if name is None:
        raise refusal("missing-key", "'use' is missing; it names the backend", value=data)
    known = known_backends()
    if not isinstance(name, str) or name not in known:
        hint = nearest(str(name), sorted(known))
        raise refusal("unknown-backend", f"no backend named '{name}'{hint}", "use", name)
    given = {k: v for k, v in data.items() if k != "use"}
    if info.context is not None:
        info.context[id(data)] = ("use", *settings_of(name).allowed())
    model = settings_of(name).model_validate(given)
    return Binding(name, dict(model))


def matching(table: Mapping[str, T], component: str) -> T | None:
    """What a table of names and globs says of a component: the exact name, else the last glob.

    >>> table = {"node*.gpu*": 1, "node0.gpu0": 2}
    >>> matching(table, "node0.gpu0"), matching(table, "node0.gpu1"), matching(table, "nic")
    (2, 1, None)
    """
    if component in table:
        return table[component]
    fitting = [value for glob, value in table.items() if fnmatchcase(component, glob)]
    return fitting[-1] if fitting else None
