"""Blocks of a page section as plain data: texts, tables and figures.

A section says what to show, not how it looks. ``html`` turns blocks into a page; other programs
(a terminal, a spreadsheet) can use the same blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import ArrayLike


class Code(NamedTuple):
    """A setting, a command or a file name, set in monospace."""

    text: str


class Small(NamedTuple):
    """A remark in small print; on a line of its own if ``under`` is set."""

    text: str
    under: bool = False


class Tag(NamedTuple):
    """A word in a coloured frame, such as a verdict; the text, or ``tone``, picks the colour."""

    text: str
    tone: str = ""


class Swatch(NamedTuple):
    """A small patch of a named colour that links a table row to a figure's legend."""

    colour: str


Inline = str | Code | Small | Tag | Swatch
Line = Inline | Sequence[Inline]
"""Content of a line or table cell: a text, or a sequence of inline pieces."""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text."""

    line: Line


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Items:
    """A bulleted list of lines."""

    lines: Sequence[Line]


@dataclass(frozen=True)
class Terms:
    """A definition list: names, each with its explanation."""

    items: Sequence[tuple[Line, Line]]


@dataclass(frozen=True)
class Listing:
    """Preformatted text; collapsed under the line ``summary`` if that is given."""

    text: str
    summary: str = ""


@dataclass(frozen=True)
class Column:
    """A table column: its header and the layout of its cells.

    Parameters
    ----------
    name : text of the header
    number : True if cells are numbers, aligned to the right
    header : True if cells name their rows
    wraps : True if cell text may wrap into several lines
    span : number of columns that the header covers
    title : long form of a short ``name``, shown as a hint
    alone : text before a cell that a narrow screen shows on a line of its own; ``name`` by default
    """

    name: Line = ""
    number: bool = False
    header: bool = False
    wraps: bool = False
    span: int = 1
    title: str = ""
    alone: str | None = None

    @property
    def label(self) -> str:
        """Text before a cell that a narrow screen shows on a line of its own."""
        return plain_text(self.name) if self.alone is None else self.alone


class Span(NamedTuple):
    """A cell that spans several columns."""

    line: Line
    span: int


@dataclass(frozen=True)
class Table:
    """A table: rows of cells under column headers.

    Parameters
    ----------
    columns : headers and cell layout
    rows : the cells of each row, one per column, fewer where a :class:`Span` covers several
    over : a second row of headers above the first
    stacked : True if a narrow screen shows each row as a list of labelled cells
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Line | Span]]
    over: Sequence[Column] = ()
    stacked: bool = False


@dataclass(frozen=True)
class Bars:
    """A group of rectangles of one colour, with one legend entry.

    Parameters
    ----------
    row : position from the top, shape (n,); 1.25 begins a quarter below the top of row 1
    start, length : extent along the axis in the axis' unit, shape (n,)
    colour : name of a palette colour
    title : text shown under the pointer; "" for none
    height : height of a bar in rows
    opacity : opacity of the bars, from 0 (invisible) to 1
    """

    row: ArrayLike
    start: ArrayLike
    length: ArrayLike
    colour: str
    title: str = ""
    height: float = 1.0
    opacity: float = 1.0


class BarText(NamedTuple):
    """A short text in a bar: row, start and length of the bar, the text and its colour."""

    row: float
    start: float
    length: float
    text: str
    colour: str


@dataclass(frozen=True)
class BarChart:
    """Horizontal bars over one numeric axis.

    Parameters
    ----------
    rows : row names, from the top
    bars : groups of bars to draw
    span : end of the axis, which begins at 0
    axis : name of the axis, with its unit
    thick : height of a row in pixels
    legend : palette colour by legend entry
    texts : texts in bars
    """

    rows: Sequence[str]
    bars: Sequence[Bars]
    span: float
    axis: str
    thick: int = 24
    legend: Mapping[str, str] | None = None
    texts: Sequence[BarText] = ()


@dataclass(frozen=True)
class Series:
    """A series of a plot: points or a curve, with one colour and one legend entry.

    Parameters
    ----------
    x, y : coordinates, shape (n,)
    mark : shape of each point: one of ``o s ^ v D x +``; "" for none
    line : ``-``, ``:``, ``--``, ``steps`` (each value holds until the next point), ``stalks``
        (vertical lines from ``low`` to ``high``), or "" for none
    colour : name of a palette colour; "" for the text colour
    label : legend entry; "" for none
    size : size of a mark in points
    opacity : opacity of the marks and the curve, from 0 (invisible) to 1
    low, high : ends of the stalks, shape (n,)
    titles : texts shown under the pointer, shape (n,); the coordinates by default
    """

    x: ArrayLike
    y: ArrayLike
    mark: str = "o"
    line: str = ""
    colour: str = ""
    label: str = ""
    size: float = 5.0
    opacity: float = 1.0
    low: ArrayLike = ()
    high: ArrayLike = ()
    titles: Sequence[str] = ()


@dataclass(frozen=True)
class Axis:
    """One axis of a plot.

    Parameters
    ----------
    name : name of the axis, with its unit
    log : base of a logarithmic scale; 0 for a linear scale
    ticks : tick positions and labels; None to choose them automatically
    limits : ends of the axis; None to take them from the data
    rule : positions of dashed lines across the plot; None for none
    """

    name: str
    log: int = 0
    ticks: Sequence[tuple[float, str]] | None = None
    limits: tuple[float | None, float | None] = (None, None)
    rule: Sequence[float] = ()


@dataclass(frozen=True)
class Axes:
    """One or more series over an x axis and a y axis.

    Parameters
    ----------
    band : relative half width of a grey band around the line x = y; 0 for none
    title : title above the axes, for small multiples
    """

    x: Axis
    y: Axis
    series: Sequence[Series]
    band: float = 0.0
    title: str = ""


@dataclass(frozen=True)
class Plot:
    """A plot: one or more axes above each other, or small multiples side by side.

    Parameters
    ----------
    axes : the axes, row by row from the top
    height : total height in inches
    columns : number of axes in a row
    """

    axes: Sequence[Axes]
    height: float = 3.4
    columns: int = 1


@dataclass(frozen=True)
class Cdf:
    """Cumulative distributions: the fraction of values that are at most x.

    Parameters
    ----------
    x : axis of the values
    curves : values by curve name
    weights : weight of each value, by curve name; 1 by default
    what : plural name of the counted things, for the y axis, such as ``ops``
    height : height in inches
    """

    x: Axis
    curves: Mapping[str, ArrayLike]
    weights: Mapping[str, ArrayLike] | None = None
    what: str = "values"
    height: float = 3.4


@dataclass(frozen=True)
class HeatMap:
    """A heat map: one number per row and column, darker for larger numbers.

    Parameters
    ----------
    rows : row names, from the top
    values : numbers, shape (rows, columns); NaN cells stay blank
    axis : name of the column axis, with its unit
    scale : name of the numbers, with their unit
    edges : column edges along a numeric axis, shape (columns + 1,); () if columns have names
    columns : column names, if there is no numeric axis
    most : value of the darkest shade; the largest value by default
    least : value of the palest shade
    colour : name of a palette colour
    down : name of the row axis (the vertical axis)
    title : hint of a cell, with ``{row}``, ``{column}`` and ``{value}``; "" for none
    unit : unit of the values for ``numbers.format_quantity``
    thick : height of a row in pixels
    """

    rows: Sequence[str]
    values: ArrayLike
    axis: str
    scale: str
    edges: ArrayLike = ()
    columns: Sequence[str] = ()
    most: float | None = None
    least: float = 0.0
    colour: str = "compute"
    down: str = ""
    title: str = ""
    unit: str = ""
    thick: int = 20


@dataclass(frozen=True)
class Intervals:
    """Values with their intervals, one per row.

    Parameters
    ----------
    rows : row names, from the top
    value, low, high : value and ends of its interval, shape (rows,); all equal without an interval
    axis : the numeric axis
    """

    rows: Sequence[str]
    value: ArrayLike
    low: ArrayLike
    high: ArrayLike
    axis: Axis


@dataclass(frozen=True)
class Tier:
    """One row of switches in a fabric drawing.

    Parameters
    ----------
    name : name of the row
    boxes : names of the switches, from left to right
    """

    name: str
    boxes: Sequence[str]


@dataclass(frozen=True)
class FabricDrawing:
    """A drawing of a fabric: rows of switches and the links between them.

    Parameters
    ----------
    tiers : rows of switches, the highest first
    joins : links, each as two switch names and the text shown under the pointer
    loads : utilization of each link, drawn as colour and width; () if unknown
    """

    tiers: Sequence[Tier]
    joins: Sequence[tuple[str, str, str]]
    loads: Sequence[float] = ()


Figure = BarChart | Plot | FabricDrawing | Cdf | HeatMap | Intervals


@dataclass(frozen=True)
class Live:
    """An interactive figure, with a static one for pages without script and for paper.

    Parameters
    ----------
    component : ``timeline``, ``tree`` or ``heat``: a file of ``reports/script``
    data : plain data for the component
    still : static figure for pages without script and for paper; None for none
    caption : caption of the static figure
    """

    component: str
    data: Mapping[str, Any]
    still: Figure | None = None
    caption: str = ""


@dataclass(frozen=True)
class FigureRow:
    """Figures side by side, if the page is wide enough."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class FirstScreen:
    """The first screen of a page: answer, table, findings, a figure, and facts on trust.

    Parameters
    ----------
    lead : sentences of the answer
    table : table of the compared variants or points
    findings : (question, [(sentence, command or ""), ...]) pairs
    trust : (name, fact) pairs on how far to trust the answer
    heading : heading over ``trust``
    figure : a figure, or None
    """

    lead: Sequence[str]
    table: Table
    findings: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    trust: Sequence[tuple[str, str]]
    heading: str = "How far to trust this"
    figure: BarChart | None = None


Block = (
    Paragraph | Heading | Items | Terms | Listing | Table | Figure | Live | FigureRow | FirstScreen
)


def inline_pieces(line: Line) -> Sequence[Inline]:
    """Inline pieces of a line, as a sequence.

    >>> inline_pieces("a"), inline_pieces(["a", Code("b")])
    (('a',), ['a', Code(text='b')])
    """
    return (line,) if isinstance(line, str | Code | Small | Tag | Swatch) else line


def plain_text(line: Line) -> str:
    """Plain text of a line, without markup.

    >>> plain_text(["no effect: ", Code("cluster.nodes")])
    'no effect: cluster.nodes'
    """
    return "".join(
        piece if isinstance(piece, str) else "" if isinstance(piece, Swatch) else piece.text
        for piece in inline_pieces(line)
    )


def comma_separated(codes: Sequence[str]) -> list[Inline]:
    """Setting names as one line of code pieces, separated by commas.

    >>> plain_text(comma_separated(["a", "b"]))
    'a, b'
    """
    found: list[Inline] = []
    for code in codes:
        found += [", ", Code(code)] if found else [Code(code)]
    return found
