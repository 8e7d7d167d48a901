"""Gradients of a recorded training step: when each was complete, and its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import TraceError
from ....sim.units import Bytes
from ...recorded_events import RecordedEvents
from ..events.operands import parse_operands
from ..events.rank_trace import RankTrace
from ..events.steps import Steps, find_steps

GRADIENT = "torch::autograd::AccumulateGrad"


@dataclass(frozen=True)
class Gradients:
    """Gradients of the recorded steps, in the order in which they were completed.

    Parameters
    ----------
    time : completion time in s from the start of the first step, shape (n,)
    bytes : size in B, shape (n,)
    step : index of the step, shape (n,)
    row : row of the event that marks the completion, shape (n,)
    """

    time: NDArray[np.float64]
    bytes: NDArray[np.float64]
    step: NDArray[np.int64]
    row: NDArray[np.int64]


def gradients(
    trace: RecordedEvents, stretch: float = 1.0, sizes: Mapping[int, Bytes] | None = None
) -> Gradients:
    """Find when the backward pass completed each gradient, and the gradient's size.

    Parameters
    ----------
    stretch : factor that recorded times are multiplied by
    sizes : size in B of each gradient whose size differs from the recorded one, by row of its mark

    Raises
    ------
    TraceError
        The trace has no gradients, or not their shapes.
    """
    events = RankTrace(trace, trace.ranks[0])
    marks: Steps = find_steps(events)
    rows = np.flatnonzero([trace.strings[i] == GRADIENT for i in events.name.tolist()])
    rows = rows[np.argsort(events.end[rows], kind="stable")]
    step = marks.position_at(events.start[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    if not len(rows):
        raise TraceError(
            f"{events.process.file}: has no {GRADIENT}; scale_to needs the backward pass of a "
            "training step, recorded with CPU activities"
        )
    shapes, dtypes = trace.text("shapes")[events.rows], trace.text("dtypes")[events.rows]
    size = [_first_operand_bytes(shapes[i], dtypes[i]) for i in rows.tolist()]
    if not all(size):
        raise TraceError(
            f"{events.process.file}: the shapes of its gradients were not recorded; record them "
            "(record_shapes=True)"
        )
    zero = int(marks.start[0])
    time = trace.seconds(events.end[rows] - zero) * stretch
    row = events.rows[rows]
    if sizes is not None:
        size = [sizes.get(r, b) for r, b in zip(row.tolist(), size, strict=True)]
    return Gradients(time, np.array(size, np.float64), step, row)


def _first_operand_bytes(shapes: str, dtypes: str) -> float:
    """Size of an operator's first tensor in B; 0 if not recorded."""
    tensors = parse_operands(shapes, dtypes)
    return float(tensors[0].bytes) if tensors else 0.0
