"""Pool that serves items: its servers, and the line in front of them."""

from __future__ import annotations

from dataclasses import dataclass

from ..waiting_room import Queue


@dataclass(frozen=True)
class ItemPool:
    """Pool of equal servers with one line, first come, first served; or a delay.

    A pool of items is no component: no op runs on it. Several streams of a run have separate pools.

    Parameters
    ----------
    name : str
        Name in results.
    servers : int or None
        Number of items served at once. None: a delay, which any number of items pass side by side.
    queue : Queue or None
        Bound of the line, and the rule for items that find it full; None for no bound. With
        ``wait``, an item waits at its source: it keeps its server there until there is room.

    Examples
    --------
    >>> ItemPool("parse", 4, Queue(16, "drop")).servers
    4
    >>> ItemPool("parse", 0)
    Traceback (most recent call last):
    ValueError: pool parse: servers is 0; give 1 or more, or None for a delay
    """

    name: str
    servers: int | None
    queue: Queue | None = None

    def __post_init__(self) -> None:
        if not self.name or not isinstance(self.name, str):
            raise ValueError(f"pool: name is {self.name!r}; give it a name")
        n = self.servers
        if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
            raise ValueError(
                f"pool {self.name}: servers is {n!r}; give 1 or more, or None for a delay"
            )
        if n is None and self.queue is not None:
            raise ValueError(f"pool {self.name}: a delay has no line; leave queue out")
