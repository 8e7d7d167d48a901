"""Queue in front of a component's slots: how many ops it takes, and where the others go."""

from __future__ import annotations

from dataclasses import dataclass

WAIT, DROP, ELSEWHERE = RULES = ("wait", "drop", "elsewhere")


@dataclass(frozen=True)
class Queue:
    """Bounded queue in front of slots, and the rule for ops that find it full.

    Parameters
    ----------
    length : int
        Number of ops that may wait; those that run are not counted.
    full : str
        Rule for an op that arrives when it is full. ``wait``: it waits outside, and is served as if
        the queue were longer. ``drop``: it is dropped, and all ops that depend on it are cancelled.
        ``elsewhere``: it queues at another component.
    elsewhere : tuple of str
        Names or globs of these components, tried in this order, first within the component's
        machine.

    Examples
    --------
    >>> Queue(16, "elsewhere", ("nf*",)).elsewhere
    ('nf*',)
    >>> Queue(-1)
    Traceback (most recent call last):
    ValueError: queue: length is -1; give the number of ops that may wait, 0 or more
    """

    length: int
    full: str = WAIT
    elsewhere: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.length, int) or isinstance(self.length, bool) or self.length < 0:
            raise ValueError(
                f"queue: length is {self.length!r}; give the number of ops that may wait, 0 or more"
            )
        if self.full not in RULES:
            raise ValueError(f"queue: full is {self.full!r}; write one of {', '.join(RULES)}")
        if isinstance(self.elsewhere, str):
            object.__setattr__(self, "elsewhere", (self.elsewhere,))
        object.__setattr__(self, "elsewhere", tuple(self.elsewhere))
        if (self.full == ELSEWHERE) != bool(self.elsewhere):
            raise ValueError(
                f"queue: full is {self.full!r} and elsewhere is {list(self.elsewhere)}; name "
                "components in elsewhere if, and only if, full is 'elsewhere'"
            )
