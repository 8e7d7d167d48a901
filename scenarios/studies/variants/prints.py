"""Prints of processes, apart from the answer: those of a variant's first simulation are kept.

A process runs in every simulation of a variant, some 17 times, and would print as often.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import TextIO


class CapturedPrints(io.TextIOBase):
    """Standard output of a study: what simulations print goes elsewhere, all else through.

    Parameters
    ----------
    through : what is printed outside of simulations
    shown : every simulation's prints too; None for nowhere

    Examples
    --------
    >>> import sys
    >>> kept = CapturedPrints(sys.stdout)
    >>> for text in ("once", "twice"):
    ...     with kept.of_simulation("base"):
    ...         _ = kept.write(text)
    >>> kept.texts
    {'base': 'once'}
    """

    def __init__(self, through: TextIO, shown: TextIO | None = None):
        self._through, self._shown = through, shown
        self._first: dict[str, io.StringIO] = {}
        self._thread = threading.local()

    @property
    def texts(self) -> Mapping[str, str]:
        """What the first simulation of each variant printed, where it did."""
        return {name: text for name, kept in self._first.items() if (text := kept.getvalue())}

    @contextmanager
    def of_simulation(self, variant: str) -> Iterator[None]:
        """Context of one simulation of a variant, on its thread; the first is kept."""
        first = variant not in self._first
        kept = [self._first.setdefault(variant, io.StringIO())] if first else []
        self._thread.outputs = [*kept, *([] if self._shown is None else [self._shown])]
        try:
            yield
        finally:
            del self._thread.outputs

    def write(self, text: str) -> int:
        """Write to where the prints of this thread go."""
        for output in getattr(self._thread, "outputs", (self._through,)):
            output.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what is behind it."""
        self._through.flush()


@contextmanager
def capture_prints(shown: TextIO | None = None) -> Iterator[CapturedPrints]:
    """Context in which what simulations print is kept apart; a run that fails shows it on stderr.

    Parameters
    ----------
    shown : see ``CapturedPrints``
    """
    kept = CapturedPrints(sys.stdout, shown)
    try:
        with redirect_stdout(kept):
            yield kept
    except Exception:
        if shown is None:
            sys.stderr.write("".join(kept.texts.values()))
        raise


@contextmanager
def prints_of_simulation(variant: str) -> Iterator[None]:
    """Context of one simulation, whose prints are kept apart within a study."""
    if not isinstance(sys.stdout, CapturedPrints):
        yield
        return
    with sys.stdout.of_simulation(variant):
        yield
