"""``cluster.fabric.topology``: the name of a topology, or ``{use: NAME, …}`` with its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Union

from pydantic import ValidationInfo

from ...models.network.topology.wiring import TOPOLOGIES, Topology
from .choice import Choice, ChoiceKind
from .settings import known_backends


def known_topologies() -> Mapping[str, type[Topology]]:
    """Every topology that there is, by the name that scenarios use.

    >>> list(known_topologies())
    ['dragonfly', 'fat-tree', 'graph', 'rail', 'torus']
    """
    known_backends()  # imports all that registers
    return dict(sorted(TOPOLOGIES.items()))


TOPOLOGY = ChoiceKind("topology", known_topologies, partial=True)


def read_topology(data: Any, info: ValidationInfo) -> str | Choice:
    """From what a file says: the name where that is all."""
    choice = TOPOLOGY.read(data, info)
    return choice if isinstance(data, dict) else choice.use


def topology_forms() -> Any:
    """The forms of ``topology`` in a file, for editors."""
    known = tuple(known_topologies())
    return Union[(Literal[known], *map(TOPOLOGY.form, known))]
