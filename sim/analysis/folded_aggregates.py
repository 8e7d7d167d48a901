"""From a row an op to what is kept without: the rows can go then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..result import Result
from .activity import boxes_of, busy
from .aggregates import RunAggregates
from .metrics import shares


def summarised(result: Result, keep: str) -> RunAggregates:
    """What ``keep`` keeps of a result with a row an op: ``ranks`` or ``none``."""
    kept = result.kept.boxed(_boxes(result), keep)
    return replace(kept, windows=shares(result)) if keep == "ranks" else kept


def _boxes(result: Result) -> NDArray[np.int64]:
    """(7, 1 + k, ranks) ticks in each box and window: compiled, except for the reference."""
    compiled, ranks = result.engine != "reference", result.kept.start.shape[1]
    return boxes_of(busy(result), result.kept.marks, ranks, compiled=compiled)
