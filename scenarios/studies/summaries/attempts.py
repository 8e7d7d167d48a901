"""Attempts to explain an answer: what one of them cannot do becomes a sentence of the answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ....sim.errors import ForetraceError
from ...config.plugin_errors import message_naming_plugin
from ..building.limits import TimeLimitExceeded

if TYPE_CHECKING:
    from ....reports.section import FailedSection

log = logging.getLogger(__name__)
T = TypeVar("T")
EVERYTHING = "anything"
IN_PYTHON, IN_SCENARIO = "run it with keep='ops'", "set run.keep: ops"
CANNOT, STOPPED, BUG, PLUGIN = "cannot", "stopped", "bug", "plug-in"
UNDER_WAY = "the command ended before it explained the answer; run it again"


@dataclass(frozen=True)
class Unexplained:
    """Part of an explanation that is missing.

    Parameters
    ----------
    variant : variant of the scenario; "" for all
    what : missing part, such as ``blame``
    why : cause, and what to do
    kind : ``cannot``, ``stopped`` (before it was done), ``bug`` or ``plug-in`` (which failed)
    """

    variant: str
    what: str
    why: str
    kind: str = CANNOT


@dataclass
class Attempts:
    """Attempts to explain the variants of a study, and what they could not explain."""

    missing: list[Unexplained] = field(default_factory=list)

    def make(self, variant: str, what: str, function: Callable[[], T], otherwise: T) -> T:
        """Result of a function, or ``otherwise`` if it raises an error, which is then noted.

        Raises
        ------
        TimeLimitExceeded
            The time limit of the run was reached.
        """
        try:
            return function()
        except TimeLimitExceeded:
            raise
        except Exception as error:
            self.note_error(variant, what, error)
            return otherwise

    def note(self, variant: str, what: str, why: str, kind: str = CANNOT) -> None:
        """Note a missing part with its cause."""
        self.missing.append(Unexplained(variant, what, why, kind))

    def note_error(self, variant: str, what: str, error: Exception) -> None:
        """Note a missing part and the error that caused it; an unexpected error is logged."""
        if isinstance(error, ForetraceError):
            why = str(error).removeprefix("result: ").replace(IN_PYTHON, IN_SCENARIO)
            self.note(variant, what, why)
            return
        log.error("explaining %s: %s failed", variant or "the answer", what, exc_info=error)
        if told := message_naming_plugin(error):
            self.note(variant, what, told, PLUGIN)
            return
        why = f"{type(error).__name__}: {error}; this is a bug in foretrace, please report the log"
        self.note(variant, what, why, BUG)

    def note_sections(self, failed: Iterable[FailedSection]) -> None:
        """Note the sections and figures of a page that could not be made."""
        for one in failed:
            self.note_error("", f"section {one.name} of the page", one.error)

    def faults(self) -> list[dict[str, Any]]:
        """What failed by a bug or in a plug-in, as plain data."""
        return [one for one in self.to_list() if one["kind"] != CANNOT]

    def to_list(self) -> list[dict[str, Any]]:
        """Plain data, as in ``summary.json``."""
        return [asdict(one) for one in self.missing]


def faults_of_page(failed: Iterable[FailedSection]) -> list[dict[str, Any]]:
    """Sections and figures of a page that failed by a bug or in a plug-in, as plain data."""
    attempts = Attempts()
    attempts.note_sections(failed)
    return attempts.faults()
