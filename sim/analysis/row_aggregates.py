"""Aggregates of a run, computed from its op rows before these are dropped."""

from __future__ import annotations

from dataclasses import replace

from ..record.aggregates import RunAggregates
from ..record.run_record import RunRecord
from .activity import box_ticks, box_ticks_by_kernel
from .metrics import slot_share_by_window, working_share_by_window
from .op_sums import stored_or_summed_aggregates


def aggregates_of_op_rows(result: RunRecord, keep: str) -> RunAggregates:
    """Aggregates of a run from its op rows, at the detail level ``keep`` (``ranks`` or ``none``).

    The time breakdown uses compiled kernels, except for runs of the reference engine.
    """
    sums = stored_or_summed_aggregates(result)
    boxes = box_ticks if result.engine == "reference" else box_ticks_by_kernel
    kept = sums.with_time_breakdown(boxes(result, sums.breakdown_bounds, sums.start.shape[1]), keep)
    if keep != "ranks":
        return kept
    return replace(
        kept, windows=working_share_by_window(result), taken=slot_share_by_window(result)
    )
