"""Progress of a run or sweep: a bar in a terminal, else lines of text."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer

from .common import progress_printer

if TYPE_CHECKING:
    from ...studies.sweep.trial import SweepTrial


SECONDS_PER_LINE = 30.0  # between lines that say how much is done, where there is no terminal


class RunProgress:
    """Progress of a run: steps as lines, and finished simulations as a bar.

    Without a terminal, a line from time to time gives the number of finished simulations and the
    time left. The first simulation does not count for the estimate, since it compiles.

    Parameters
    ----------
    quiet : True to show nothing
    clock : monotonic clock, in s
    """

    def __init__(self, quiet: bool, clock: Callable[[], float] = time.monotonic):
        self.tell = progress_printer(quiet)
        self._bar = None if quiet or not _is_terminal() else _progress_bar("runs", 0)
        self._clock = clock
        self._told = clock()
        self._since: tuple[float, int] | None = None  # when so many were done

    def count(self, done: int, expected: int) -> None:
        """Show the number of finished simulations and the expected total."""
        told = f"{done} of about {expected}"
        if self._bar is not None:
            self._bar.update(0, completed=done, total=expected, told=told, refresh=True)
            return
        now = self._clock()
        since, before = self._since or (now, done)
        if now - self._told >= SECONDS_PER_LINE:
            each = (now - since) / (done - before) if done > before else None
            left = "" if each is None else f", about {each * (expected - done):.0f} s left"
            self.tell(f"{told} runs done{left}")
            self._told = now
            since, before = now, done
        self._since = since, before

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self.tell = self._bar.console.print  # above the bar
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _is_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class SweepProgress:
    """Progress of a sweep: counts finished points and shows the count.

    Parameters
    ----------
    total : number of points
    tell : function that prints a line
    quiet : True to show no bar, even in a terminal
    workers : description of the workers
    folder : folder of the outcomes
    """

    def __init__(
        self, total: int, tell: Callable[[str], None], workers: str, folder: Path, quiet: bool
    ):
        self.total, self.tell, self.workers, self.folder = total + 1, tell, workers, folder
        self.quiet = quiet
        self.done = self.failed = self.refused = self.cached = 0
        self._began = time.monotonic()
        self._bar: Any = None

    def count(self, trial: SweepTrial) -> None:
        """Count one more finished point."""
        self.done += 1
        self.failed += trial.error is not None and not trial.refused
        self.refused += trial.refused
        self.cached += trial.cached
        if self._bar is not None:
            self._bar.update(0, completed=self.done, told=self.text())

    def text(self) -> str:
        """Text with the numbers of finished, failed and cached points."""
        refused = f"{self.refused} refused  " if self.refused else ""
        return f"{self.done}/{self.total}  {self.failed} failed  {refused}{self.cached} from cache"

    def __enter__(self) -> Self:
        self.tell(f"workers  {self.workers}; resumable")
        if not self.quiet and _is_terminal():
            self._bar = _progress_bar("points", self.total)
            self._bar.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        self.tell(f"points   {self.text()}  {time.monotonic() - self._began:.1f} s")
        if isinstance(error, KeyboardInterrupt):
            typer.echo(
                f"interrupted; {self.done} of {self.total} points are saved in {self.folder}; run "
                "the same command again to continue",
                err=True,
            )


def _progress_bar(what: str, total: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(f"{what:<8}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, markup=False, highlight=False)
    bar = Progress(*columns, console=console, transient=True)
    bar.add_task(what, total=total, told="")
    return bar
