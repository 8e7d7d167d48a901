"""Small traces made by hand, a plain replay of a graph, and where recorded data lies."""

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from foretrace.traces import kineto

BASE = 1_712_170_331_000_000  # µs: a float64 holds no nanoseconds here


class Script:
    """Events of one rank, as a profiler would write them; times in µs after BASE."""

    def __init__(self, rank=0, world=1, **info):
        self.rank, self.events, self.correlation = rank, [], 0
        groups = [{"pg_name": "0", "ranks": list(range(world)), "backend_config": "nccl"}]
        self.document = {
            "distributedInfo": {
                "rank": rank,
                "world_size": world,
                "backend": "nccl",
                "pg_config": groups,
            },
            **info,
        }

    def add(self, cat, name, ts, dur, pid=1, tid=1, **args):
        """One event at `ts` for `dur` µs."""
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "args": args}
        event["ts"] = _exact(BASE * 1000 + round(ts * 1000))
        event["dur"] = _exact(round(dur * 1000))
        self.events.append(event)
        return event

    def op(self, name, ts, dur, tid=1, **args):
        return self.add("cpu_op", name, ts, dur, tid=tid, **args)

    def step(self, number, ts, dur):
        return self.add("user_annotation", f"ProfilerStep#{number}", ts, dur)

    def call(self, name, ts, dur, tid=1):
        self.correlation += 1
        self.add("cuda_runtime", name, ts, dur, tid=tid, correlation=self.correlation)
        return self.correlation

    def launch(self, ts, start, dur, stream=7, name="gemm", tid=1, call=3.0, **args):
        """A launch call at `ts` and the kernel that it starts."""
        c = self.call("cudaLaunchKernel", ts, call, tid)
        self.add(
            "kernel",
            name,
            start,
            dur,
            pid=0,
            tid=stream,
            stream=stream,
            device=0,
            correlation=c,
            **args,
        )
        return c

    def write(self, folder, name=None):
        path = Path(folder) / (name or f"rank{self.rank}.json.gz")
        text = json.dumps({**self.document, "traceEvents": self.events})
        text = re.sub(r'"#(-?[0-9.]+)#"', r"\1", text)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        return path

    def read(self, folder):
        return kineto.read(self.write(folder))


def _exact(nanoseconds):
    """Microseconds with all their digits, which json would round: a number between #."""
    sign, rest = "-" * (nanoseconds < 0), abs(nanoseconds)
    return f"#{sign}{rest // 1000}.{rest % 1000:03d}#"


@pytest.fixture
def script():
    return Script


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
    ends = [end[main & (ops.iteration == i)].max() for i in range(int(ops.iteration.max()) + 1)]
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
