"""Recording plan: several work lists for one device, the most important first.

Each work list is small, so that an interruption loses little. Each round measures every list once,
in a new process. A plan that is stopped early has therefore covered as many ops as possible.
Further rounds show how much process starts differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...sim.errors import RecordingError
from .work_list import WorkList

FORM, SCHEMA = "foretrace-plan", 1


@dataclass(frozen=True)
class PlanPiece:
    """Piece of a recording plan: one work list, measured once per round.

    Parameters
    ----------
    work : work list of one process start
    seconds : estimated time of one round of the piece, in s
    """

    work: WorkList
    seconds: float

    @property
    def name(self) -> str:
        """Name of the piece, unique in the plan."""
        return self.work.note


@dataclass(frozen=True)
class RecordingPlan:
    """Recording plan: pieces in order of importance, and how often each is measured.

    Parameters
    ----------
    pieces : pieces with distinct names
    rounds : number of process starts of each piece

    Examples
    --------
    >>> from ..sample import Request
    >>> work = WorkList("host", (Request("copy:h2h uint8[4096]", 5),), note="copies", starts=1)
    >>> plan = RecordingPlan((PlanPiece(work, 2.0),), rounds=3)
    >>> plan.seconds, RecordingPlan.read_text(plan.text(), "here") == plan
    (6.0, True)
    """

    pieces: tuple[PlanPiece, ...]
    rounds: int = 3

    def __post_init__(self) -> None:
        names = [p.name for p in self.pieces]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"a plan has pieces {names}; give each a name of its own")

    @property
    def seconds(self) -> float:
        """Estimated time of the complete plan, in s."""
        return self.rounds * sum(p.seconds for p in self.pieces)

    def text(self) -> str:
        """JSON text of the plan."""
        pieces = [
            {"seconds": p.seconds, "work": json.loads(p.work.text())}
            for p in self.pieces
        ]  # fmt: skip
        told = {"form": FORM, "schema": SCHEMA, "rounds": self.rounds, "pieces": pieces}
        return json.dumps(told, indent=1) + "\n"

    @classmethod
    def read_text(cls, text: str, place: str) -> RecordingPlan:
        """Parse a plan from JSON text; ``place`` is the prefix of error messages.

        Raises
        ------
        RecordingError
            The text is not a plan of this version.
        """
        try:
            told = json.loads(text)
            if (told["form"], told["schema"]) != (FORM, SCHEMA):
                raise ValueError("of another form or schema")
            return cls(tuple(_piece(one, place) for one in told["pieces"]), int(told["rounds"]))
        except (ValueError, TypeError, KeyError) as error:
            raise RecordingError(
                f"{place}: is not a plan ({error}); write one with 'foretrace hil plan gpu'"
            ) from error

    @classmethod
    def read(cls, path: Path) -> RecordingPlan:
        """Read a plan from a file."""
        try:
            return cls.read_text(path.read_text(), str(path))
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}; give a plan") from error


def is_plan(path: Path) -> bool:
    """True if a file is marked as a plan, of any version.

    >>> is_plan(Path("no such file"))
    False
    """
    try:
        told = json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return isinstance(told, dict) and told.get("form") == FORM


def _piece(told: Mapping[str, Any], place: str) -> PlanPiece:
    work = WorkList.read_text(json.dumps(told["work"]), place)
    return PlanPiece(work, float(told["seconds"]))
