"""Ops that a run kept, out of its folder, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...sim.errors import ScenarioError
from ...sim.units import PICOSECOND, Seconds

if TYPE_CHECKING:
    import pandas as pd

TIMES = ("ready", "start", "end")  # ticks in the file, so that they are exact


def read_ops(run: str | Path, variant: str = "base", tick: Seconds = PICOSECOND) -> pd.DataFrame:
    """One row per op of a variant of a saved run, as :meth:`Result.frame` has them.

    Times are in µs: ``ready_us``, ``start_us``, ``end_us``, NaN for one that did not come.  The
    file has them in ticks, exactly; it is read by DuckDB, and nothing else has to be installed.

    Parameters
    ----------
    run : a run folder, such as ``runs/first/7f3a12``
    tick : s
        Of the run.

    Raises
    ------
    ScenarioError
        No ops of that variant were kept.
    """
    import duckdb

    folder = Path(run)
    table = folder / f"ops.{variant}.parquet"
    if not table.is_file():
        kept = sorted(file.name.split(".")[1] for file in folder.glob("ops.*.parquet"))
        there = f"there is {', '.join(kept)}" if kept else "run it again with --keep ops"
        raise ScenarioError(f"{folder}: no ops of {variant!r} were kept; {there}")
    quoted = str(table).replace("'", "''")
    with duckdb.connect() as db:
        found: pd.DataFrame = db.execute(f"FROM '{quoted}' ORDER BY op").df()
    found["name"] = found["name"].fillna(found["kind"])
    found["component"] = found["component"].fillna("")
    for name in TIMES:
        ticks = found[name].to_numpy()
        found[name] = np.where(ticks < 0, np.nan, ticks * tick * 1e6)
    return found.rename(columns={name: f"{name}_us" for name in TIMES}).set_index("op")
