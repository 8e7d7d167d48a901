"""Progress of a sweep: a bar with the time left in a terminal, a line where there is none."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

if TYPE_CHECKING:
    from ..studies.sweep.trial import SweepTrial


class SweepProgress:
    """Progress of a sweep: counts finished points and displays the count.

    Parameters
    ----------
    total : points that are wanted
    tell : told a line each
    quiet : no bar, even where stderr is a terminal
    workers : who runs them, for people
    folder : where they are kept
    """

    def __init__(
        self, total: int, tell: Callable[[str], None], workers: str, folder: Path, quiet: bool
    ):
        self.total, self.tell, self.workers, self.folder = total + 1, tell, workers, folder
        self.quiet = quiet
        self.done = self.failed = self.cached = 0
        self._began = time.monotonic()
        self._bar: Any = None

    def count(self, trial: SweepTrial) -> None:
        """Count one more finished point."""
        self.done += 1
        self.failed += trial.error is not None
        self.cached += trial.cached
        if self._bar is not None:
            self._bar.update(0, completed=self.done, told=self.text())

    def text(self) -> str:
        """Counts in words."""
        return f"{self.done}/{self.total}  {self.failed} failed  {self.cached} from cache"

    def __enter__(self) -> Self:
        self.tell(f"workers  {self.workers}; resumable")
        if not self.quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._bar = _progress_bar(self.total)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        self.tell(f"points   {self.text()}  {time.monotonic() - self._began:.1f} s")
        if isinstance(error, KeyboardInterrupt):
            typer.echo(
                f"interrupted; {self.done} of {self.total} points are kept in {self.folder}, the "
                "same command goes on from there",
                err=True,
            )


def _progress_bar(total: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("points  "),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("points", total=total, told="")
    return bar
