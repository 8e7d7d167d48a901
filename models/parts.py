"""Registry of kinds of part beyond those of every machine, one class each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, TypeVar

from ..sim.facts.system import Component
from ..sim.registry import register


class NodePart:
    """A kind of part of machines.  Subclass, and write ``components``.

    The constructor is the schema: its keyword names are the keys that ``cluster.node.NAME`` takes
    beside ``model`` and ``count``, and those of catalog entries; their annotations say which unit
    each value must carry, the docstring what it means.

    Attributes
    ----------
    priced_by : str
        Setting that ``cost.items`` may price it by (``per: 1 GiB``); "" for the number of parts.
    """

    registered_name: ClassVar[str] = ""
    priced_by: ClassVar[str] = ""

    def components(self, name: str) -> Iterable[Component]:
        """Components of one such part; their names begin with ``name``, as in ``node0.dpu1``.

        GPUs of the machine share its parts evenly; each finds its own by ``role``, which is the
        name of the kind unless a component says another (``system.part(gpu, role)``).
        """
        raise TypeError(f"{type(self).__name__} is made of nothing: write components()")


PARTS: dict[str, type[NodePart]] = {}
P = TypeVar("P", bound=type[NodePart])


def part(name: str) -> Callable[[P], P]:
    """Register a kind of part under the name that scenarios use.

    Raises
    ------
    ValueError
        The name is taken.
    """
    return register(PARTS, "kinds of part", name, "registered_name")
