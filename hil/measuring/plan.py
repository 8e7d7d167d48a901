"""Plan: work lists for one device, what matters first, each small enough to lose little by a stop.

Every list is done once a round, in a process of its own, so that a plan that was stopped early has
seen the most; further rounds say how much process starts differ.
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
    """One work list of a plan.

    Parameters
    ----------
    work : of one process start
    seconds : that a round of it takes, about
    """

    work: WorkList
    seconds: float

    @property
    def name(self) -> str:
        """Name that the plan knows it by."""
        return self.work.note


@dataclass(frozen=True)
class RecordingPlan:
    """Pieces in the order in which they matter, and how often each is done.

    Parameters
    ----------
    pieces : of different names
    rounds : process starts of each

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
        """Seconds that all of it takes, about."""
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
        """Plan from JSON text; ``place`` names it in errors.

        Raises
        ------
        RecordingError
            It is no plan of this version.
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
        """Plan from a file."""
        try:
            return cls.read_text(path.read_text(), str(path))
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}; give a plan") from error


def is_plan(path: Path) -> bool:
    """Whether a file says that it is a plan, of whatever version.

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
