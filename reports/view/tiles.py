"""Queries of the viewer: bars of a time window, places of an op name, details of one op.

Every query reads a bounded part of the pyramid or of the table. If too many rows or bars would be
needed, a coarser resolution is used, and the reply says which.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...sim.facts.kind import kind_names
from .op_table import RAN, RowGroups, SavedOpTable, open_database, sql_literal
from .pyramid import FACTS, FIRST_OPS
from .resolution import bars, bars_of_cells

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_ROWS = 8_000_000  # of the table that are looked at for one answer
OP = 15  # rows that may be looked at in the time that it takes to draw one op
MOST_BARS = 100_000  # of one answer, about
MOST_PLACES = FIRST_OPS[-1]  # of a name
MOST_OPS = 20  # at one instant of a lane
MOST_MEMBERS = 256  # of a collective that are told, those that arrived last


class Lane(NamedTuple):
    """One stream of one rank; ``machine`` and ``job`` are "" if unknown."""

    rank: int
    stream: int
    machine: str
    job: str = ""


@dataclass(frozen=True)
class Tile:
    """Bars of a time window as columns, sorted by lane and start, with times in ticks.

    Parameters
    ----------
    level : resolution: ops shorter than ``2**level`` ticks are merged by cell
    name : op names, shape (n,); None for a bar of several ops
    """

    level: int
    lane: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.uint8]
    count: NDArray[np.int64]
    busy: NDArray[np.int64]
    name: NDArray[np.object_]


@dataclass(frozen=True)
class NameMatches:
    """Ops whose name contains a text: their number, their total ticks, and the first places.

    Parameters
    ----------
    places : lane, start and end in ticks, and name of each of the first matches, sorted by time
    """

    ops: int
    ticks: int
    places: Sequence[tuple[int, int, int, str]]


class Members(NamedTuple):
    """Members of a collective and their arrival.

    Parameters
    ----------
    total : number of members
    last_count : number of members that arrived last, at the same tick
    first_last_rank : lowest rank among those that arrived last
    longest_wait : ticks that the first member to arrive waits
    places : lane, rank and arrival tick of the listed members
    """

    total: int
    last_count: int
    first_last_rank: int
    longest_wait: int
    places: Sequence[tuple[int, int, int]]


NO_MEMBERS = Members(0, 0, 0, 0, [])


class ViewedTable:
    """A table of ops with its pyramid, opened for viewing.

    Parameters
    ----------
    table : Parquet file written by ``export.tables.write_ops``
    folder : folder of its pyramid
    """

    def __init__(self, table: Path, folder: Path):
        facts = json.loads((folder / FACTS).read_text())
        self.folder = folder
        self.first, self.last = int(facts["first"]), int(facts["last"])
        self.ops, self.rows = int(facts["ops"]), int(facts["rows"])
        self.drawn = int(facts["drawn"])
        self.levels = range(*facts["levels"])
        self.named = bool(facts["names"])
        self._db = open_database()
        self._db.execute(f"CREATE TABLE lanes AS FROM {sql_literal(folder / 'lanes.parquet')}")
        self.table = SavedOpTable.of(self._db, table)
        job = "job" if "job" in self.table.keys else "''"
        found = self._db.execute(
            f"SELECT rank, stream, coalesce(machine, ''), {job} FROM lanes ORDER BY lane"
        ).fetchall()
        self.lanes = [Lane(*row) for row in found]
        self._groups = RowGroups(self._db, self.table.files)
        self._rank = np.array([lane.rank for lane in self.lanes], np.int64)

    def close(self) -> None:
        """Close the table."""
        self._db.close()

    def tile(self, first: int, last: int, width: int, lanes: ArrayLike | None = None) -> Tile:
        """Bars of some lanes between two ticks, at the resolution for a width in pixels.

        Parameters
        ----------
        first, last : start and end of the window, in ticks
        width : width of the window in pixels
        lanes : lane numbers; all lanes by default
        """
        chosen = self._existing_lanes(np.arange(len(self.lanes)) if lanes is None else lanes)
        return self.tile_at(self.level(first, last, width, chosen), first, last, chosen)

    def _existing_lanes(self, lanes: ArrayLike) -> NDArray[np.int64]:
        """Requested lane numbers that exist in this table.

        A page can show several tables, so a request can also contain lane numbers of other tables.
        """
        asked = np.asarray(lanes, np.int64)
        return asked[(asked >= 0) & (asked < len(self.lanes))]

    def level(self, first: int, last: int, width: int, lanes: NDArray[np.int64]) -> int:
        """Level of the pyramid to draw: the coarsest whose cells are at most one pixel wide.

        It is a coarser level if that would give too many bars, or take too long to read.
        """
        pixel = max((last - first) // max(width, 1), 1)
        level = pixel.bit_length() - 1
        while len(lanes) * ((last - first) >> level) > MOST_BARS:
            level += 1
        if self.levels and level < self.levels.start and self._is_too_costly(first, last, lanes):
            level = self.levels.start
        return min(level, self.levels.stop - 1) if self.levels else level

    def _is_too_costly(self, first: int, last: int, lanes: NDArray[np.int64]) -> bool:
        """True if reading a window from the table would take too long for an interactive reply."""
        if not len(lanes):
            return False
        rank = self._rank[lanes]
        rows = self._groups.rows_to_read(first, last, int(rank.min()), int(rank.max()))
        kept = self._bars_from_pyramid(self.levels.start, first, last)
        with self._db.cursor() as db:
            (ops,) = db.execute(
                f"SELECT coalesce(sum(count), 0) FROM ({kept}) "
                f'WHERE start <= {last} AND "end" >= {first} AND lane IN (SELECT unnest($lanes))',
                {"lanes": lanes.tolist()},
            ).fetchall()[0]
        return rows + OP * int(ops) > MOST_ROWS

    def tile_at(self, level: int, first: int, last: int, lanes: ArrayLike) -> Tile:
        """Bars of some lanes at a level that overlap a window, at their full length."""
        lanes = self._existing_lanes(lanes)
        if level in self.levels:
            drawn = self._bars_from_pyramid(level, first, last)
        else:
            drawn = self._bars_from_table(level, first, last, lanes)
        with self._db.cursor() as db:
            found: dict[str, Any] = db.execute(
                f'SELECT lane, start, "end", kind, count, busy, name FROM ({drawn}) '
                f'WHERE start <= {last} AND "end" >= {first} AND lane IN (SELECT unnest($lanes)) '
                'ORDER BY lane, start, "end"',
                {"lanes": lanes.tolist()},
            ).fetchnumpy()
        none = np.ma.getmaskarray(found["name"])
        found["name"] = np.ma.getdata(found["name"]).astype(object)
        found["name"][none] = None
        return Tile(level, **{name: np.ma.getdata(column) for name, column in found.items()})

    def _bars_from_pyramid(self, level: int, first: int, last: int) -> str:
        """SQL for the bars of a level from the pyramid: long ops and merged cells."""
        kept = sql_literal(self.folder / f"cells.{level}.parquet")
        begun = f"cell >= {(first >> level) - 1} AND cell <= {last >> level}"
        alone = sql_literal(self.folder / "alone.parquet")
        return (
            f"SELECT * FROM {alone} WHERE busy >= {1 << level} UNION ALL "
            f"{bars_of_cells(f'(SELECT * FROM {kept} WHERE {begun})', level)}"
        )

    def _bars_from_table(self, level: int, first: int, last: int, lanes: NDArray[np.int64]) -> str:
        """SQL for the bars of a level from the table, for all cells that overlap a window."""
        rank = self._rank[lanes] if len(lanes) else np.zeros(1, np.int64)
        cell = 1 << level
        where = (
            f'start < {(last // cell + 1) * cell} AND "end" >= {(first // cell - 1) * cell} '
            f"AND rank BETWEEN {rank.min()} AND {rank.max()}"
        )
        return bars(self.table.drawn_rows(where), level)

    def find(self, text: str) -> NameMatches:
        """Find ops whose name, or kind if they have none, contains a text; case is ignored."""
        with self._db.cursor() as db:
            return self._find_by_index(db, text) if self.named else self._find_by_scan(db, text)

    def _find_by_index(self, db: DuckDBPyConnection, text: str) -> NameMatches:
        """Find ops with the index of names, which bounds how far the table has to be read."""
        columns = ", ".join(f"start_{k}" for k in FIRST_OPS)
        found = db.execute(
            f"SELECT name, ops, ticks, {columns} FROM {sql_literal(self.folder / 'names.parquet')} "
            "WHERE contains(lower(name), lower($text))",
            {"text": text},
        ).fetchall()
        known = np.diff(FIRST_OPS, prepend=0).tolist()
        starts = sorted(
            (at, more)
            for _, _, _, *first in found
            for at, more in zip(first, known, strict=True)
            if at is not None
        )
        enough = np.searchsorted(np.cumsum([more for _, more in starts]), MOST_PLACES)
        until = starts[enough][0] if enough < len(starts) else self.last
        where = f"{_any_of([name for name, *_ in found])} AND start <= {until}"
        at = self._first_places(db, where) if found else []
        return NameMatches(sum(row[1] for row in found), sum(row[2] for row in found), at)

    def _find_by_scan(self, db: DuckDBPyConnection, text: str) -> NameMatches:
        """Find ops by scanning all names of the table."""
        where = f"contains(lower(coalesce(name, kind)), lower({sql_literal(text)}))"
        ops, ticks = db.execute(
            f'SELECT count(*), coalesce(sum("end" - start), 0)::BIGINT FROM {self.table.ops(where)}'
        ).fetchall()[0]
        return NameMatches(ops, ticks, self._first_places(db, where))

    def _first_places(self, db: DuckDBPyConnection, where: str) -> list[tuple[int, int, int, str]]:
        return db.execute(
            f'SELECT lane, start, "end", name FROM {self.table.ops(where)} '
            f'ORDER BY start, lane, "end", name LIMIT {MOST_PLACES}'
        ).fetchall()

    def ops_at(self, lane: int, tick: int) -> list[dict[str, Any]]:
        """All columns of the ops that run, or are waited for, on a lane at a tick; latest first."""
        own = self.lanes[lane]
        job = f"job = {sql_literal(own.job)} AND" if "job" in self.table.keys else ""
        there = f'{job} rank = {own.rank} AND stream = {own.stream} AND "end" >= {tick}'
        last = f"ORDER BY start DESC, op LIMIT {MOST_OPS}"
        with self._db.cursor() as db:
            query = (
                f"FROM {sql_literal(self.table.path)} WHERE {RAN} AND {there} AND start <= {tick}"
            )
            found = _rows(db, f"{query} {last}")
            if self.table.places:
                query = f"SELECT op FROM {sql_literal(self.table.places)} WHERE {there}"
                waits = f"since <= {tick} AND (further OR start > {tick})"
                ids = [str(row["op"]) for row in _rows(db, f"{query} AND {waits} {last}")]
                query = f"FROM {sql_literal(self.table.path)} WHERE op IN ({', '.join(ids)})"
                found += _rows(db, query) if ids else []
        return sorted(found, key=lambda op: (-op["start"], op["op"]))[:MOST_OPS]

    def members(self, op: dict[str, Any]) -> Members:
        """Members of a collective with their arrival; none for any other op."""
        if not self.table.places:
            return NO_MEMBERS
        keys = ", ".join(self.table.keys)
        with self._db.cursor() as db:
            found = db.execute(
                f"SELECT lane, rank, since FROM {sql_literal(self.table.places)} "
                f"JOIN lanes USING ({keys}) WHERE op = {op['op']} AND start = {op['start']} "
                "ORDER BY since DESC, lane"
            ).fetchall()
        if len(found) < 2:
            return NO_MEMBERS
        _, who, late = found[0]
        last = sum(since == late for _, _, since in found)
        most = op["start"] - found[-1][2]
        return Members(len(found), last, who, most, sorted(found[:MOST_MEMBERS]))


def _rows(db: DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    """Rows of a query as dictionaries by column."""
    found = db.execute(query)
    names = [name for name, *_ in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _any_of(names: Sequence[str]) -> str:
    """SQL condition that selects ops by name; an op without a name is selected by its kind."""
    listed = f"name IN ({', '.join(map(sql_literal, names))})"
    kinds = [sql_literal(name) for name in names if name in kind_names()]
    return f"({listed} OR name IS NULL AND kind IN ({', '.join(kinds)}))" if kinds else listed
