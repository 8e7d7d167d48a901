"""Texts of errors, intervals and differences on an accuracy page."""

from __future__ import annotations

from typing import Any

from ..numbers import digits, format_quantity

LEAST = 1e-4  # below which digits tell nothing


def error(value: float) -> str:
    """A relative error with its sign, to a tenth of a per cent.

    >>> error(-0.0123), error(-0.0001)
    ('-1.2 %', '0.0 %')
    """
    return f"{100 * value:+z.1f} %".replace("+0.0", "0.0")


def within(bounds: Any) -> str:
    """An interval of signed errors in brackets; "(one start: no interval)" without one."""
    return f" ({error(bounds[0])} to {error(bounds[1])})" if bounds else " (one start: no interval)"


def format_signed(value: float, unit: str = "s") -> str:
    """A difference with its sign.

    >>> format_signed(-0.0012), format_signed(0.5)
    ('-1.2 ms', '+500 ms')
    """
    return f"{'-' if value < 0 else '+'}{format_quantity(abs(value), unit)}"


def percent(value: float | None) -> str:
    """An error in per cent; "unknown" for None or NaN.

    >>> percent(0.1234), percent(None), percent(2.6e-7), percent(0.0)
    ('12.3 %', 'unknown', 'below 0.01 %', '0 %')
    """
    if value is None or value != value:
        return "unknown"
    if 0 < abs(value) < LEAST:
        return f"below {digits(100 * LEAST)} %"
    return f"{'-' if value < 0 else ''}{digits(abs(100 * value))} %"


def interval(bounds: Any) -> str:
    """An interval of errors in per cent; "one start" without one."""
    return f"{percent(bounds[0])} to {percent(bounds[1])}" if bounds else "one start"
