"""What ops are called: the labels of all graphs of a run in one list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...sim.result import Result


def labels(result: Result) -> tuple[list[str], NDArray[np.int64]]:
    """All names, and of each op the number of its own; -1 for an op without one."""
    texts: list[str] = []
    found = []
    for run in result.runs:
        own = run.graph.ops.label.astype(np.int64)
        found.append(np.where(own >= 0, own + len(texts), -1))
        texts += [label.name for label in run.graph.labels]
    return texts, np.concatenate(found)
