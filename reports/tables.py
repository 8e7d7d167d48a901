"""Tables of a run as parquet, written by DuckDB."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..sim.machine import State
from ..sim.result import Result


def write_ops(path: Path, result: Result) -> None:
    """A row an op: what it was, where it ran, when.  Times are ticks: exact.

    Columns: ``op, graph, row, kind, rank, stream, iteration, component, name, ready, start, end,
    state, attempts``; -1 for a time that did not come.
    """
    import duckdb

    ops, columns = result.ops, result.columns
    names = np.array([*result.parts.names, ""], object)
    labels = np.concatenate(
        [
            np.array([*(x.name for x in r.graph.labels), ""], object)[r.graph.ops.label]
            for r in result.runs
        ]
    )
    table = {
        "op": np.arange(len(ops)),
        "graph": np.concatenate(
            [np.full(len(r.graph), i, np.int32) for i, r in enumerate(result.runs)]
        ),
        "row": np.concatenate([np.arange(len(r.graph)) for r in result.runs]),
        "kind": np.array(ops.kind_names, object),
        "rank": ops.rank,
        "stream": ops.stream,
        "iteration": ops.iteration,
        "component": names[result.component],
        "name": labels,
        "ready": columns.ready,
        "start": columns.start,
        "end": columns.end,
        "state": np.array([s.name.lower() for s in State], object)[columns.state],
        "attempts": columns.attempts,
    }
    with duckdb.connect() as db:
        db.register("ops", table)
        quoted = str(path).replace("'", "''")
        db.execute(f"COPY ops TO '{quoted}' (FORMAT parquet, COMPRESSION zstd)")
