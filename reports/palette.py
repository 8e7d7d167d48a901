"""Colours by name, for blocks, page styles and printed figures.

The values for light, dark and paper are in ``templates/report.css``. A test checks that they can
be distinguished with normal and with deficient colour vision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ..sim.errors import ForetraceError
from ..sim.facts.kind import DMA, GPU, HOST, OUR_ROLES, ROLES, Kind
from ..sim.facts.roles import NETWORK

BOXES = {  # of a rank's time
    "compute": "compute",
    "overlapped": "overlapped",
    "exposed_communication": "exposed",
    "memory": "memory",
    "waiting": "waiting",
    "host": "host",
    "idle": "idle",
}
KINDS = {  # of a bar of the timeline
    "compute": "compute",
    "communication": "exposed",
    "memory": "memory",
    "host": "host",
    "gap": "idle",
    "waiting": "waiting",
}
OF_ROLE = {GPU: "compute", DMA: "memory", HOST: "host"}  # bars of ops, by who runs them
OTHER_ROLES = ("role-1", "role-2")  # bars of ops that roles of plug-ins run
SERIES = ("series-1", "series-2", "series-3", "series-4", "series-5", "series-6")
INK = "ink"  # colour of text, and the default
OWN = re.compile(r"#[0-9a-fA-F]{6}|#[0-9a-fA-F]{3}")  # a hex colour outside the palette
MIXED = " @ "  # between a colour and the percentage of it


def series_colour(number: int) -> str:
    """Colour name of the n-th series; the colours repeat after the last.

    >>> series_colour(0), series_colour(7)
    ('series-1', 'series-2')
    """
    return SERIES[number % len(SERIES)]


def bar_kinds() -> dict[str, str]:
    """Colour of each kind of timeline bar: :data:`KINDS`, then the roles of plug-ins.

    >>> list(bar_kinds())[:2]
    ['compute', 'communication']
    """
    theirs = [name for name in ROLES if name not in OUR_ROLES]
    return KINDS | {name: OTHER_ROLES[n % len(OTHER_ROLES)] for n, name in enumerate(theirs)}


def kind_of_bar(kind: Kind) -> str:
    """Kind of timeline bar for a kind of op, by the role that runs it.

    >>> kind_of_bar(Kind.COPY), kind_of_bar(Kind.SEND), kind_of_bar(Kind.DELAY)
    ('memory', 'communication', 'gap')
    """
    if kind in NETWORK:
        return "communication"
    return OF_ROLE.get(kind.role, kind.role) or "gap"


def paler(colour: str, percent: float) -> str:
    """Name of a paler colour: ``percent`` of the colour, the rest is the paper colour.

    >>> paler("compute", 25)
    'compute @ 25'
    """
    return f"{colour}{MIXED}{percent:g}"


def css(colour: str) -> str:
    """CSS of a colour name; "" gives the text colour, ``#rrggbb`` stays as it is.

    >>> css("compute"), css("")
    ('var(--compute)', 'var(--ink)')
    >>> css("compute @ 25")
    'color-mix(in srgb, var(--compute) 25%, var(--paper))'
    """
    name, percent = _parts(colour)
    whole = name if name.startswith("#") else f"var(--{name})"
    if percent == 100:
        return whole
    return f"color-mix(in srgb, {whole} {percent:g}%, var(--paper))"


def rgb(colour: str) -> tuple[float, float, float]:
    """Red, green and blue of a colour name on light paper, each from 0 to 1.

    >>> rgb("paper"), rgb("paper @ 50")
    ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
    """
    name, percent = _parts(colour)
    own, paper = (_channels(colour_values().get(one, one)) for one in (name, "paper"))
    share = percent / 100
    red, green, blue = (share * a + (1 - share) * b for a, b in zip(own, paper, strict=True))
    return red, green, blue


def _channels(value: str) -> tuple[float, ...]:
    """Red, green and blue of a hex colour such as ``#1b1f24`` or ``#fff``."""
    digits = value[1:] if len(value) == 7 else "".join(2 * d for d in value[1:])
    return tuple(int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4))


def _parts(colour: str) -> tuple[str, float]:
    """Split a colour name into base name and percentage.

    Raises
    ------
    ForetraceError
        The palette has no colour of that name.
    """
    name, _, percent = (colour or INK).partition(MIXED)
    if name not in colour_values() and not OWN.fullmatch(name):
        raise ForetraceError(
            f"colour {colour!r}: the palette has no such name; "
            f"use {', '.join(colour_values())} or #rrggbb"
        )
    return name, float(percent or 100)


@cache
def colour_values() -> Mapping[str, str]:
    """Hex values of all palette colours on light paper, by name.

    >>> colour_values()["paper"]
    '#fff'
    """
    style = (files(__package__) / "templates" / "report.css").read_text(encoding="utf-8")
    light = style.partition(":root {")[2].partition("}")[0]
    return dict(re.findall(r"--([\w-]+): (#\w+);", light))
