"""Colours of the page by what they stand for, as custom properties of its style.

Their values, in light, in dark and on paper, are in ``templates/report.css``; a test holds them
apart for readers with and without colour vision.
"""

from __future__ import annotations

from ..sim.facts.kind import DMA, GPU, HOST, OUR_ROLES, ROLES, Kind
from ..sim.facts.roles import NETWORK

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
OF_ROLE = {GPU: "compute", DMA: "memory", HOST: "host"}  # bars of ops, by who runs them
OTHER_ROLES = ("--role-1", "--role-2")  # bars of ops that roles of plug-ins run
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


def bar_kinds() -> dict[str, str]:
    """Colour of each kind of bar: :data:`KINDS`, then roles of plug-ins, by turns.

    >>> list(bar_kinds())[:2]
    ['compute', 'communication']
    """
    theirs = [name for name in ROLES if name not in OUR_ROLES]
    return KINDS | {name: OTHER_ROLES[n % len(OTHER_ROLES)] for n, name in enumerate(theirs)}


def kind_of_bar(kind: Kind) -> str:
    """Kind of bar under which an op is drawn: by its role.

    >>> kind_of_bar(Kind.COPY), kind_of_bar(Kind.SEND), kind_of_bar(Kind.DELAY)
    ('memory', 'communication', 'gap')
    """
    if kind in NETWORK:
        return "communication"
    return OF_ROLE.get(kind.role, kind.role) or "gap"


def mixed(colour: str, percent: float) -> str:
    """A colour with so much of the page's paper in it, as a heat map shows a smaller number.

    >>> mixed("var(--compute)", 25)
    'color-mix(in srgb, var(--compute) 25%, var(--paper))'
    """
    return f"color-mix(in srgb, {colour} {percent:g}%, var(--paper))"
