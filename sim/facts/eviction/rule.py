"""Base class and registry of eviction rules.

A rule names two numbers that a store keeps for each entry. Cached entries are evicted in ascending
order of these numbers; equal entries in the order of their creation. So a rule is data, and both
engines apply it without calling Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from ...registry import register

NUMBERS = ("zero", "order", "outside", "used", "created", "uses", "size")
"""Numbers of an entry that a rule may name, in the order of the columns of the compiled engine.

``zero`` is 0; ``order`` the number that the policy gave it; ``outside`` that number if it is
negative, else 0; ``used`` counts the uses in the store up to its last one; ``created`` counts them
up to its creation; ``uses`` is the number of its holds; ``size`` its size.
"""


class EvictionRule:
    """Rule by which a store evicts cached entries; subclasses name two numbers of an entry.

    Attributes
    ----------
    first_by, then_by : str
        Names in :data:`NUMBERS`. The entry with the smallest ``first_by`` goes first; equal ones go
        by ``then_by``, then by creation.

    Examples
    --------
    >>> class LeastOften(EvictionRule):
    ...     first_by, then_by = "uses", "used"
    >>> LeastOften.keeps_order()
    False
    """

    registered_name: ClassVar[str] = ""
    first_by: ClassVar[str] = "zero"
    then_by: ClassVar[str] = "created"

    @classmethod
    def keeps_order(cls) -> bool:
        """True if the rule uses the number that a policy gives to an entry."""
        return not {"order", "outside"}.isdisjoint((cls.first_by, cls.then_by))


EVICTION_RULES: dict[str, type[EvictionRule]] = {}
R = TypeVar("R", bound=type[EvictionRule])


def eviction_rule(name: str) -> Callable[[R], R]:
    """Class decorator that registers an eviction rule under the name that stores use.

    Raises
    ------
    ValueError
        The name is taken, or the rule names an unknown number.

    Examples
    --------
    >>> @eviction_rule("alphabetic")
    ... class Alphabetic(EvictionRule):
    ...     first_by = "letter"
    Traceback (most recent call last):
    ValueError: eviction rule 'alphabetic': the number 'letter' is unknown; take zero, order, \
outside, used, created, uses or size
    """

    def add_to_table(rule: R) -> R:
        for number in (rule.first_by, rule.then_by):
            if number not in NUMBERS:
                known = f"{', '.join(NUMBERS[:-1])} or {NUMBERS[-1]}"
                raise ValueError(
                    f"eviction rule {name!r}: the number {number!r} is unknown; take {known}"
                )
        return register(EVICTION_RULES, "eviction rules", name, "registered_name")(rule)

    return add_to_table
