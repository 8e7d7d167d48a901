"""Chrome trace JSON of a run, for chrome://tracing and speedscope, from its ``ops.parquet``.

Ranks become processes and streams become threads. Times are exact, in microseconds.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from ...sim.units import PICOSECOND, Seconds

PICOSECONDS = 10**6  # of a microsecond
PERIODS = ("period", "iteration")  # the column, and what runs of 0.1 before jobs call it


def write_chrome_trace(ops: Path, path: Path, tick: Seconds = PICOSECOND) -> int:
    """Write all finished ops as Chrome trace events; returns the number of events.

    Parameters
    ----------
    ops : Path
        Parquet file written by :func:`.tables.write_ops`.
    path : Path
        File to write; gzipped if its name ends in ``.gz``.
    tick : s
        Length of the run's tick: 1e-12 or 1e-9.

    Examples
    --------
    >>> [exact_microseconds(*t) for t in ((1_234_567, 1), (5, 1000), (3_000_000, 1))]
    ['1.234567', '0.005', '3']
    """
    import duckdb

    quoted = str(ops).replace("'", "''")
    with duckdb.connect() as db:
        there = db.execute(f"DESCRIBE SELECT * FROM '{quoted}'").fetchall()
        columns = {name for name, *_ in there}
        period = next((name for name in PERIODS if name in columns), "-1")
        rows = db.execute(
            'SELECT rank, stream, coalesce(name, kind), kind, start, "end" - start, component, '
            f"{period} FROM '{quoted}' WHERE state = 'ended' ORDER BY op"
        ).fetchall()
    scale = round(tick * 1e12)
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as out:
        out.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
        out.write(",\n".join(_event(row, scale) for row in rows))
        out.write("\n]}\n")
    return len(rows)


def _event(row: tuple[object, ...], scale: int) -> str:
    rank, stream, name, kind, start, duration, component, period = row
    assert isinstance(start, int)  # noqa: S101
    assert isinstance(duration, int)  # noqa: S101
    args = {"component": component, **({} if period == -1 else {"period": period})}
    return (
        f'{{"ph": "X", "pid": {rank}, "tid": {stream}, "cat": {json.dumps(kind)}, '
        f'"name": {json.dumps(name)}, "ts": {exact_microseconds(start, scale)}, '
        f'"dur": {exact_microseconds(duration, scale)}, "args": {json.dumps(args)}}}'
    )


def exact_microseconds(ticks: int, scale: int) -> str:
    """Ticks of ``scale`` picoseconds as exact decimal text in microseconds."""
    whole, rest = divmod(ticks * scale, PICOSECONDS)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")
