"""Checks of arguments: whole numbers, finite numbers, names and columns of them.

Each check returns the value, or raises the error that ``refuse`` makes of a text such as
``amount is nan; give a whole number, 1 or more``. The caller adds the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf, isfinite
from numbers import Real
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

Refuse = Callable[[str], Exception]
LEAST, MOST = -(2**63), 2**63 - 1  # integers of 64 bits
MOST_INT32 = 2**31 - 1
LONGEST = 40  # characters of a wrong value in a message


def shown(value: object) -> str:
    """Wrong value as a short text, for an error message.

    >>> shown(float("nan")), shown("x"), shown(10**9999)
    ('nan', "'x'", 'an integer of 33216 bits')
    """
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = str(value) if isinstance(value, np.generic) else repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def as_integer(
    what: str, value: object, refuse: Refuse, least: int = LEAST, most: int = MOST
) -> int:
    """Whole number within bounds.

    Parameters
    ----------
    what : name of the argument
    value : what was given
    refuse : function from the text of an error to the error
    least, most : bounds; by default those of 64 bits

    Examples
    --------
    >>> as_integer("rank", 3, ValueError), as_integer("rank", np.int64(3), ValueError, 0)
    (3, 3)
    >>> as_integer("rank", 0.5, ValueError, 0)
    Traceback (most recent call last):
    ValueError: rank is 0.5; give a whole number, 0 or more
    """
    try:
        found = index(value)  # type: ignore[arg-type]
    except TypeError:
        found = None
    if found is None or not least <= found <= most:
        raise refuse(f"{what} is {shown(value)}; give a whole number{_range(least, most)}")
    return found


def _range(least: int, most: int) -> str:
    if least == LEAST:
        return " of 64 bits" if most == MOST else f", {most:,} or less"
    return f", {least:,} or more" if most == MOST else f" between {least:,} and {most:,}"


def as_finite(
    what: str, value: object, refuse: Refuse, least: float = -inf, unit: str = ""
) -> float:
    """Finite number, not below a bound.

    Parameters
    ----------
    what : name of the argument
    value : what was given
    refuse : function from the text of an error to the error
    least : smallest number
    unit : text after the bound, such as `` s``

    Examples
    --------
    >>> as_finite("rate", 3, ValueError)
    3.0
    >>> as_finite("rate", float("nan"), ValueError, 0)
    Traceback (most recent call last):
    ValueError: rate is nan; give a finite number, 0 or more
    """
    found = as_float(value)
    if found is None or not (isfinite(found) and found >= least):
        bound = f", {least:g}{unit} or more" if least > -inf else ""
        raise refuse(f"{what} is {shown(value)}; give a finite number{bound}")
    return found


def as_float(value: object) -> float | None:
    """Number as a float; None if it is no real number, or too large.

    >>> as_float(2), as_float("2"), as_float(10**400)
    (2.0, None, None)
    """
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    try:
        return float(value) if isinstance(value, Real) else None
    except OverflowError:
        return None


def as_text(what: str, value: object, refuse: Refuse) -> str:
    """Text that is not empty.

    >>> as_text("metric", 3, ValueError)
    Traceback (most recent call last):
    ValueError: metric is 3; give a name
    """
    if not isinstance(value, str) or not value:
        raise refuse(f"{what} is {shown(value)}; give a name")
    return value


def as_names(what: str, value: object, refuse: Refuse) -> tuple[str, ...]:
    """Names, from a list or another collection of them.

    >>> as_names("gpus", ["a", "b"], ValueError)
    ('a', 'b')
    >>> as_names("gpus", "a", ValueError)
    Traceback (most recent call last):
    ValueError: gpus is 'a'; give a list of names
    """
    found = () if isinstance(value, str | bytes) or not isinstance(value, Iterable) else [*value]
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise refuse(f"{what} is {shown(value)}; give a list of names")
    return tuple(found)


def as_mapping(what: str, value: object, refuse: Refuse, of: str) -> Mapping[Any, Any]:
    """Mapping; ``of`` describes its items in the message.

    >>> as_mapping("usage", 3, ValueError, "a component to a weight")
    Traceback (most recent call last):
    ValueError: usage is 3; give a mapping from a component to a weight
    """
    if not isinstance(value, Mapping):
        raise refuse(f"{what} is {shown(value)}; give a mapping from {of}")
    return value


def as_column(what: str, values: object, dtype: Any, refuse: Refuse) -> NDArray[Any]:
    """Numbers as an array of a type, none of them changed but for the precision of floats.

    ``None`` becomes NaN in a column of floats.

    Examples
    --------
    >>> as_column("ranks", [0, 1], np.int32, ValueError).tolist()
    [0, 1]
    >>> as_column("ranks", [0, 2**40], np.int32, ValueError)
    Traceback (most recent call last):
    ValueError: ranks is 1099511627776; give whole numbers between -2,147,483,648 and 2,147,483,647
    """
    if isinstance(values, np.ndarray) and values.dtype == dtype:
        return values
    try:
        found = np.asarray(values)
        made = _cast(found, np.dtype(dtype))
    except (TypeError, ValueError, OverflowError):
        made = None
    if made is not None:
        return made
    raise refuse(f"{what} is {_wrong_value(values, dtype)}; give {_numbers_of(dtype)}")


def _cast(found: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Array of another type; None if a value does not fit into it."""
    kind = found.dtype.kind
    if kind not in "biuf" and not (kind == "O" and all(map(_is_real, found.flat))):
        return None
    if dtype.kind == "f":
        return found.astype(dtype)
    if not found.size:
        return found.astype(dtype)
    if kind == "O" or (kind == "f" and not np.all(np.rint(found) == found)):
        return None
    range_ = np.iinfo(dtype)
    if found.min() < range_.min or found.max() >= range_.max + 1:
        return None
    return found.astype(dtype)


def _is_real(value: object) -> bool:
    return value is None or isinstance(value, Real)


def _wrong_value(values: object, dtype: Any) -> str:
    """First wrong value of a list, or the list itself, as a text."""
    each = values.flat if isinstance(values, np.ndarray) else values
    for value in each if isinstance(each, list | tuple | np.flatiter) else ():
        try:
            fits = _cast(np.asarray(value), np.dtype(dtype)) is not None
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            return shown(value)
    return shown(values)


def _numbers_of(dtype: Any) -> str:
    if np.dtype(dtype).kind == "f":
        return "numbers"
    range_ = np.iinfo(dtype)
    return f"whole numbers between {range_.min:,} and {range_.max:,}"
