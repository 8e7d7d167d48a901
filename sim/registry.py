"""Registration of classes under the names that scenarios use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def register(
    table: dict[str, Any], plural: str, name: str, attribute: str = ""
) -> Callable[[C], C]:
    """Class decorator that adds a class to a table of named classes.

    A reloaded class replaces its older version.

    Parameters
    ----------
    plural : plural noun for the classes in the table, used in error messages
    attribute : class attribute that is set to the name; "" sets none

    Raises
    ------
    ValueError
        The name is taken by another class.

    Examples
    --------
    >>> table = {"fast": int}
    >>> register(table, "engines", "slow")(str)
    <class 'str'>
    >>> register(table, "engines", "fast")(float)
    Traceback (most recent call last):
    ValueError: two engines are named 'fast': <class 'int'> and <class 'float'>; rename one
    """

    def add_to_table(cls: C) -> C:
        taken = table.setdefault(name, cls)
        if taken.__qualname__ != cls.__qualname__:
            raise ValueError(f"two {plural} are named {name!r}: {taken} and {cls}; rename one")
        table[name] = cls
        if attribute:
            setattr(cls, attribute, name)
        return cls

    return add_to_table
