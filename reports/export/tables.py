"""Tables of a run as parquet, written by DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.engine_api.interface import State
from ...sim.facts.kind import kind_names
from ...sim.run.result import Result
from .op_labels import op_labels
from .op_places import op_places, wait_starts

ROW_GROUP = 30_720  # rows that are read together: few, so that a window of time is read quickly


def write_ops(path: Path, result: Result, factors: NDArray[np.float64] | None = None) -> None:
    """Write one row per op: what it was, where and when it ran.  Times are exact ticks.

    Columns: ``op, graph, row, kind, rank, stream, period, component, name, ready, start, end,
    state, attempts``; -1 for a time that did not come, null for a name that there is not.  There is
    no ``period`` where no op is in one, and a ``job`` where there are several.  ``low`` and
    ``high`` are there where answers know how wrong they may be: see ``factors``.

    Parameters
    ----------
    factors : (2, n) on the time of each op, between which it lies with 90 %; NaN where unknown
    """
    ops, columns = result.ops, result.columns
    texts, label = op_labels(result)
    table: dict[str, Any] = {
        "op": np.arange(len(ops)),
        "graph": np.concatenate(
            [np.full(len(r.graph), i, np.int32) for i, r in enumerate(result.runs)]
        ),
        "row": np.concatenate([np.arange(len(r.graph)) for r in result.runs]),
        "kind": ops.kind,
        "rank": ops.rank,
        "stream": ops.stream,
        **({"period": ops.period} if np.any(ops.period >= 0) else {}),
        **({"job": result.job} if len(result.jobs) > 1 else {}),
        "component": result.component,
        "name": label,
        "ready": columns.ready,
        "start": columns.start,
        "end": columns.end,
        "state": columns.state,
        "attempts": columns.attempts,
        **({} if factors is None else {"low": factors[0], "high": factors[1]}),
    }
    words = {
        "kind": kind_names().tolist(),
        "component": list(result.parts.names),
        "name": texts,
        "state": [s.name.lower() for s in State],
        **({"job": list(result.jobs)} if len(result.jobs) > 1 else {}),
    }
    _write(path, table, words)


def write_places(path: Path, result: Result) -> None:
    """Write one row per place of each op that ran on several ranks or waited for its start.

    Columns: ``op, further, kind, rank, stream, name, since, start, end``, and ``job`` as the table
    of ops has it; by start.  Such a place waits from ``since`` to ``start``, for other ranks or for
    room.  The first place of an op is not ``further``: it is where the table of ops has it.
    """
    ops, columns, places = result.ops, result.columns, op_places(result)
    texts, label = op_labels(result)
    start, end, since = columns.start[places.op], columns.end[places.op], wait_starts(result)
    further = np.concatenate(
        [np.arange(len(r.graph.explicit.rank)) >= len(r.graph) for r in result.runs]
    )
    since = np.where(since >= 0, np.minimum(since, start), start)
    several = np.bincount(places.op, minlength=len(ops))[places.op] > 1
    kept = np.flatnonzero((start >= 0) & (end >= start) & (several | (since < start)))
    kept = kept[np.lexsort((places.op[kept], start[kept]))]
    op = places.op[kept]
    table = {
        "op": op,
        "further": further[kept],
        "kind": ops.kind[op],
        "rank": np.concatenate([run.rank for run in result.runs])[kept],
        "stream": places.stream[kept],
        **({"job": result.job[op]} if len(result.jobs) > 1 else {}),
        "name": label[op],
        "since": since[kept],
        "start": start[kept],
        "end": end[kept],
    }
    words = {
        "kind": kind_names().tolist(),
        "name": texts,
        **({"job": list(result.jobs)} if len(result.jobs) > 1 else {}),
    }
    _write(path, table, words)


def _write(path: Path, table: Mapping[str, Any], words: Mapping[str, list[str]]) -> None:
    """Write columns; those of ``words`` are indices into a list of texts, -1 for none."""
    import duckdb

    with duckdb.connect() as db:
        db.register("ops", dict(table))
        shown = ", ".join(  # a text by its number: quicker than as an object a row
            f"(${c}::VARCHAR[])[ops.{c} + 1] AS {c}" if c in words else f"ops.{c}" for c in table
        )
        quoted = str(path).replace("'", "''")
        form = f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
        db.execute(f"COPY (SELECT {shown} FROM ops) TO '{quoted}' {form}", dict(words))
