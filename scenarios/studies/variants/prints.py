"""Prints of processes, kept separate from the answer.

A process runs in every simulation of a variant (about 17 times); only the prints of the first
simulation are kept.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import TextIO


class CapturedPrints(io.TextIOBase):
    """Standard output that captures the prints of simulations and passes on all other text.

    Parameters
    ----------
    through : stream for text printed outside of simulations
    shown : stream that also receives the prints of every simulation; None for none

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
        """Text printed by the first simulation of each variant, by variant, if any."""
        return {name: text for name, kept in self._first.items() if (text := kept.getvalue())}

    @contextmanager
    def of_simulation(self, variant: str) -> Iterator[None]:
        """Context manager for a simulation of a variant on this thread; captures the first."""
        first = variant not in self._first
        kept = [self._first.setdefault(variant, io.StringIO())] if first else []
        self._thread.outputs = [*kept, *([] if self._shown is None else [self._shown])]
        try:
            yield
        finally:
            del self._thread.outputs

    def write(self, text: str) -> int:
        """Write to the stream that the current thread prints to."""
        for output in getattr(self._thread, "outputs", (self._through,)):
            output.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the underlying stream."""
        self._through.flush()


@contextmanager
def capture_prints(shown: TextIO | None = None) -> Iterator[CapturedPrints]:
    """Context manager that captures the prints of simulations; a failed run shows them on stderr.

    Parameters
    ----------
    shown : stream that also receives the prints of every simulation; None for none
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
    """Context manager for one simulation, whose prints are captured within a study."""
    if not isinstance(sys.stdout, CapturedPrints):
        yield
        return
    with sys.stdout.of_simulation(variant):
        yield
