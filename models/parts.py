"""Registry of kinds of machine parts other than the built-in ones, one class each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, TypeVar

from ..sim.facts.system import Component
from ..sim.registry import register


class NodePart:
    """Base class of a kind of machine part. Subclasses implement ``components``.

    The constructor defines the schema: its keyword names are the keys of ``cluster.node.NAME`` next
    to ``model`` and ``count``, and those of catalog entries. Its annotations define the units, and
    its docstring documents the keys.

    Attributes
    ----------
    priced_by : str
        Setting by which ``cost.items`` may price the part (``per: 1 GiB``); "" to price by the
        number of parts.
    """

    registered_name: ClassVar[str] = ""
    priced_by: ClassVar[str] = ""

    def components(self, name: str) -> Iterable[Component]:
        """Components of one part; their names start with ``name``, such as ``node0.dpu1``.

        The GPUs of a machine share its parts evenly. A GPU finds its part by ``role``, which is the
        name of the kind unless the component sets another (``system.part(gpu, role)``).
        """
        raise TypeError(
            f"{type(self).__name__} has no components(); write it to return the components "
            "of one part"
        )


PARTS: dict[str, type[NodePart]] = {}
P = TypeVar("P", bound=type[NodePart])


def part(name: str) -> Callable[[P], P]:
    """Register a kind of part under the name used in scenarios.

    Raises
    ------
    ValueError
        The name is already registered.
    """
    return register(PARTS, "kinds of part", name, "registered_name")
