"""Aggregates to keep of a run whose rows are about to be dropped."""

from __future__ import annotations

from dataclasses import replace

from ..aggregates import RunAggregates
from ..run_record import RunRecord
from .activity import boxes_of, busy
from .metrics import shares
from .op_sums import aggregates_of


def summarised(result: RunRecord, keep: str) -> RunAggregates:
    """Aggregates, at detail ``keep`` (``ranks`` or ``none``), of a run that has one row per op.

    Times by box come from compiled kernels, but of a run of the reference engine.
    """
    sums = aggregates_of(result)
    compiled, ranks = result.engine != "reference", sums.start.shape[1]
    boxes = boxes_of(busy(result), sums.marks, ranks, compiled=compiled)
    kept = sums.boxed(boxes, keep)
    return replace(kept, windows=shares(result)) if keep == "ranks" else kept
