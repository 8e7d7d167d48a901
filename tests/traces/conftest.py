"""A plain replay of a graph, and where recorded data lies."""

import os
from pathlib import Path

import numpy as np
import pytest


def replay(graph):
    """Start and end of every op, s: each starts when its last dependency ended."""
    block = graph.explicit
    n, op_of = len(block), block.op_of_place.tolist()
    waiting = np.bincount(block.successors.values, minlength=len(op_of)).tolist()
    ready = np.concatenate([block.release, block.release[block.places.op]]).tolist()
    places = np.bincount(op_of, minlength=n).tolist()
    start, end = [0.0] * n, [np.nan] * n
    stack = [p for p, w in enumerate(waiting) if not w]
    while stack:
        place = stack.pop()
        op = op_of[place]
        start[op] = max(start[op], ready[place])
        places[op] -= 1
        if places[op]:
            continue
        end[op] = start[op] + float(block.ops.duration[op])
        for follower in block.successors[op].tolist():
            ready[follower] = max(ready[follower], end[op])
            waiting[follower] -= 1
            if not waiting[follower]:
                stack.append(follower)
    assert not np.isnan(end).any(), "cycle"
    return np.array(start), np.array(end)


@pytest.fixture(name="replay")
def _replay():
    return replay


def step_times(graph, end, rank=0):
    """Seconds that each step of a rank took: from the end of one on the main thread to the next."""
    ops = graph.ops
    main = (ops.rank == rank) & (ops.stream == 0)
    ends = [end[main & (ops.period == i)].max() for i in range(int(ops.period.max()) + 1)]
    first = graph.explicit.release[main].max() if main.any() else 0.0
    return np.diff([first, *ends])


@pytest.fixture(name="step_times")
def _step_times():
    return step_times


@pytest.fixture
def data():
    root = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
    folder = root / "kineto-traces"
    if not folder.is_dir():
        pytest.skip(f"no recorded traces at {folder}; set FORETRACE_DATA")
    return folder
