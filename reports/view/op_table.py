"""Access by SQL to a run's tables of ops and places, as written by ``export.tables``.

A lane is one stream of one rank (of one job); lanes are numbered in order. Ops that never ran or
did not end are in no lane. A collective is an op of its first rank; it is drawn on every rank,
after its wait there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import ScenarioError
from ...sim.facts.kind import kind_names
from ..figures.timeline_source import bar_kind_by_op_kind
from ..palette import KINDS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MAGIC = b"PAR1"
MEMORY = "1500MB"  # what DuckDB may take; it goes on in files beyond that
THREADS = min(os.cpu_count() or 1, 8)
MACHINE = "split_part(component, '.', 1)"  # of node3.gpu5; a fabric has none
RAN = 'start >= 0 AND "end" >= start'
WAITING = list(KINDS).index("waiting")


def open_database(spill: Path | None = None) -> DuckDBPyConnection:
    """DuckDB connection with bounded memory and an enum type for kinds of ops."""
    import duckdb

    db = duckdb.connect(config={"memory_limit": MEMORY, "threads": THREADS})
    db.execute(f"SET temp_directory = {sql_literal(spill or '')}")
    db.execute("SET parquet_metadata_cache = true")
    db.execute("SET enable_progress_bar = false")  # stdout has the address, and nothing else
    db.execute(f"CREATE TYPE op_kind AS ENUM ({', '.join(map(sql_literal, kind_names()))})")
    return db


def _bar_kind_sql() -> str:
    """SQL expression for the kind number of an op's bar."""
    return f"{bar_kind_by_op_kind().tolist()}[enum_code(kind::op_kind) + 1]::UTINYINT"


def sql_literal(path: Path | str) -> str:
    """A path or text as an SQL string literal.

    >>> sql_literal("it's")
    "'it''s'"
    """
    return "'" + str(path).replace("'", "''") + "'"


def table_digest(path: Path) -> dict[str, Any]:
    """Size of a Parquet file and a hash of its footer, which holds sizes and bounds of all columns.

    The digest does not change when a run folder is copied. It includes that of the places file next
    to the table.

    Raises
    ------
    ScenarioError
        The file is not a Parquet file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - 8, 0))
        length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
        if magic != MAGIC or length > size:
            raise ScenarioError(
                f"{path}: is not a complete table of ops; run it again with --no-cache"
            )
        file.seek(size - 8 - length)
        footer = file.read(length)
    places = places_file(path)
    more = {"places": table_digest(places)} if places else {}
    return {"bytes": size, "footer": hashlib.sha256(footer).hexdigest(), **more}


def places_file(table: Path) -> Path | None:
    """File with the places of a table of ops, next to it; None if there is none."""
    kind, _, variant = table.name.partition(".")
    places = table.with_name(f"places.{variant}")
    return places if kind == "ops" and places.is_file() else None


@dataclass(frozen=True)
class SavedOpTable:
    """A table of ops with its places file and the columns that identify its lanes.

    Parameters
    ----------
    path : Path
        Parquet file of the ops.
    keys : columns that identify a lane; with several jobs, ``job`` comes first
    places : places file; None if the run was written without one
    """

    path: Path
    keys: tuple[str, ...] = ("rank", "stream")
    places: Path | None = None

    @classmethod
    def of(cls, db: DuckDBPyConnection, path: Path) -> SavedOpTable:
        """Open a table of ops by its file."""
        columns = {name for name, *_ in db.execute(f"DESCRIBE FROM {sql_literal(path)}").fetchall()}
        keys = ("job", "rank", "stream") if "job" in columns else ("rank", "stream")
        return cls(path, keys, places_file(path))

    @property
    def files(self) -> list[Path]:
        """The table's files."""
        return [self.path, *([self.places] if self.places else [])]

    def lanes(self) -> str:
        """SQL query for the lanes: number, keys, machine, and number of ops that begin there."""
        keys = ", ".join(self.keys)
        further = (
            f"UNION ALL SELECT DISTINCT {keys}, NULL, 0 FROM {sql_literal(self.places)} "
            f"WHERE {RAN} "
            if self.places
            else ""
        )
        return (
            f"SELECT (row_number() OVER (ORDER BY {keys}) - 1)::INTEGER AS lane, * FROM ("
            f"SELECT {keys}, min(machine) AS machine, sum(ops)::BIGINT AS ops FROM ("
            f"SELECT {keys}, min({MACHINE}) FILTER (contains(component, '.')) AS machine, "
            f"count(*) AS ops FROM {sql_literal(self.path)} WHERE {RAN} GROUP BY {keys} {further}) "
            f"GROUP BY {keys})"
        )

    def ops(self, where: str = "true") -> str:
        """SQL relation of the ops; the connection needs a relation ``lanes``."""
        return self._on_lanes(self._rows(where))

    def drawn_rows(self, where: str = "true") -> str:
        """SQL relation of all that is drawn: ops at each place, and waits before them."""
        return self._on_lanes(" UNION ALL ".join(self._all_rows(where)))

    def _all_rows(self, where: str) -> Iterator[str]:
        yield self._rows(where)
        if self.places:
            keys = ", ".join(self.keys)
            yield (
                f'SELECT {keys}, start, "end", {_bar_kind_sql()} AS kind, '
                f"coalesce(name, kind) AS name FROM {sql_literal(self.places)} "
                f"WHERE further AND {RAN} AND {where}"
            )
            yield (
                f'SELECT {keys}, start, "end", {WAITING}::UTINYINT AS kind, name FROM ('
                f'SELECT {keys}, since AS start, start AS "end", coalesce(name, kind) AS name '
                f"FROM {sql_literal(self.places)} WHERE since < start) WHERE {where}"
            )

    def _rows(self, where: str) -> str:
        return (
            f'SELECT {", ".join(self.keys)}, start, "end", {_bar_kind_sql()} AS kind, '
            f"coalesce(name, kind) AS name FROM {sql_literal(self.path)} WHERE {RAN} AND {where}"
        )

    def _on_lanes(self, rows: str) -> str:
        return (
            f'(SELECT lane, start, "end", kind, name FROM ({rows}) '
            f"JOIN lanes USING ({', '.join(self.keys)}))"
        )


class RowGroups:
    """Bounds of the row groups of Parquet files, to estimate the cost of reading a time window."""

    def __init__(self, db: DuckDBPyConnection, files: Sequence[Path]):
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
            + f" FROM parquet_metadata([{', '.join(map(sql_literal, files))}]) WHERE "
            "path_in_schema IN ('start', 'end', 'rank') "
            "GROUP BY file_name, id ORDER BY file_name, id"
        ).fetchnumpy()
        self.rows: NDArray[np.int64] = np.asarray(found["rows"], np.int64)
        self.bounds = {name: np.asarray(found[name], np.int64) for name in found if name != "rows"}

    def rows_to_read(self, first: int, last: int, low: int, high: int) -> int:
        """Number of rows to read for the ops of ranks low to high between two ticks.

        Row groups of the file are read completely, so it includes rows of other ops.
        """
        own = self.bounds
        there = (own["start"] < last) & (own["until"] > first)
        there &= (own["low"] <= high) & (own["high"] >= low)
        return int(self.rows[there].sum())
