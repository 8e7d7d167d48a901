"""Writing of a page's figures as files, and of a single figure as SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sim.errors import ForetraceError
from ..figure_kind import paper_drawing
from ..page_figures import PageFigure, decode_figures
from .sheet import Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

FORMATS = ("pdf", "png", "svg")
METADATA: dict[str, dict[str, Any]] = {  # no date: the same figure is the same bytes
    "pdf": {"CreationDate": None},
    "png": {},
    "svg": {"Date": None},
}


def select_figures(html: str, sections: Sequence[str], page_name: str) -> list[PageFigure]:
    """Figures of a page, or of some of its sections.

    Parameters
    ----------
    html : text of the page
    sections : names of sections; all sections if empty
    page_name : name of the page for error messages

    Raises
    ------
    ForetraceError
        The page has no figure data, or a section has no figure.
    """
    found = decode_figures(html)
    if found is None:
        raise ForetraceError(
            f"{page_name}: its page has no figure data; write it again: foretrace run --no-cache"
        )
    there = list(dict.fromkeys(one.section for one in found))
    for name in sections:
        if name not in there:
            raise ForetraceError(
                f"--section {name}: has no figure on this page; "
                f"sections with figures: {', '.join(there) or 'none'}"
            )
    if not found:
        raise ForetraceError(
            f"{page_name}: no section of its page has a figure; open the page for its tables"
        )
    return [one for one in found if not sections or one.section in sections]


def write_figures(
    figures: Sequence[PageFigure], folder: Path, kind: str, sheet: Sheet | None = None
) -> list[Path]:
    """Write each figure into a file of its own; returns the files.

    Parameters
    ----------
    figures : figures of a page
    folder : output folder; created if it does not exist
    kind : file format, one of :data:`FORMATS`
    sheet : size and style; one column in the product's style by default

    Raises
    ------
    ForetraceError
        The folder cannot be written.
    """
    sheet = sheet or Sheet()
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in figures:
            path = folder / f"{one.name}.{kind}"
            path.write_bytes(figure_bytes(one.figure, kind, sheet))
            written.append(path)
    except OSError as error:
        raise ForetraceError(f"{folder}: cannot be written ({error}); choose another -o") from error
    return written


def draw_figure(figure: Any, sheet: Sheet | None = None) -> Drawing:
    """Draw a figure of a page as a matplotlib figure."""
    sheet = sheet or Sheet()
    with sheet.styled():
        return paper_drawing(type(figure))(figure, sheet)


def figure_bytes(figure: Any, kind: str, sheet: Sheet) -> bytes:
    """File content of a figure; equal figures give equal bytes."""
    return drawing_bytes(draw_figure(figure, sheet), kind, sheet)


def drawing_bytes(drawing: Drawing, kind: str, sheet: Sheet | None = None) -> bytes:
    """File content of a matplotlib figure."""
    file = io.BytesIO()
    with (sheet or Sheet()).styled():
        drawing.savefig(file, format=kind, metadata=METADATA[kind])
    return file.getvalue()


def inline_svg(figure: Any) -> str:
    """SVG text of a figure, for a page."""
    text = figure_bytes(figure, "svg", Sheet(2)).decode()
    return text[text.index("<svg") :]
