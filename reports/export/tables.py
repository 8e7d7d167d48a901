"""Parquet tables of a run, written by DuckDB."""

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
    """Write a Parquet table with one row per op: what it is, where and when it ran.

    Columns: ``op, graph, row, kind, rank, stream, period, component, name, ready, start, end,
    state, attempts``. Times are exact ticks, -1 for an event that did not happen; a missing name is
    null. ``period`` is left out if no op is in a period; ``job`` is added if there are several
    jobs. ``low`` and ``high`` are added if op times have error intervals; see ``factors``.

    Parameters
    ----------
    factors : ends of the 90 % error interval of each op's time, as factors of that time, shape (2,
        n); NaN where unknown
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
    """Write a Parquet table of the places of ops that have several ranks or waited to start.

    Columns: ``op, further, kind, rank, stream, name, since, start, end``, and ``job`` if the ops
    table has it; sorted by start. The op waits at that place from ``since`` to ``start``, for other
    ranks or for a free slot. ``further`` is False at the op's first place, which is also in the ops
    table.
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


def write_series(path: Path, result: Result) -> None:
    """Write a Parquet table with one row per point of each time series that processes recorded.

    Columns: ``series, unit, start, end, values, min, max, mean, last``, and ``job`` if there are
    several jobs. ``start`` and ``end`` are the ticks of the first and last value of the point.
    """
    series = list(result.recorded.items())
    size = [len(one) for _, one in series]
    number, job = (np.repeat(np.array(column, np.int32), size) for column in
                   (np.arange(len(series)), [of for (of, _), _ in series]))  # fmt: skip
    columns: dict[str, list[NDArray[Any]]] = {
        "start": [one.first for _, one in series],
        "end": [one.last for _, one in series],
        "values": [one.count for _, one in series],
        "min": [one.minimum for _, one in series],
        "max": [one.maximum for _, one in series],
        "mean": [one.mean for _, one in series],
        "last": [one.final for _, one in series],
    }
    table = {
        "series": number,
        "unit": number,
        **({"job": job} if len(result.jobs) > 1 else {}),
        **{name: np.concatenate(parts) for name, parts in columns.items()},
    }
    words = {
        "series": [name for (_, name), _ in series],
        "unit": [one.unit for _, one in series],
        **({"job": list(result.jobs)} if len(result.jobs) > 1 else {}),
    }
    _write(path, table, words)


def _write(path: Path, table: Mapping[str, Any], words: Mapping[str, list[str]]) -> None:
    """Write columns as Parquet; those in ``words`` are indices into texts, -1 for null."""
    import duckdb

    with duckdb.connect() as db:
        db.register("ops", dict(table))
        shown = ", ".join(  # a text by its number: quicker than as an object a row
            f"(${c}::VARCHAR[])[ops.{c} + 1] AS {c}" if c in words else f"ops.{c}" for c in table
        )
        quoted = str(path).replace("'", "''")
        form = f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
        db.execute(f"COPY (SELECT {shown} FROM ops) TO '{quoted}' {form}", dict(words))
