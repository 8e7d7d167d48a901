"""Figures of a page as data: embedded in the page, read back, drawn elsewhere."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..sim.errors import ForetraceError
from .blocks import Heading
from .figure_kind import figure_kinds, figures_in
from .section import ShownSection

DIGITS = 7  # of a number: more than any drawing shows
ID = "figures"  # of the element of the page


class UnknownFigureKindError(ForetraceError):
    """A page contains a figure of an unregistered kind, such as one from a missing plug-in."""


@dataclass(frozen=True)
class PageFigure:
    """One figure of a page.

    Parameters
    ----------
    name : unique name from section and heading, usable as a file name
    section : name of the section that contains the figure
    figure : the figure block
    """

    name: str
    section: str
    figure: Any


def page_figures(sections: Sequence[ShownSection]) -> list[PageFigure]:
    """All figures of the given sections, in page order.

    >>> from .blocks import Axes, Axis, Plot
    >>> plot = Plot([Axes(Axis("x, s"), Axis("y, s"), [])])
    >>> blocks = [Heading("base"), plot, Heading("8 GPUs"), plot]
    >>> [f.name for f in page_figures([ShownSection("use", "Use", blocks)])]
    ['use-base', 'use-8-gpus']
    """
    found: dict[str, PageFigure] = {}
    for section in sections:
        heading = ""
        for block in section.blocks:
            heading = block.text if isinstance(block, Heading) else heading
            for figure in figures_in(block):
                name = _unused_name(section.name, heading, found)
                found[name] = PageFigure(name, section.name, figure)
    return list(found.values())


def _unused_name(section: str, heading: str, used_names: Mapping[str, Any]) -> str:
    """A file name for a figure that no other figure has."""
    words = "-".join(re.findall(r"[a-z0-9]+", heading.lower()))[:40].strip("-")
    known = words in ("", section.replace("_", "-"))
    name = section if known else f"{section}-{words}"
    number = next(n for n in range(1, len(used_names) + 2) if _numbered(name, n) not in used_names)
    return _numbered(name, number)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def encode_figures(figures: Sequence[PageFigure]) -> str:
    """Encode figures as text: JSON, compressed, in base 64."""
    plain = [[f.name, f.section, type(f.figure).__name__, _to_data(f.figure)] for f in figures]
    return base64.b64encode(zlib.compress(json.dumps(plain).encode(), 6)).decode()


def decode_figures(html: str) -> list[PageFigure] | None:
    """Figures embedded in a page; None if the page has no figure data."""
    found = re.search(rf'<script type="application/json" id="{ID}">"([^"]*)"</script>', html)
    if found is None:
        return None
    plain = json.loads(zlib.decompress(base64.b64decode(found[1])))
    kinds = figure_kinds()
    if unknown := sorted({kind for _, _, kind, _ in plain} - kinds.keys()):
        raise UnknownFigureKindError(
            f"figures of kind {', '.join(unknown)}: no such kind is registered; "
            "name the run, not its page, or load the plug-in that defines it"
        )
    return [PageFigure(name, of, _from_data(kinds[kind], data)) for name, of, kind, data in plain]


def _to_data(value: Any) -> Any:
    """Convert a block to plain data: fields by name, numbers to seven digits."""
    if is_dataclass(value):
        return {f.name: _to_data(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: _to_data(getattr(value, name)) for name in value._fields}
    if isinstance(value, np.ndarray):
        return _to_data(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _to_data(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_data(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}")
    return value.item() if isinstance(value, np.generic) else value


def _from_data(kind: type, data: Mapping[str, Any]) -> Any:
    """Build a block of a kind from its plain data."""
    hints = get_type_hints(kind)
    return kind(**{name: _field_from_data(hints[name], value) for name, value in data.items()})


def _field_from_data(hint: Any, value: Any) -> Any:
    """Build a field's value from plain data, including nested dataclasses and named tuples."""
    inner = next(_classes_in(hint), None)
    if inner is None or value is None:
        return value
    if isinstance(value, list):
        return [_from_data(inner, one) for one in value]
    return _from_data(inner, value)


def _classes_in(hint: Any) -> Iterator[type]:
    """Dataclasses and named tuples that a type annotation mentions."""
    if get_origin(hint) is None or hint is Union:
        if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
            yield hint
        return
    for one in get_args(hint):
        yield from _classes_in(one)
