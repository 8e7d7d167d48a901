"""Window of a steered run whose op rows are kept when the run is repeated.

A run that processes steer is deterministic: the same work, seed and replica give the same run. So
rows that were not kept can be had by running again, up to the end of a window. Graphs that ended
before the window are freed; of a window with too many ops the end is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from ..errors import NotKeptError
from ..record.emitted_values import same_values_before
from ..record.prepared import PreparedRun
from ..record.run_record import RunRecord
from ..record.schedule import SubmittedRun
from ..units import ticks_per_second

MOST_ROWS = 500_000  # size in ops of the graphs of a window, about 65 MB
REPEATED = (
    "the run was repeated for its rows, but {}; let its processes keep no state between runs and "
    "draw by job.random(), or run it with keep='ops'"
)


@dataclass(frozen=True)
class RowWindow:
    """Ticks between which a repeated run keeps one row per op.

    Parameters
    ----------
    first, last : ticks
    most : largest size of the kept graphs, in ops
    """

    first: int
    last: int
    most: int = MOST_ROWS


def renumber_runs(runs: Sequence[SubmittedRun]) -> tuple[SubmittedRun, ...]:
    """Submitted graphs of which some were freed, with ids that count only those left."""
    firsts = accumulate((len(run) for run in runs), initial=0)
    return tuple(_with_first(run, first) for run, first in zip(runs, firsts, strict=False))


def _with_first(run: SubmittedRun, first: int) -> SubmittedRun:
    if isinstance(run, PreparedRun):
        return PreparedRun(run.submission, first, run.job, run.at, run.by, run.draw_key)
    return replace(run, first=first)


def require_same_run(result: RunRecord, repeated: RunRecord) -> None:
    """Raise an error if a repeated run, or its part up to the end of a window, is another run.

    Raises
    ------
    NotKeptError
        Its processes keep state between runs, or draw random numbers of their own.
    """
    whole = repeated.span is None
    sizes = {(one.count, one.makespan_ticks) for one in (result, repeated)} if whole else set()
    if len(sizes) > 1:
        raise NotKeptError(f"result: {REPEATED.format('its number of ops or makespan differ')}")
    until = np.inf
    if repeated.span is not None:  # none at its end counts, nor the totals at the run's end
        until = min(repeated.span[1] / ticks_per_second(result.tick), result.emitted.last)
    if not same_values_before(result.emitted, repeated.emitted, until):
        raise NotKeptError(f"result: {REPEATED.format('its emitted values differ')}")
