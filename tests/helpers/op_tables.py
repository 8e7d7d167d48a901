"""Tables of ops made by hand, as runs leave them."""

import json

import duckdb
import numpy as np

ROW_GROUP = 2048  # rows: the fewest that DuckDB writes
COLUMNS = ("rank", "stream", "kind", "name", "start", "end")


def write_table(path, rows):
    """A table of ops as a run leaves it."""
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    table = {
        "op": np.arange(len(rows)),
        **{name: np.array(columns[name], object if name in ("kind", "name") else np.int64)
           for name in COLUMNS},
    }  # fmt: skip
    with duckdb.connect() as db:
        db.register("ops", table)
        db.execute(
            "COPY (SELECT op, kind::VARCHAR AS kind, rank::INTEGER AS rank, stream, "
            "CASE WHEN kind = 'collective' THEN 'fabric' ELSE 'node' || rank // 2 || '.gpu0' END "
            'AS component, name::VARCHAR AS name, start AS ready, start, "end", '
            f"CASE WHEN \"end\" < 0 THEN 'pending' ELSE 'ended' END AS state FROM ops) TO '{path}' "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
        )
    return path


def write_places(path, rows):
    """Places beside a table: of each its op, whether it is further, rank, since, start and end."""
    columns = ("op", "further", "rank", "since", "start", "end")
    table = {name: np.array(c) for name, c in zip(columns, zip(*rows, strict=True), strict=True)}
    with duckdb.connect() as db:
        db.register("places", table)
        db.execute(
            "COPY (SELECT op, further, 'collective' AS kind, rank::INTEGER AS rank, 7 AS stream, "
            "'all-reduce' AS name, since, start, \"end\" FROM places ORDER BY start, op) "
            f"TO '{path}' (FORMAT parquet, COMPRESSION zstd)"
        )


def write_meeting_run(folder):
    """A run of three ranks that meet twice: rank 2 is late for the first, all are in time then."""
    write_run(folder, base=[
        *((r, 0, "compute", "gemm", 0, 1000 + 2000 * (r == 2)) for r in range(3)),
        (0, 7, "collective", "all-reduce", 3000, 4000),
        (0, 7, "collective", "all-reduce", 4000, 4500),
    ])  # fmt: skip
    places = [(3, r > 0, r, 1000 + 2000 * (r == 2), 3000, 4000) for r in range(3)]
    places += [(4, r > 0, r, 4000, 4000, 4500) for r in range(3)]
    write_places(folder / "places.base.parquet", places)
    return folder


def chain(ops, names=("gemm", "norm", "all-reduce")):
    """Ops one after the other on one lane."""
    return [(0, 0, "compute", names[i % len(names)], 10 * i, 10 * i + 7) for i in range(ops)]


def write_run(folder, **tables):
    """A run folder with a table of each variant."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"run": folder.name}))
    for variant, rows in tables.items():
        write_table(folder / f"ops.{variant}.parquet", rows)
    return folder
