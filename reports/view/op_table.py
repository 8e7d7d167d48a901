"""The tables of a run's ops and of their places, as ``export.tables`` wrote them, as relations.

Lanes are streams of ranks (of jobs), numbered in order; ops that never ran or did not end are
in none.  A collective is an op of its first rank, and drawn on every rank, with its wait before it.
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
    """Connection of bounded memory, with kinds of ops as a type."""
    import duckdb

    db = duckdb.connect(config={"memory_limit": MEMORY, "threads": THREADS})
    db.execute(f"SET temp_directory = {sql_literal(spill or '')}")
    db.execute("SET parquet_metadata_cache = true")
    db.execute("SET enable_progress_bar = false")  # stdout has the address, and nothing else
    db.execute(f"CREATE TYPE op_kind AS ENUM ({', '.join(map(sql_literal, kind_names()))})")
    return db


def _bar_kind_sql() -> str:
    """Number of an op's bar, as an expression."""
    return f"{bar_kind_by_op_kind().tolist()}[enum_code(kind::op_kind) + 1]::UTINYINT"


def sql_literal(path: Path | str) -> str:
    """Path or text as a constant of SQL.

    >>> sql_literal("it's")
    "'it''s'"
    """
    return "'" + str(path).replace("'", "''") + "'"


def table_digest(path: Path) -> dict[str, Any]:
    """Size of a parquet file and a hash of its footer, which has sizes and bounds of all columns.

    It stays the same where a run folder is copied.  That of the places beside it is part of it.

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
            raise ScenarioError(
                f"{path}: is not a complete table of ops; run it again with --no-cache"
            )
        file.seek(size - 8 - length)
        footer = file.read(length)
    places = places_file(path)
    more = {"places": table_digest(places)} if places else {}
    return {"bytes": size, "footer": hashlib.sha256(footer).hexdigest(), **more}


def places_file(table: Path) -> Path | None:
    """Table of places beside a table of ops; None where there is none."""
    kind, _, variant = table.name.partition(".")
    places = table.with_name(f"places.{variant}")
    return places if kind == "ops" and places.is_file() else None


@dataclass(frozen=True)
class SavedOpTable:
    """A table of ops, the places beside it, and what names its lanes.

    Parameters
    ----------
    path : Path
    keys : columns; ranks are numbered job by job where there are several
    places : None beside a table that was written without them
    """

    path: Path
    keys: tuple[str, ...] = ("rank", "stream")
    places: Path | None = None

    @classmethod
    def of(cls, db: DuckDBPyConnection, path: Path) -> SavedOpTable:
        """A table by its file."""
        columns = {name for name, *_ in db.execute(f"DESCRIBE FROM {sql_literal(path)}").fetchall()}
        keys = ("job", "rank", "stream") if "job" in columns else ("rank", "stream")
        return cls(path, keys, places_file(path))

    @property
    def files(self) -> list[Path]:
        """Its files."""
        return [self.path, *([self.places] if self.places else [])]

    def lanes(self) -> str:
        """Query of its lanes: number, keys, machine, ops (of which this is the first place)."""
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
        """Relation of its ops; the connection has its lanes as a relation ``lanes``."""
        return self._on_lanes(self._rows(where))

    def drawn_rows(self, where: str = "true") -> str:
        """Relation of all that is drawn: ops on each of their places, and waits before them."""
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
    """Bounds of the groups of rows of tables, by which the cost of reading a window is known."""

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

    def rows_read(self, first: int, last: int, low: int, high: int) -> int:
        """Rows of the groups in which ops of ranks low to high may run between two ticks."""
        own = self.bounds
        there = (own["start"] < last) & (own["until"] > first)
        there &= (own["low"] <= high) & (own["high"] >= low)
        return int(self.rows[there].sum())
