"""Store: the description of a capacity that is made of named, sized entries."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import numpy as np

from . import least_recently_used, oldest_entry, policy_order, window_position  # noqa: F401
from .rule import EVICTION_RULES, EvictionRule


def is_valid_amount(amount: object) -> bool:
    """True for an integer from 1 to 2**63 - 1."""
    return isinstance(amount, (int, np.integer)) and 1 <= int(amount) < 2**63


@dataclass(frozen=True)
class Store:
    """Capacity of a component that holds named, sized entries, such as blocks of a prefix cache.

    Parameters
    ----------
    size : int
        Total size of the entries that fit, in the component's unit.
    eviction : str
        Name of the rule that says which cached entry goes first: ``lru``, ``oldest``, ``window``,
        ``order``, or a rule of a plug-in.

    Examples
    --------
    >>> Store(4096).rule.__name__
    'LeastRecentlyUsed'
    >>> Store(4096, eviction="lro")
    Traceback (most recent call last):
    ValueError: eviction is 'lro'; did you mean 'lru'?
    """

    size: int
    eviction: str = "lru"

    def __post_init__(self) -> None:
        if not is_valid_amount(self.size):
            raise ValueError(f"size is {self.size!r}; give a whole number of 1 or more")
        if self.eviction not in EVICTION_RULES:
            near = difflib.get_close_matches(self.eviction, EVICTION_RULES, 1)
            known = ", ".join(EVICTION_RULES)
            hint = f"did you mean {near[0]!r}?" if near else f"the rules are {known}"
            raise ValueError(f"eviction is {self.eviction!r}; {hint}")

    @property
    def rule(self) -> type[EvictionRule]:
        """Eviction rule."""
        return EVICTION_RULES[self.eviction]
