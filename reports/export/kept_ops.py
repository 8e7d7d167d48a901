"""Reader for the ops that a run stored in its folder."""

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
    """Read the ops of a saved run as a table, one row per op, like :meth:`Result.frame`.

    Times are in µs: ``ready_us``, ``start_us``, ``end_us``; NaN for an event that did not happen.
    The file stores exact ticks.

    Parameters
    ----------
    run : run folder, such as ``runs/first/7f3a12``
    tick : s
        Length of the run's tick.

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
