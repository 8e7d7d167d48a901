"""Parser of decimal times into exact integers, many at once, without going through a float.

A float64 near 1.7e15 us (the year 2024) has a resolution of only 0.25 us, so times are parsed from
their digits. Texts of equal layout form a matrix of characters. A matrix product with powers of ten
gives their values as int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, InvalidOperation
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PLACES = 6  # decimals kept of a µs: picoseconds
_UNIT = 10**PLACES
_WIDE = Context(prec=64)  # digits: enough for any time that is not nonsense
_LARGEST = 10**18  # µs


class Micros(NamedTuple):
    """Times as whole microseconds plus the remaining picoseconds.

    Parameters
    ----------
    whole : whole microseconds, rounded down, shape (n,)
    pico : remaining picoseconds, 0 to 999,999, shape (n,)
    rounded : int
        Number of texts with more digits than a picosecond, which were rounded half to even.
    """

    whole: NDArray[np.int64]
    pico: NDArray[np.int64]
    rounded: int = 0


def parse_micros(texts: Sequence[Any]) -> Micros:
    """Parse decimal microseconds, given as bytes or msgspec's Raw.

    Raises
    ------
    ValueError
        A text that is no decimal number; ``args`` are its row and the text.

    Examples
    --------
    >>> times = parse_micros([b"1712170331000000.123", b"7", b"0.25"])
    >>> times.whole.tolist(), times.pico.tolist()
    ([1712170331000000, 7, 0], [123000, 0, 250000])
    """
    flat = np.frombuffer(b"\n".join([*texts, b""]), np.uint8)
    ends = np.flatnonzero(flat == 10)
    if len(ends) != len(texts):
        return _parse_one_by_one(texts, range(len(texts)), _empty_micros(len(texts)))
    starts = np.concatenate([[0], ends[:-1] + 1])[: len(ends)]
    dots = _decimal_point_positions(flat, starts, ends)
    out, odd = _empty_micros(len(texts)), []
    layout = (ends - starts) * 256 + (dots - starts)
    for code in np.unique(layout).tolist():
        rows = np.flatnonzero(layout == code)
        length, dot = divmod(code, 256)
        ok = _parse_same_layout(flat, starts[rows], length, dot, rows, out)
        odd += rows[~ok].tolist()
    return _parse_one_by_one(texts, odd, out)


def _empty_micros(n: int) -> Micros:
    return Micros(np.zeros(n, np.int64), np.zeros(n, np.int64))


def _decimal_point_positions(
    flat: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Position of the decimal point of each text; the text's end if it has none."""
    dots = np.concatenate([np.flatnonzero(flat == 46), [len(flat)]])
    return np.asarray(np.minimum(dots[np.searchsorted(dots, starts)], ends), np.int64)


def _parse_same_layout(
    flat: NDArray[np.uint8],
    starts: NDArray[np.int64],
    length: int,
    dot: int,
    rows: NDArray[np.int64],
    out: Micros,
) -> NDArray[np.bool_]:
    """Parse texts of equal length and equal position of the decimal point into `out`.

    Returns an array with False where a text is not of this form.
    """
    decimals = max(length - dot - 1, 0)
    if not 0 < dot <= 18 or decimals > PLACES:
        return np.zeros(len(rows), np.bool_)
    ok = np.ones(len(rows), np.bool_)
    out.whole[rows] = _parse_digits(flat, starts, dot, ok)
    out.pico[rows] = _parse_digits(flat, starts + dot + 1, decimals, ok) * 10 ** (PLACES - decimals)
    return ok


def _parse_digits(
    flat: NDArray[np.uint8], starts: NDArray[np.int64], length: int, ok: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Integers of `length` digits at `starts`; clears `ok` where a character is not a digit."""
    value = np.zeros(len(starts), np.int64)
    for place in range(length):
        digit = flat[starts + place] - np.uint8(48)  # anything else wraps to above 9
        ok &= digit <= 9
        value = value * 10 + digit
    return value


def _parse_one_by_one(texts: Sequence[Any], rows: Sequence[int], out: Micros) -> Micros:
    """Parse rare texts with signs, exponents, quotes or many digits, one at a time."""
    rounded = 0
    for row in rows:
        exact, was_rounded = _picoseconds(bytes(texts[row]).decode("utf-8", "replace"), row)
        rounded += was_rounded
        out.whole[row], out.pico[row] = divmod(exact, _UNIT)
    return out._replace(rounded=rounded)


def _picoseconds(text: str, row: int) -> tuple[int, bool]:
    """Picoseconds of one text, and True if it had to be rounded."""
    try:
        value = _WIDE.multiply(_WIDE.create_decimal(text.strip('"')), _WIDE.create_decimal(_UNIT))
        if not value.is_finite() or abs(value) > _LARGEST * _UNIT:
            raise ValueError(row, text)
    except InvalidOperation:
        raise ValueError(row, text) from None
    exact = int(value.to_integral_value(ROUND_HALF_EVEN, _WIDE))
    return exact, exact != value
