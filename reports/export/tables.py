"""Tables of a run as parquet, written by DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.engine_api import State
from ...sim.ops import KIND_NAMES
from ...sim.result import Result
from .op_labels import op_labels


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
    import duckdb

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
        "kind": KIND_NAMES.tolist(),
        "component": list(result.parts.names),
        "name": texts,
        "state": [s.name.lower() for s in State],
        **({"job": list(result.jobs)} if len(result.jobs) > 1 else {}),
    }
    with duckdb.connect() as db:
        db.register("ops", table)
        shown = ", ".join(  # a text by its number: quicker than as an object a row
            f"(${c}::VARCHAR[])[ops.{c} + 1] AS {c}" if c in words else f"ops.{c}" for c in table
        )
        quoted = str(path).replace("'", "''")
        form = "(FORMAT parquet, COMPRESSION zstd)"
        db.execute(f"COPY (SELECT {shown} FROM ops) TO '{quoted}' {form}", words)
