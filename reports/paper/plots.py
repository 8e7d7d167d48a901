"""Figures of a study, a sweep or a comparison for Python and notebooks, by section."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sim.errors import ForetraceError
from ..page_figures import page_figures
from ..section import sections, shown_sections
from .sheet import Sheet
from .write import draw_figure, drawing_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


class Figures(tuple["Drawing", ...]):
    """A tuple of matplotlib figures; a notebook shows them one below the other."""

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        return "".join(drawing_bytes(one, "svg").decode().partition("?>")[2] for one in self)


class Plots:
    """Figures of a page by section: ``plot.blame()`` draws the figures of section ``blame``.

    Parameters
    ----------
    page : ``run``, ``sweep`` or ``comparison``
    subject : input of the page's sections, such as a study

    Examples
    --------
    >>> plots = Plots("run", None)
    >>> "timeline" in dir(plots)
    True
    """

    def __init__(self, page: str, subject: Any):
        self._page, self._of = page, subject

    def __dir__(self) -> list[str]:
        return [one.name for one in sections(self._page)]

    def __getattr__(self, section: str) -> Callable[..., Figures]:
        if section.startswith("_") or section not in dir(self):
            raise AttributeError(f"no section is called {section!r}; use one of {dir(self)}")

        def draw(columns: int = 1, style: str | Path | None = None) -> Figures:
            return self._drawn(section, Sheet(columns, Path(style) if style else None))

        draw.__doc__ = (
            f"Draw the figures of the section {section!r}.\n\n"
            "columns : of a paper, 1 (3.3 inches) or 2 (7)\nstyle : a matplotlib style sheet"
        )
        return draw

    def _drawn(self, section: str, sheet: Sheet) -> Figures:
        found = page_figures(shown_sections(self._page, self._of, [section]))
        if not found:
            raise ForetraceError(
                f"section {section!r}: has no figure; open the page for its tables"
            )
        return Figures(draw_figure(one.figure, sheet) for one in found)
