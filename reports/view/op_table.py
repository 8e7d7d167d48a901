"""The table of a run's ops, as ``export.tables.write_ops`` wrote it, as a relation of ops.

Lanes are its streams of ranks (of jobs), numbered in order; ops that never ran or did not end are
in none.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import ScenarioError
from ...sim.ops import KIND_NAMES
from ..figures.timeline_source import KIND_NUMBER

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MAGIC = b"PAR1"
MEMORY = "1500MB"  # what DuckDB may take; it goes on in files beyond that
THREADS = min(os.cpu_count() or 1, 8)
MACHINE = "split_part(component, '.', 1)"  # of node3.gpu5; a fabric has none
RAN = 'start >= 0 AND "end" >= start'


def open_database(spill: Path | None = None) -> DuckDBPyConnection:
    """Connection of bounded memory, with kinds of ops as a type."""
    import duckdb

    db = duckdb.connect(config={"memory_limit": MEMORY, "threads": THREADS})
    db.execute(f"SET temp_directory = {quoted(spill or '')}")
    db.execute("SET parquet_metadata_cache = true")
    db.execute("SET enable_progress_bar = false")  # stdout has the address, and nothing else
    db.execute(f"CREATE TYPE op_kind AS ENUM ({', '.join(map(quoted, KIND_NAMES))})")
    return db


def quoted(path: Path | str) -> str:
    """Path or text as a constant of SQL.

    >>> quoted("it's")
    "'it''s'"
    """
    return "'" + str(path).replace("'", "''") + "'"


def table_digest(path: Path) -> dict[str, Any]:
    """Size of a parquet file and a hash of its footer, which has sizes and bounds of all columns.

    It stays the same where a run folder is copied.

    Raises
    ------
    ScenarioError
        No parquet file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - 8, 0))
        length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
        if magic != MAGIC or length > size:
            raise ScenarioError(f"{path}: is no whole table of ops; run it again with --no-cache")
        file.seek(size - 8 - length)
        footer = file.read(length)
    return {"bytes": size, "footer": hashlib.sha256(footer).hexdigest()}


@dataclass(frozen=True)
class KeptOpTable:
    """A table of ops and what names its lanes.

    Parameters
    ----------
    path : Path
    keys : columns; ranks are numbered job by job where there are several
    """

    path: Path
    keys: tuple[str, ...] = ("rank", "stream")

    @classmethod
    def of(cls, db: DuckDBPyConnection, path: Path) -> KeptOpTable:
        """A table by its file."""
        columns = {name for name, *_ in db.execute(f"DESCRIBE FROM {quoted(path)}").fetchall()}
        return cls(path, ("job", "rank", "stream") if "job" in columns else ("rank", "stream"))

    def lanes(self) -> str:
        """Query of its lanes: number, keys, machine, ops, busy ticks."""
        keys = ", ".join(self.keys)
        return (
            f"SELECT (row_number() OVER (ORDER BY {keys}) - 1)::INTEGER AS lane, * FROM ("
            f"SELECT {keys}, min({MACHINE}) FILTER (contains(component, '.')) AS machine, "
            f'count(*) AS ops, sum("end" - start)::BIGINT AS ticks FROM {quoted(self.path)} '
            f"WHERE {RAN} GROUP BY {keys})"
        )

    def ops(self, where: str = "true") -> str:
        """Relation of its ops; the connection has its lanes as a relation ``lanes``."""
        number = f"{KIND_NUMBER.tolist()}[enum_code(kind::op_kind) + 1]::UTINYINT"
        return (
            f'(SELECT lane, start, "end", {number} AS kind, coalesce(name, kind) AS name '
            f"FROM {quoted(self.path)} JOIN lanes USING ({', '.join(self.keys)}) "
            f"WHERE {RAN} AND {where})"
        )


class RowGroups:
    """Bounds of the groups of rows of a table, by which the cost of reading a window is known."""

    def __init__(self, db: DuckDBPyConnection, table: Path):
        found = db.execute(
            "SELECT row_group_id AS id, any_value(row_group_num_rows) AS rows, "
            + ", ".join(
                f"any_value({side}({bound}::BIGINT)) FILTER (path_in_schema = '{column}') AS {name}"
                for name, side, bound, column in (
                    ("start", "", "stats_min", "start"),
                    ("until", "", "stats_max", "end"),
                    ("low", "", "stats_min", "rank"),
                    ("high", "", "stats_max", "rank"),
                )
            )
            + f" FROM parquet_metadata({quoted(table)}) WHERE path_in_schema IN "
            "('start', 'end', 'rank') GROUP BY id ORDER BY id"
        ).fetchnumpy()
        self.rows: NDArray[np.int64] = np.asarray(found["rows"], np.int64)
        self.bounds = {name: np.asarray(found[name], np.int64) for name in found if name != "rows"}

    def rows_read(self, first: int, last: int, low: int, high: int) -> int:
        """Rows of the groups in which ops of ranks low to high may run between two ticks."""
        own = self.bounds
        there = (own["start"] < last) & (own["until"] > first)
        there &= (own["low"] <= high) & (own["high"] >= low)
        return int(self.rows[there].sum())
