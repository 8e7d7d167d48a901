"""Options shared by commands, and output for people and programs."""

from __future__ import annotations

import json
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ....reports.blocks import Table

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print only the answer.")]
Set = Annotated[
    list[str], typer.Option("--set", metavar="PATH=VALUE", help="Change a setting; repeatable.")
]
Swap = Annotated[
    list[str],
    typer.Option(
        "--swap",
        metavar="COMPONENT=DRIVER:DEVICE",
        help="Replace a component by a real device; repeatable.",
    ),
]
Catalogs = Annotated[
    list[Path], typer.Option("--catalog", help="Directory of catalog files; repeatable.")
]
File = Annotated[str, typer.Argument(help="Scenario file, or name of a bundled scenario.")]
NO_BREAK = "\N{NO-BREAK SPACE}"
WIDEST = 1_000  # columns without a terminal, so that no line is folded
Out = Annotated[Path, typer.Option("--out", help="Folder of all runs.")]


def print_json(value: Any) -> None:
    """Print one object as JSON on stdout."""
    from ...studies.folders.output_folder import with_null_for_nonfinite

    typer.echo(json.dumps(with_null_for_nonfinite(value), indent=1))


def command_line() -> str:
    """The current ``foretrace`` command, quoted for a shell."""
    return shlex.join(["foretrace", *sys.argv[1:]])


def print_error(text: str) -> None:
    """Print a line on stderr."""
    typer.echo(text, err=True)


def answer_console() -> Console:
    """Console for answers, as wide as the terminal; without a terminal no line is folded."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)  # [names] are no styles
    if console.is_terminal:
        return console
    return Console(width=WIDEST, highlight=False, markup=False)


def print_sentences(sentences: Iterable[str], console: Console | None = None) -> Console:
    """Print sentences, one per line, wrapped at words; returns the console."""
    console = console or answer_console()
    for sentence in sentences:
        console.print(fold_sentence(sentence, console.width))
    return console


def fold_sentence(sentence: str, width: int) -> str:
    r"""Wrap a sentence into lines of at most ``width`` characters; a number stays with its unit.

    >>> fold_sentence("It is 695 ms.", 9)
    'It is\n695 ms.'
    """
    lines = textwrap.wrap(_with_unbreakable_units(sentence), width, break_on_hyphens=False)
    return "\n".join(lines).replace(NO_BREAK, " ")


def _with_unbreakable_units(text: str) -> str:
    """Text with a no-break space between each number and its unit."""
    return re.sub(r"(?<=\d) (?=[^\W\d]|%)", NO_BREAK, text)


def _words_with_units(text: str) -> list[str]:
    """Words of a text; a number and its unit are one word."""
    return _with_unbreakable_units(text).split(" ")


def terminal_table(of: Table) -> Any:
    """Table of a page as a terminal table: plain text; columns wrap if they do on the page."""
    from rich.table import Table as Printed

    from ....reports.blocks import plain_text

    printed = Printed(box=None, pad_edge=False)
    for column in of.columns:
        side: Any = "right" if column.number else "left"
        printed.add_column(plain_text(column.name), justify=side, no_wrap=not column.wraps)
    for row in of.rows:
        printed.add_row(*(plain_text(cell) for cell in row))  # type: ignore[arg-type]
    return printed


def print_table(console: Console, table: Any) -> None:
    """Print a table; if its words do not fit the console, the terminal wraps the lines."""
    from rich.console import Console
    from rich.measure import Measurement

    unbounded = console.options.update(width=WIDEST)  # a minimum is never more than the width asked
    if Measurement.get(console, unbounded, table).minimum <= console.width:
        _fit_columns(console, table)
        console.print(table)
        return
    wide = Console(
        file=console.file, width=WIDEST, force_terminal=console.is_terminal,
        no_color=console.no_color, highlight=False, markup=False,
    )  # fmt: skip
    wide.print(table)


def _fit_columns(console: Console, table: Any) -> None:
    """Set column widths so that no word is cut, if the table is wider than the console.

    Columns that wrap share the remaining width.
    """
    from rich.cells import cell_len

    ranges = []
    for column in table.columns:
        texts = [str(cell) for cell in (column.header, *column.cells)]
        most = min(max(map(cell_len, texts)), column.max_width or WIDEST)
        words = [word for text in texts for word in _words_with_units(text)]
        least = most if column.no_wrap else min(most, max(map(cell_len, words)))
        ranges.append((column, least, most))
    gaps = 2 * (len(ranges) - 1 + table.pad_edge)
    room = console.width - gaps - sum(least for _, least, _ in ranges)
    wanted = sum(most - least for _, least, most in ranges)
    if 0 <= room < wanted:
        for column, least, most in ranges:
            column.width = least + (most - least) * room // wanted


def progress_printer(quiet: bool) -> Callable[[str], None]:
    """Function that prints progress messages on stderr; prints nothing when quiet."""
    if quiet:
        return lambda _: None
    return lambda text: print(text, file=sys.stderr, flush=True)  # noqa: T201  that is the point
