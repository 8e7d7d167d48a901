"""Native trace format: a folder of parquet tables and a manifest.

It is written with DuckDB to a temporary folder that is renamed once complete. So an interrupted
write leaves nothing that looks like a trace.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...sim.atomic_folder import replace_folder_on_success
from ...sim.errors import TraceError
from ..column_table import ColumnTable
from ..event_columns import TABLES, EventColumn
from ..recorded_events import FileHeader, Track
from ..trace import Trace
from ..validate import refuse_damaged

SCHEMA = 3
ADDED = {
    "function": 2,
    "sent_splits": 3,
}  # columns by the schema that brought them; older traces lack them
MANIFEST = "trace.json"


def write(trace: Trace, path: str | Path) -> Path:
    """Write a trace to the folder `path`; an existing trace there is replaced.

    Raises
    ------
    TraceError
        `path` exists and is not a trace.
    """
    path = Path(path)
    if path.exists() and not (path / MANIFEST).is_file():
        raise TraceError(f"{path}: exists and is not a trace; choose another name or remove it")
    with replace_folder_on_success(path) as folder:
        _write_into(trace, folder)
    return path


def _write_into(trace: Trace, folder: Path) -> None:
    import duckdb

    with duckdb.connect() as db:
        for name in TABLES:
            _write_table(db, folder / f"{name}.parquet", getattr(trace, name).columns)
        texts = np.array(trace.strings, object)
        numbered = {"number": np.arange(len(texts)), "text": texts}
        _write_table(db, folder / "strings.parquet", numbered)
    manifest = {
        "schema": SCHEMA,
        "origin": str(trace.origin),  # text: JSON readers may make a float of it
        "resolution": trace.resolution,
        "tracks": trace.tracks,
        "processes": trace.processes,
        "notes": trace.notes,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def _write_table(db: Any, path: Path, columns: dict[str, Any]) -> None:
    db.register("columns", columns)
    db.execute(
        f"COPY columns TO '{_quoted_sql_path(path)}' (FORMAT parquet, PARQUET_VERSION V2, "
        "COMPRESSION zstd, COMPRESSION_LEVEL 9)"
    )
    db.unregister("columns")


def _quoted_sql_path(path: Path) -> str:
    return str(path).replace("'", "''")


def read(path: str | Path) -> Trace:
    """Read a trace that `write` has written.

    Raises
    ------
    TraceError
        `path` is not a trace, is incomplete, or has an unknown schema version.

    Examples
    --------
    >>> import tempfile
    >>> from ..trace import Trace
    >>> trace = Trace.of(strings=("aten::mm",), name=[0], ts=[5], dur=[7])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read(write(trace, Path(folder) / "tiny")).events["dur"].tolist()
    [7]
    """
    path = Path(path)
    text = (path / MANIFEST).read_bytes()
    schema = _decode_json(text, _TableSchema, path).schema
    if schema not in range(1, SCHEMA + 1):
        raise TraceError(
            f"{path}: has schema {schema}, this version reads 1 to {SCHEMA}; import the trace again"
        )
    manifest = _decode_json(text, _Manifest, path)
    import duckdb

    with duckdb.connect() as db:  # one for all tables: each takes 15 ms
        texts = _read_columns(db, path / "strings.parquet", ["text"])["text"]
        tables = {
            n: ColumnTable(n, _read_table(db, path / f"{n}.parquet", n, schema)) for n in TABLES
        }
    trace = Trace(
        **tables,
        strings=tuple(map(str, texts)),
        tracks=manifest.tracks,
        processes=manifest.processes,
        origin=int(manifest.origin),
        resolution=manifest.resolution,
        notes=manifest.notes,
    )
    refuse_damaged(trace, str(path))
    return trace


class _TableSchema(msgspec.Struct):
    schema: int


class _Manifest(msgspec.Struct):
    origin: Annotated[str, msgspec.Meta(pattern=r"^-?\d{1,40}$")]
    resolution: Annotated[int, msgspec.Meta(ge=1, le=10**12)]
    tracks: tuple[Track, ...]
    processes: Annotated[tuple[FileHeader, ...], msgspec.Meta(min_length=1)]
    notes: tuple[str, ...]


_Form = TypeVar("_Form")


def _decode_json(text: bytes, form: type[_Form], path: Path) -> _Form:
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise TraceError(f"{path / MANIFEST}: {e}; import the trace again") from e


def _read_table(db: Any, path: Path, kind: str, schema: int) -> dict[str, Any]:
    """Columns of a table; columns that its older schema lacks are "not recorded"."""
    stored = [name for name in TABLES[kind] if ADDED.get(name, 1) <= schema]
    columns = _read_columns(db, path, stored)
    rows = len(columns[stored[0]])
    return {
        name: _check_declared_type(path, name, column, columns[name])
        if name in columns
        else np.full(rows, column.absent, column.dtype)
        for name, column in TABLES[kind].items()
    }


def _check_declared_type(
    path: Path, name: str, column: EventColumn, values: NDArray[Any]
) -> NDArray[Any]:
    """Values converted to the column's declared type; TraceError if they do not fit."""
    bounds = np.iinfo(column.dtype)
    fits = values.dtype.kind in "iu" and not (
        len(values) and (values.min() < bounds.min or values.max() > bounds.max)
    )
    if not fits:
        raise TraceError(
            f"{path}: column {name} has type {values.dtype} or values that do not fit into "
            f"{bounds.dtype}; import the trace again"
        )
    return np.ascontiguousarray(values, column.dtype)


def _read_columns(db: Any, path: Path, names: list[str]) -> dict[str, Any]:
    import duckdb

    try:
        wanted = ", ".join(f'"{name}"' for name in names)
        query = f"SELECT {wanted} FROM '{_quoted_sql_path(path)}'"
        columns: dict[str, Any] = db.execute(query).fetchnumpy()
    except duckdb.Error as e:
        reason = str(e).splitlines()[0]
        raise TraceError(f"{path}: cannot be read ({reason}); import the trace again") from e
    for name, values in columns.items():
        if np.ma.is_masked(values):
            row = int(np.flatnonzero(values.mask)[0])
            raise TraceError(f"{path}: row {row} has no {name}; import the trace again")
    return {name: np.asarray(values) for name, values in columns.items()}
