"""Blocks that a section of a page is made of: text, tables and marks, as data.

A section says what is to be read, and nothing of how a page looks: ``html`` turns blocks into a
page, and whoever wants them elsewhere (a terminal, a spreadsheet) has them as they are.
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
    """A remark in smaller print; ``under`` puts it on a line of its own."""

    text: str
    under: bool = False


class Tag(NamedTuple):
    """A framed word, as a verdict; ``tone`` picks its colour, by default the text itself."""

    text: str
    tone: str = ""


class Swatch(NamedTuple):
    """A patch of the colour that stands for a row elsewhere on the page, by its name."""

    colour: str


Inline = str | Code | Small | Tag | Swatch
Line = Inline | Sequence[Inline]
"""Content of a line or table cell: a text, or a sequence of inline pieces."""


@dataclass(frozen=True)
class Paragraph:
    """A line of text."""

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
    """A list of names, each with its explanation."""

    items: Sequence[tuple[Line, Line]]


@dataclass(frozen=True)
class Listing:
    """Preformatted text; folded away under ``summary`` where there is one."""

    text: str
    summary: str = ""


@dataclass(frozen=True)
class Column:
    """Header of a column, and how its cells are set.

    Parameters
    ----------
    name : what it shows
    number : cells are numbers, set to the right
    header : cells name their rows
    wraps : cells may be broken into lines
    span : columns that the head stands over
    title : in full, where ``name`` is short
    alone : before a cell that stands alone on a narrow screen; ``name`` unless said
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
        """Label in front of a cell that stands alone, as on a phone."""
        return plain_text(self.name) if self.alone is None else self.alone


class Span(NamedTuple):
    """A cell that spans several columns."""

    line: Line
    span: int


@dataclass(frozen=True)
class Table:
    """Rows of cells under column headers.

    Parameters
    ----------
    columns : how cells are set, and their heads
    rows : of each row its cells, one for each column but for those of a :class:`Span`
    over : heads above the heads
    stacked : on a narrow screen each row is a list, its cells with the names of their columns
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Line | Span]]
    over: Sequence[Column] = ()
    stacked: bool = False


@dataclass(frozen=True)
class Bars:
    """Rectangles of one colour and one legend entry.

    Parameters
    ----------
    row : (n,) counted from the top; 1.25 begins a quarter below row 1
    start, length : (n,) along the axis, in its unit
    colour : a name of the palette
    title : shown where the pointer rests; "" for nothing
    height : in rows
    opacity : 1 hides what is beneath
    """

    row: ArrayLike
    start: ArrayLike
    length: ArrayLike
    colour: str
    title: str = ""
    height: float = 1.0
    opacity: float = 1.0


class BarText(NamedTuple):
    """A short text in a bar: the bar's row, start and length, and the text's colour."""

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
    rows : names, from the top
    bars : what is drawn
    span : end of the axis, which begins at 0
    axis : what it shows, with its unit
    thick : pixels from one row to the next
    legend : the palette's colour by what it stands for
    texts : written in bars
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
    """Points or a curve of one colour and one legend entry.

    Parameters
    ----------
    x, y : (n,)
    mark : shape of each point: one of ``o s ^ v D x +``; "" for none
    line : ``-``, ``:``, ``--``, ``steps`` (each height holds until the next point), ``stalks``
        (from ``low`` to ``high``), or "" for none
    colour : a name of the palette; "" for the ink of the page
    label : in the legend; "" for none
    size : of a point, in points
    opacity : 1 hides what is beneath
    low, high : (n,) ends of stalks
    titles : (n,) what each point says where the pointer rests; its numbers unless said
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
    name : what it shows, with its unit
    log : base of a logarithmic scale; 0 for a linear one
    ticks : where, and what is written there; None lets the drawing choose
    limits : ends; None where the data decide
    rule : a dashed line across the plot; None for none
    """

    name: str
    log: int = 0
    ticks: Sequence[tuple[float, str]] | None = None
    limits: tuple[float | None, float | None] = (None, None)
    rule: Sequence[float] = ()


@dataclass(frozen=True)
class Axes:
    """Series over an x and a y axis.

    Parameters
    ----------
    band : half width, relative, of a grey band around the line of equal numbers; 0 for none
    title : above it, where several stand together
    """

    x: Axis
    y: Axis
    series: Sequence[Series]
    band: float = 0.0
    title: str = ""


@dataclass(frozen=True)
class Plot:
    """One or more axes above each other, or small multiples side by side.

    Parameters
    ----------
    axes : from the top, row by row
    height : of all together, inches
    columns : axes of a row
    """

    axes: Sequence[Axes]
    height: float = 3.4
    columns: int = 1


@dataclass(frozen=True)
class Cdf:
    """Cumulative distributions: the share of values that are at most x.

    Parameters
    ----------
    x : what is distributed
    curves : values by name
    weights : of the values, by name; each counts once unless said
    what : is counted, as the y axis says it
    height : inches
    """

    x: Axis
    curves: Mapping[str, ArrayLike]
    weights: Mapping[str, ArrayLike] | None = None
    what: str = "values"
    height: float = 3.4


@dataclass(frozen=True)
class HeatMap:
    """A number for each row and column, darker where it is larger.

    Parameters
    ----------
    rows : names, from the top
    values : (rows, columns); NaN is left blank
    axis : what the columns are, with its unit
    scale : what the numbers are, with their unit
    edges : (columns + 1,) where columns begin and end along a numeric axis; () for names
    columns : names, where there is no numeric axis
    most : the darkest; the largest value unless said
    least : the palest
    colour : a name of the palette
    down : what the rows are
    title : of a cell, with ``{row}``, ``{column}`` and ``{value}``; "" for none
    unit : of the values, as ``numbers.format_quantity`` takes it
    thick : pixels from one row to the next
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
    """Values with their intervals, one row for each.

    Parameters
    ----------
    rows : names, from the top
    value, low, high : (rows,) along the axis; without an interval all three are equal
    axis : what it shows
    """

    rows: Sequence[str]
    value: ArrayLike
    low: ArrayLike
    high: ArrayLike
    axis: Axis


@dataclass(frozen=True)
class Tier:
    """A row of a fabric's drawing: switches of one kind, from left to right.

    Parameters
    ----------
    name : of the row
    boxes : names of the switches
    """

    name: str
    boxes: Sequence[str]


@dataclass(frozen=True)
class FabricDrawing:
    """A fabric: rows of switches, and who is joined to whom.

    Parameters
    ----------
    tiers : the highest first
    joins : names of two boxes, and what is said where the pointer rests on their line
    loads : share of each join in use, drawn as its colour and width; () where unknown
    """

    tiers: Sequence[Tier]
    joins: Sequence[tuple[str, str, str]]
    loads: Sequence[float] = ()


Figure = BarChart | Plot | FabricDrawing | Cdf | HeatMap | Intervals


@dataclass(frozen=True)
class Live:
    """A figure that the page's script brings to life; without it the still one is read.

    Parameters
    ----------
    component : ``timeline``, ``tree`` or ``heat``, a file of ``reports/script``
    data : what it is fed with, as plain data
    still : what is shown without script and on paper; None for nothing
    caption : what the still figure shows
    """

    component: str
    data: Mapping[str, Any]
    still: Figure | None = None
    caption: str = ""


@dataclass(frozen=True)
class FigureRow:
    """Figures side by side, where there is room."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class FirstScreen:
    """The first screen: answer, table, findings, a figure, and how far to trust all of it.

    Parameters
    ----------
    lead : sentences
    table : of what was compared
    findings : by question, sentences each with a command or ""
    trust : by name
    heading : over ``trust``
    figure : or None
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
    """Inline pieces of a line.

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
    """Settings as one line, separated by commas.

    >>> plain_text(comma_separated(["a", "b"]))
    'a, b'
    """
    found: list[Inline] = []
    for code in codes:
        found += [", ", Code(code)] if found else [Code(code)]
    return found
