"""Registry of figure kinds: block classes with a drawing for pages and a drawing for papers.

A kind is a dataclass with data and colour names. Its drawings are functions registered with
:func:`on_page` and :func:`on_paper`; plug-ins register theirs in the same way. A kind without a
page drawing is shown on pages with its paper drawing.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..sim.errors import ForetraceError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

OnPage = Callable[[Any], str]
OnPaper = Callable[[Any, Any], "Drawing"]  # of a figure and a ``paper.sheet.Sheet``
_Function = TypeVar("_Function", bound=Callable[..., Any])


class KindDrawing(NamedTuple):
    """A kind of figure, and the function that draws it on one medium (page or paper)."""

    kind: type
    draw: Callable[..., Any]


ON_PAGE: dict[str, KindDrawing] = {}
"""Page drawings by name of the figure kind."""
ON_PAPER: dict[str, KindDrawing] = {}
"""Paper drawings by name of the figure kind."""


def on_page(kind: type) -> Callable[[_Function], _Function]:
    """Decorator that registers a function which returns the HTML of a kind of figure."""
    return _registered(kind, ON_PAGE)


def on_paper(kind: type) -> Callable[[_Function], _Function]:
    """Decorator that registers a function which draws a kind of figure with matplotlib."""
    return _registered(kind, ON_PAPER)


def _registered(kind: type, drawings: dict[str, Any]) -> Callable[[_Function], _Function]:
    def register(draw: _Function) -> _Function:
        known = drawings.setdefault(kind.__name__, KindDrawing(kind, draw))
        if known.draw is not draw:
            raise ValueError(f"two kinds of figure are called {kind.__name__!r}; rename one")
        return draw

    return register


@cache
def _load_drawings() -> None:
    """Import the modules that register the product's own drawings."""
    for name in ("figures", "paper"):
        package = importlib.import_module(f".{name}", __package__)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f".{name}.{module.name}", __package__)


def figure_kinds() -> dict[str, type]:
    """All registered kinds of figures, by name.

    >>> {"BarChart", "HeatMap", "Plot"} <= figure_kinds().keys()
    True
    """
    _load_drawings()
    return {name: one.kind for name, one in (ON_PAGE | ON_PAPER).items()}


def page_drawing(kind: type) -> OnPage | None:
    """Page drawing of a kind of figure; None if it has none of its own."""
    _load_drawings()
    found = ON_PAGE.get(kind.__name__)
    return found.draw if found is not None and found.kind is kind else None


def paper_drawing(kind: type) -> OnPaper:
    """Paper drawing of a kind of figure.

    Raises
    ------
    ForetraceError
        The kind has no paper drawing.
    """
    _load_drawings()
    found = ON_PAPER.get(kind.__name__)
    if found is None or found.kind is not kind:
        raise ForetraceError(
            f"{kind.__name__}: no drawing for paper is registered; write one under @on_paper"
        )
    return found.draw


def figures_in(block: Any) -> Iterator[Any]:
    """The block itself if it is a figure, else the figures that it contains.

    >>> from .blocks import Axes, Axis, FigureRow, Paragraph, Plot
    >>> plot = Plot([Axes(Axis("x, s"), Axis("y, s"), [])])
    >>> len(list(figures_in(FigureRow([plot, plot])))), list(figures_in(Paragraph("text")))
    (2, [])
    """
    kinds = figure_kinds()
    if kinds.get(type(block).__name__) is type(block):
        yield block
    elif is_dataclass(block):
        for one in fields(block):
            held = getattr(block, one.name)
            for part in held if isinstance(held, list | tuple) else (held,):
                if is_dataclass(part):
                    yield from figures_in(part)
