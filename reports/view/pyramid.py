"""Pyramid of a table of ops: its bars at every resolution, stored in a folder next to the table.

Levels are powers of two of ticks. The finest level is chosen so that the pyramid has at most a
tenth of the table's bytes; finer views are read from the table itself. The folder holds

- ``made_from.json``: the source table, the levels and the span;
- ``lanes.parquet``: the lanes, see :meth:`.SavedOpTable.lanes`;
- ``alone.parquet``: ops that are a bar of their own at some level;
- ``cells.N.parquet``: all other ops at level N, merged by cell; see :mod:`.resolution`;
- ``names.parquet``: for each op name its number of ops, and the start of the first, tenth … op.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sim.atomic_folder import replace_folder_on_success
from .op_table import RAN, SavedOpTable, open_database, sql_literal, table_digest
from .resolution import cells, coarser_sums, long_op_bars, sums_by_cell

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FORM = 2  # of these folders; another is written anew
SHARE = 0.1  # of the table's bytes
FEW = 200_000  # ops that are read from their table at once, at every resolution
CELL, ALONE = 7, 16  # bytes, about, of a cell and of a bar of its own
COARSEST = 16  # cells of the last level in the whole span, at least
BLOCK = 12  # a power of two: cells of all lanes that are kept together
FIRST_OPS = (1, 10, 100, 1000)  # of a name: their starts are known
MANY_NAMES = 20_000  # beyond which not all of them are worth an index
FORMAT = "(FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2, ROW_GROUP_SIZE 20480)"
FACTS = "made_from.json"

Say = Callable[[str], None]


def pyramid_folder(table: Path, say: Say = lambda _: None) -> Path:
    """Folder of a table's pyramid; writes the pyramid if there is none for this table.

    It is next to the table or, if that folder is not writable, in the user's cache.

    Raises
    ------
    ScenarioError
        The file is not a table of ops.
    OSError
        Neither folder is writable.
    """
    made_from = {"form": FORM, **table_digest(table)}
    places = (table.parent / ".view" / table.stem, _cache_folder(table))
    for place in places:
        if _is_current(place, made_from):
            return place
    say(f"reading {table}")
    for place in places:
        try:
            with replace_folder_on_success(place) as folder:
                write_pyramid(table, folder, made_from)
        except OSError:
            if place == places[-1]:
                raise
        else:
            return place
    raise AssertionError


def _cache_folder(table: Path) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (
        Path(home) / "foretrace" / "view" / sha256(str(table.resolve()).encode()).hexdigest()[:16]
    )


def _is_current(folder: Path, made_from: dict[str, Any]) -> bool:
    """True if a folder holds a complete pyramid of the same table in the current format."""
    try:
        known = json.loads((folder / FACTS).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(known, dict) and known.get("made_from") == made_from


def write_pyramid(
    table: Path, folder: Path, made_from: dict[str, Any], base: int | None = None
) -> None:
    """Write the pyramid of a table into an empty folder.

    Parameters
    ----------
    table : Parquet file of ops
    folder : empty output folder
    made_from : digest of the table, by which the pyramid is recognised
    base : finest level as a power of two; by default chosen from the table's size
    """
    with open_database(folder / "spill") as db:
        own = SavedOpTable.of(db, table)
        db.execute(f"CREATE TABLE lanes AS {own.lanes()}")
        db.execute(f"CREATE TEMP VIEW ops AS SELECT * FROM {own.ops()}")
        db.execute(f"CREATE TEMP VIEW drawn AS SELECT * FROM {own.drawn_rows()}")
        _write(db, "FROM lanes ORDER BY lane", folder / "lanes.parquet")
        first, last, rows = _span(db, table)
        (ops,) = _one(db, "SELECT coalesce(sum(ops), 0)::BIGINT FROM lanes")
        (drawn,) = _one(db, "SELECT count(*) FROM drawn") if own.places else (ops,)
        levels = _levels(db, made_from["bytes"], last - first, drawn, base)
        _write_levels(db, folder, levels)
        named = _write_names(db, folder, ops)
    facts = {"made_from": made_from, "first": first, "last": last, "rows": rows, "ops": ops,
             "drawn": drawn, "levels": [levels.start, levels.stop], "names": named}  # fmt: skip
    (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n")


def _write(db: DuckDBPyConnection, query: str, path: Path) -> None:
    db.execute(f"COPY ({query}) TO {sql_literal(path)} {FORMAT}")


def _one(db: DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] = db.execute(query).fetchall()[0]
    return row


def _span(db: DuckDBPyConnection, table: Path) -> tuple[int, int, int]:
    """First start, last end and number of rows of a table; the times are 0 if nothing ran."""
    query = (
        f"SELECT coalesce(min(start) FILTER ({RAN}), 0), "
        f'coalesce(max("end") FILTER ({RAN}), 0), count(*) FROM {sql_literal(table)}'
    )
    first, last, rows = _one(db, query)
    return first, last, rows


def _levels(
    db: DuckDBPyConnection, table_bytes: int, span: int, ops: int, base: int | None
) -> range:
    """Levels of a pyramid: from the finest that fits to one with few cells in the span."""
    stop = max(span // COARSEST, 1).bit_length()
    if base is None:
        base = 0 if ops > FEW else stop
        found = db.execute(
            'SELECT log2("end" - start + 1)::INTEGER AS length, count(*) FROM drawn GROUP BY length'
        ).fetchall()
        (spans,) = _one(db, 'SELECT coalesce(sum(l), 0) FROM (SELECT max("end") - min(start) AS l '
                            "FROM drawn GROUP BY lane)")  # fmt: skip
        while base < stop and _pyramid_bytes(base, dict(found), spans, ops) > SHARE * table_bytes:
            base += 1
    return range(min(base, stop), stop)


def _pyramid_bytes(base: int, by_length: dict[int, int], spans: int, ops: int) -> float:
    """Approximate upper bound on the bytes of a pyramid with the given finest level.

    Parameters
    ----------
    base : finest level as a power of two
    by_length : number of ops by the base-2 logarithm of their ticks
    spans : ticks from the first to the last op, summed over lanes
    ops : number of ops
    """
    alone = sum(count for length, count in by_length.items() if length >= base)
    drawn = sum(min(ops, spans >> level) for level in range(base, base + 20))
    return float(ALONE * alone + CELL * drawn)


def _write_levels(db: DuckDBPyConnection, folder: Path, levels: range) -> None:
    """Write the bars of long ops, and the cells of every level."""
    if not levels:
        return
    db.execute(f"CREATE TEMP TABLE longer AS {long_op_bars('drawn', levels.start)}")
    order = f"ORDER BY floor(log2(busy)), start >> {levels.start + BLOCK}, lane, start"
    _write(db, f"FROM longer {order}", folder / "alone.parquet")
    sums, order = sums_by_cell("drawn", levels.start), f"ORDER BY cell >> {BLOCK}, lane, cell"
    for level in levels:
        db.execute(f"CREATE TEMP TABLE coarser AS {sums}")
        db.execute("DROP TABLE IF EXISTS sums")
        db.execute("ALTER TABLE coarser RENAME TO sums")
        _write(db, f"{cells('sums', level)} {order}", folder / f"cells.{level}.parquet")
        sums = coarser_sums("sums", "longer", level + 1)


def _write_names(db: DuckDBPyConnection, folder: Path, ops: int) -> bool:
    """Write the index of op names; True if written, False if there are too many names."""
    (count,) = _one(db, "SELECT count(DISTINCT name) FROM ops")
    if count > max(MANY_NAMES, ops // 200):
        return False
    starts = ", ".join(f"starts[{k}] AS start_{k}" for k in FIRST_OPS)
    query = (
        f"SELECT name, ops, ticks, {starts} FROM (SELECT name, count(*) AS ops, "
        f'sum("end" - start)::BIGINT AS ticks, min(start, {FIRST_OPS[-1]}) AS starts '
        "FROM ops GROUP BY name) ORDER BY name"
    )
    _write(db, query, folder / "names.parquet")
    return True
