"""Problems of a scenario: each with its position in the file and a cure, all reported at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...sim.errors import ScenarioError

FEWEST = 2  # letters that may stand for a name that begins so
AT_MOST = 20
WIDEST = 100  # columns of an excerpt


@dataclass(frozen=True)
class FilePosition:
    """A position in a file, with the text of its line.

    Parameters
    ----------
    file : file name as the user gave it
    line, column : position, from 1
    width : number of columns to mark with carets; 0 for none
    text : the complete line
    path : dotted path of the setting
    """

    file: str
    line: int = 1
    column: int = 1
    width: int = 0
    text: str = ""
    path: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Problem:
    """One problem of a scenario: message, position and severity.

    Parameters
    ----------
    kind : short identifier, such as ``unknown-key``
    message : what is wrong, with the value, and what to write instead
    spot : position in the file
    severity : ``error`` or ``warning``

    Examples
    --------
    >>> spot = FilePosition("s.yaml", 17, 3, 5, "  node:", "cluster.nodes")
    >>> print(Problem("missing", "'nodes' is missing", spot))
    error 'nodes' is missing
      s.yaml:17:3  cluster.nodes
        17 |   node:
           |   ^^^^^
    """

    kind: str
    message: str
    spot: FilePosition
    severity: str = "error"

    def __str__(self) -> str:
        head = [f"{self.severity} {self.message}", f"  {self.spot}  {self.spot.path}".rstrip()]
        return "\n".join(head + _source_excerpt(self.spot))

    def facts(self) -> dict[str, str | int]:
        """Plain dictionary of the problem, for ``--json`` and editors."""
        spot = self.spot
        return {
            "file": spot.file,
            "line": spot.line,
            "column": spot.column,
            "path": spot.path,
            "kind": self.kind,
            "message": self.message,
            "severity": self.severity,
        }


def _source_excerpt(spot: FilePosition) -> list[str]:
    if not spot.width:
        return []
    text, start = _cut_line(spot.text.expandtabs(1), spot.column - 1)
    width = max(1, min(spot.width, len(text) - start))
    gutter = f"{spot.line:>6}"
    return [f"{gutter} | {text}".rstrip(), f"{' ' * len(gutter)} | {' ' * start}{'^' * width}"]


def _cut_line(text: str, start: int) -> tuple[str, int]:
    """A line cut to the display width around a column, and the new position of that column."""
    if len(text) <= WIDEST:
        return text, start
    left = max(0, min(start - WIDEST // 3, len(text) - WIDEST))
    lead = "…" if left else ""
    tail = "…" if left + WIDEST < len(text) else ""
    return lead + text[left : left + WIDEST] + tail, start - left + len(lead)


class InvalidScenarioError(ScenarioError):
    """Error that holds all problems of a scenario.

    Parameters
    ----------
    problems : problems in file order; at most 20 are shown
    """

    def __init__(self, problems: Iterable[Problem]):
        found = distinct_in_file_order(problems)
        super().__init__(found)
        self.problems = found

    def __str__(self) -> str:
        return problems_text(self.problems)

    def facts(self) -> list[dict[str, str | int]]:
        """Plain dictionaries of the shown problems, for ``--json``."""
        return [p.facts() for p in self.problems[:AT_MOST]]


def distinct_in_file_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems without duplicates, sorted by their position in the file."""
    unique = dict.fromkeys(problems)
    return tuple(sorted(unique, key=lambda p: (p.spot.file, p.spot.line, p.spot.column)))


def problems_text(problems: Sequence[Problem]) -> str:
    """Text of at most 20 problems, and the number of the others."""
    lines = [str(p) for p in problems[:AT_MOST]]
    rest = len(problems) - AT_MOST
    if rest > 0:
        lines.append(f"and {rest} more; fix these first")
    return "\n".join(lines)


def did_you_mean_text(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` if a known name is similar, else a list of the known names.

    >>> did_you_mean_text("bandwith", ["bandwidth", "latency"])
    "; did you mean 'bandwidth'?"
    >>> did_you_mean_text("h100", ["a100-sxm4-80g", "h100-sxm5-80g"])
    "; did you mean 'h100-sxm5-80g'?"
    >>> did_you_mean_text("colour", ["bandwidth", "latency"])
    '; known here: bandwidth, latency'
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    near = near or [n for n in names if len(name) >= FEWEST and n.startswith(name.casefold())][:1]
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known here: {', '.join(names[:20])}" if names else ""
