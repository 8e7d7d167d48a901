"""``cluster.fabric.topology``: the name of a topology, or ``{use: NAME, …}`` with its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Union

from pydantic import ValidationInfo

from ...models.network.topology.wiring import TOPOLOGIES, Topology
from .choice import Choice, ChoiceKind
from .settings import known_backends


def known_topologies() -> Mapping[str, type[Topology]]:
    """All registered topologies by name.

    >>> list(known_topologies())
    ['dragonfly', 'fat-tree', 'graph', 'rail', 'torus']
    """
    known_backends()  # imports all that registers
    return dict(sorted(TOPOLOGIES.items()))


TOPOLOGY = ChoiceKind("topology", known_topologies, partial=True)


def read_topology(data: Any, info: ValidationInfo) -> str | Choice:
    """Read a topology: its name, or a choice with settings."""
    choice = TOPOLOGY.read(data, info)
    return choice if isinstance(data, dict) else choice.use


def topology_forms() -> Any:
    """Forms of ``topology`` in a file, for the JSON schema."""
    known = tuple(known_topologies())
    return Union[(Literal[known], *map(TOPOLOGY.form, known))]
