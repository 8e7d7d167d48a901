"""Colours of the page by what they stand for, as custom properties of its style.

Their values, in light, in dark and on paper, are in ``templates/report.css``; a test holds them
apart for readers with and without colour vision.
"""

from __future__ import annotations

BOXES = {  # of a rank's time
    "compute": "var(--compute)",
    "overlapped": "var(--overlapped)",
    "exposed_communication": "var(--exposed)",
    "memory": "var(--memory)",
    "waiting": "var(--waiting)",
    "host": "var(--host)",
    "idle": "var(--idle)",
}
KINDS = {  # of a bar of the timeline
    "compute": "--compute",
    "communication": "--exposed",
    "memory": "--memory",
    "host": "--host",
    "gap": "--idle",
    "waiting": "--waiting",
}
SERIES = (  # of variants, devices and the like, in this order
    "var(--series-1)",
    "var(--series-2)",
    "var(--series-3)",
    "var(--series-4)",
    "var(--series-5)",
    "var(--series-6)",
)


def series_colour(number: int) -> str:
    """Colour of a series by its number; they begin anew after the last.

    >>> series_colour(0), series_colour(7)
    ('var(--series-1)', 'var(--series-2)')
    """
    return SERIES[number % len(SERIES)]


def mixed(colour: str, percent: float) -> str:
    """A colour with so much of the page's paper in it, as a heat map shows a smaller number.

    >>> mixed("var(--compute)", 25)
    'color-mix(in srgb, var(--compute) 25%, var(--paper))'
    """
    return f"color-mix(in srgb, {colour} {percent:g}%, var(--paper))"
