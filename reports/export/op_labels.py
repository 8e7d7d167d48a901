"""Op labels of all graphs of a run in one list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.run.result import Result


def op_labels(result: Result) -> tuple[list[str], NDArray[np.int64]]:
    """All labels of a run, and each op's label index, shape (ops,); -1 for no label."""
    texts: list[str] = []
    numbers = []
    for run in result.runs:
        own = run.graph.ops.label.astype(np.int64)
        numbers.append(np.where(own >= 0, own + len(texts), -1))
        texts += [label.name for label in run.graph.labels]
    return texts, np.concatenate(numbers)
