"""Way: an alternative for where the ops of a prepared graph run, or which route its data take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .system import Pick, Route


@dataclass(frozen=True)
class Way:
    """Alternative GPUs or routes of a prepared graph, chosen by ``submit(prepared, way=i)``.

    Parameters
    ----------
    gpus : names, or None
        GPU of each rank, or another component with slots; None for those of the preparation.
    routes : mapping
        Route from a sender to a receiver, by their names: an index of ``System.routes``, or the
        names of the components that the data cross, in order. Other pairs use the usual routes.

    Examples
    --------
    >>> Way(["node0.gpu1"]), Way(routes={("node0.gpu0", "node1.gpu0"): 3}).gpus
    (Way(gpus=['node0.gpu1'], routes={}), None)
    """

    gpus: Sequence[str] | None = None
    routes: Mapping[tuple[str, str], Pick] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Pins:
    """Routes that a graph chose itself, by component numbers of sender and receiver."""

    routes: Mapping[tuple[int, int], Route]
