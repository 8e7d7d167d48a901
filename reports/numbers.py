"""Formatting of numbers for people: three digits, a prefix, a unit."""

from __future__ import annotations

import math

PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""),
            (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"))  # fmt: skip
NONE = "no change"
NOTHING = 5e-6  # fractions below it are rounding errors
THOUSAND = 1_000.0  # USD: money has no prefixes
MOST_SECONDS = 600.0  # beyond which minutes are easier
MANIFOLD = 10.0  # relative change from which on it is given as a multiple


def format_quantity(value: float | None, unit: str) -> str:
    """Format a value in an SI unit with prefix and unit.

    >>> format_quantity(0.0348, "s"), format_quantity(7300.0, "s"), format_quantity(None, "s")
    ('34.8 ms', '122 min', 'unknown')
    >>> format_quantity(25e9, "B/s"), format_quantity(0.714, ""), format_quantity(1.3e-15, "")
    ('25 GB/s', '71.4 %', '0 %')
    >>> format_quantity(1.0, "1"), format_quantity(2.5e-7, "1"), format_quantity(123456.0, "1")
    ('1', '2.5e-07', '123,456')
    >>> format_quantity(0.0477, "USD"), format_quantity(12345.6, "USD")
    ('0.0477 USD', '12,346 USD')
    """
    if value is None or not math.isfinite(value):
        return "unknown"
    if unit == "":
        return f"{three_digits(100 * value)} %" if abs(value) >= NOTHING else "0 %"
    if unit == "1":
        return f"{value:,.0f}" if abs(value) >= THOUSAND else f"{value:.3g}"
    if unit == "USD":
        return f"{value:,.0f} USD" if abs(value) >= THOUSAND else f"{three_digits(value)} USD"
    if unit == "s" and abs(value) >= MOST_SECONDS:
        return f"{three_digits(value / 60)} min"
    for scale, prefix in PREFIXES:
        if abs(value) >= scale * 0.9995:
            return f"{three_digits(value / scale)} {prefix}{unit}"
    return f"0 {unit}"


def axis_scale(largest: float, unit: str) -> tuple[float, str]:
    """Factor and name of a readable unit for values up to ``largest``.

    >>> axis_scale(0.02, "s"), axis_scale(0.5, ""), axis_scale(0.004, "USD")
    ((0.001, 'ms'), (0.01, '%'), (1.0, 'USD'))
    """
    if unit == "USD":
        return 1.0, unit  # as in tables and sentences: there are no thousandths of a dollar
    if unit == "":
        return 0.01, "%"
    for scale, prefix in PREFIXES:
        if largest >= scale:
            return scale, f"{prefix}{unit}"
    return 1.0, unit


def three_digits(value: float) -> str:
    """Format a number with three significant digits, without exponent or trailing zeros.

    >>> three_digits(1234.5), three_digits(12.34), three_digits(0.5), three_digits(100.0)
    ('1234', '12.3', '0.5', '100')
    """
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_share(ratio: float, places: int = 1) -> str:
    """Format a fraction in per cent.

    >>> format_share(0.4213), format_share(0.4213, 0)
    ('42.1 %', '42 %')
    """
    return f"{100 * ratio:.{places}f} %"


def format_signed_share(ratio: float) -> str:
    """Format a relative difference in per cent, with its sign.

    >>> format_signed_share(-0.024), format_signed_share(math.inf)
    ('-2.4 %', 'from 0')
    """
    if math.isinf(ratio):
        return "from 0"
    return f"{100 * ratio:+.1f} %"


def format_change(ratio: float) -> str:
    """Format a relative change with its sign; a large increase is given as a multiple.

    >>> format_change(-0.1213), format_change(0.0004), format_change(24.63)
    ('-12.1 %', 'no change', '25.6 times as much')
    """
    if ratio >= MANIFOLD:
        return f"{three_digits(1 + ratio)} times as much"
    return NONE if abs(ratio) < 0.0005 else format_signed_share(ratio)


def format_half_width(value: float, interval: tuple[float, float] | list[float] | None) -> str:
    """Format half the width of an interval as a fraction of the value; "" without an interval.

    If the interval is wider than twice the value, both ends are given as multiples of the value.

    >>> format_half_width(10.0, (9.5, 10.5)), format_half_width(0.1, (0.05, 19.5))
    ('±5 %', '0.5 to 195 times that')
    """
    if not interval or not value:
        return ""
    low, high = (end / value for end in interval)
    half = abs(high - low) / 2
    if half > 1 and min(low, high) > 0:
        return f"{three_digits(low)} to {three_digits(high)} times that"
    return f"±{three_digits(100 * half)} %"


def is_overall(metric: str) -> bool:
    """True if a metric is not about a single component, of which there may be thousands.

    >>> is_overall("nic.utilization.p95"), is_overall("node0.nic0.tx.utilization.p95")
    (True, False)
    >>> is_overall("node0.queue.p50")  # which a process emitted
    True
    """
    whose, use, _ = (
        metric.rpartition(".utilization")
        if ".util" in metric
        else (metric.rpartition(".occupancy"))
    )
    return not use or "." not in whose
