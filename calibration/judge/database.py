"""Error of interpolation between measured ops, by leaving out rows of each family.

    python -m foretrace.calibration.judge.database

In each table of H100 (and Vidur's of A100) every tenth row, by hash, is removed and interpolated.
Prints the median error and, for ``models/compute/op_database.py``, quantiles of
ln(measured / interpolated).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from foretrace.models.calibration.parameter_search import held_out_mask
from foretrace.models.compute.interpolation import log_sizes
from foretrace.models.compute.op_database import OpDatabase, shape_grid_point
from foretrace.models.compute.op_database_rows import (
    database_files,
    engine_and_version,
    measured_rows,
)
from foretrace.models.compute.op_shape import OpShape

from ..rows.kernel_rows import DATA

FOLDERS = ("llm-opdb-nvidia/op/h100_sxm", "vidur-opdb/compute/a100")
LEVELS = (np.arange(10) + 0.5) / 10
MOST = 60  # rows that are asked of each table


def between(table: OpDatabase, shape: OpShape) -> float:
    """Time of an op in s, interpolated between its neighbours; NaN without neighbours."""
    grid_point = shape_grid_point(shape)
    points = table.points(grid_point)
    if points is None:
        return float("nan")
    return float(
        points.interpolate_inside(log_sizes([[*grid_point.sizes]]), grid_point.triangulate)[0]
    )


def wrong(file: Path) -> dict[str, list[tuple[float, float]]]:
    """(measured, interpolated) times of the removed rows, by family."""
    measured: dict = {}
    for row in measured_rows(file):
        measured.setdefault(row.shape, []).append(row.seconds)
    shapes = list(measured)
    aside = held_out_mask([str(tuple(s)) for s in shapes], share=0.1, seed="between")
    kept = {
        s: float(np.median(measured[s])) for s, out in zip(shapes, aside, strict=True) if not out
    }
    table, found = OpDatabase.of(kept), {}
    for shape in [s for s, out in zip(shapes, aside, strict=True) if out]:
        some = found.setdefault(shape.family, [])
        if len(some) < MOST:
            some.append((float(np.median(measured[shape])), between(table, shape)))
    return found


def main() -> None:
    pooled: dict[str, list[tuple[float, float]]] = {}
    for folder in FOLDERS:
        for file in database_files(DATA / folder):
            for family, some in wrong(file).items():
                pooled.setdefault(family, []).extend(some)
                print(f"{engine_and_version(file):22s}{family}: {len(some)} asked", flush=True)
    for family, some in pooled.items():
        truth, answer = np.array(some).T
        known = np.isfinite(answer)
        error = np.log(truth[known] / answer[known])
        levels = tuple(np.quantile(error, LEVELS).round(3).tolist())
        half, share = np.median(np.abs(error)), known.mean()
        print(f'    "{family}": {levels},  # {half:.1%}, {share:.0%} answered')


if __name__ == "__main__":
    main()
