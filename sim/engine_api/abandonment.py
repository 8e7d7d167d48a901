"""Callbacks of an event that must be known to be abandoned: nobody waits for it any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy


class AbandonableCallbacks(list[Callable[[simpy.Event], None]]):
    """Callback list of an event, which reports when its last callback is removed.

    Examples
    --------
    >>> seen = []
    >>> waiting = AbandonableCallbacks(lambda: seen.append("left"))
    >>> waiting.append(print)
    >>> waiting.remove(print)
    >>> seen
    ['left']
    """

    def __init__(self, on_abandoned: Callable[[], None]):
        super().__init__()
        self.on_abandoned = on_abandoned

    def remove(self, value: Any, /) -> None:
        """Remove one callback, when its process was interrupted or continued for another reason."""
        super().remove(value)
        if not self:
            self.on_abandoned()
