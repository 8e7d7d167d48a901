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
