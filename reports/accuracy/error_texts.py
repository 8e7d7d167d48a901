"""Formatting of errors, intervals and differences on an accuracy page."""

from __future__ import annotations

from typing import Any

from ..numbers import format_quantity, three_digits

LEAST = 1e-4  # below which digits tell nothing


def format_error(value: float) -> str:
    """Format a relative error with its sign, to a tenth of a per cent.

    >>> format_error(-0.0123), format_error(-0.0001)
    ('-1.2 %', '0.0 %')
    """
    return f"{100 * value:+z.1f} %".replace("+0.0", "0.0")


def bracketed_interval(bounds: Any) -> str:
    """Format an interval of signed errors in brackets; without one, "(one start: no interval)"."""
    return (
        f" ({format_error(bounds[0])} to {format_error(bounds[1])})"
        if bounds
        else " (one start: no interval)"
    )


def format_signed(value: float, unit: str = "s") -> str:
    """Format a difference with its sign and unit.

    >>> format_signed(-0.0012), format_signed(0.5)
    ('-1.2 ms', '+500 ms')
    """
    return f"{'-' if value < 0 else '+'}{format_quantity(abs(value), unit)}"


def unsigned_error(value: float | None) -> str:
    """Format an error in per cent without a plus sign; "unknown" for None or NaN.

    >>> unsigned_error(0.1234), unsigned_error(None), unsigned_error(2.6e-7), unsigned_error(0.0)
    ('12.3 %', 'unknown', 'below 0.01 %', '0 %')
    """
    if value is None or value != value:
        return "unknown"
    if 0 < abs(value) < LEAST:
        return f"below {three_digits(100 * LEAST)} %"
    return f"{'-' if value < 0 else ''}{three_digits(abs(100 * value))} %"


def format_error_interval(bounds: Any) -> str:
    """Format an interval of errors in per cent; without one, "one start"."""
    return f"{unsigned_error(bounds[0])} to {unsigned_error(bounds[1])}" if bounds else "one start"
