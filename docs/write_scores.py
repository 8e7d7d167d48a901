"""Write the tables of scores in the pages: ``python docs/write_scores.py``.

A table stands between ``<!-- scores: NAME -->`` and ``<!-- end -->`` and is the file
``scores/NAME.csv`` beside this program, whose first row is the head. Change the file, then run this
program.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGES = tuple(HERE / f"{name}.md" for name in ("accuracy", "accuracy-h100", "training/accuracy"))
PLACE = re.compile(r"(<!-- scores: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
WIDTH = 100  # columns of a line
NUMBER = re.compile(r"\*{0,2}[-+]?[\d,.]+\*{0,2}( %)?")


def table(name: str) -> str:
    """One table in Markdown, numbers to the right; without spaces where it would be too wide."""
    with (HERE / "scores" / f"{name}.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    rule = ["---:" if is_numeric(column) else "---" for column in zip(*rows, strict=True)]
    lines = [head, rule, *rows]
    wide = max(len(" | ".join(line)) for line in lines) + 4 > WIDTH
    text = [line_of(line, "" if wide else " ") for line in lines]
    if max(map(len, text)) > WIDTH:
        raise SystemExit(f"scores/{name}.csv: a row is wider than {WIDTH} columns; shorten it")
    return "\n".join(text) + "\n"


def is_numeric(column: tuple[str, ...]) -> bool:
    """Whether all cells of a column are numbers or empty."""
    return any(column) and all(not cell or NUMBER.fullmatch(cell) for cell in column)


def line_of(cells: list[str], space: str) -> str:
    """One row in Markdown."""
    return f"|{space}" + f"{space}|{space}".join(cells) + f"{space}|"


def written(page: str) -> str:
    """The page with its tables as their files have them."""
    return PLACE.sub(lambda found: f"{found[1]}\n{table(found[2])}\n{found[3]}", page)


def names(page: str) -> Iterator[str]:
    """The tables that a page shows."""
    yield from (found[2] for found in PLACE.finditer(page))


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(written(path.read_text()))
