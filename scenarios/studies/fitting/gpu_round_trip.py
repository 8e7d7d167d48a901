"""Round trip of a fitted GPU: recording, fit, catalog, run, and all of them compared by family."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from ....reports.numbers import three_digits
from ....sim.facts.signature import parse_signature
from ....sim.setting_groups import unflatten_settings
from .bench import Bench, BenchOp, settings_as_written
from .gpu_entry import kernels_text
from .gpu_fit import GpuFit, with_cold_start
from .gpu_rows import GpuRows
from .round_trip import RoundTrip

Floats = NDArray[np.float64]
Entry = Callable[[str], str]


def gpu_round_trip(
    bench: Bench, rows: GpuRows, fit: GpuFit, entry: Entry
) -> tuple[RoundTrip, list[str]]:
    """Recorded ops of fitted families, run with the new entry; with a line for each family.

    An entry answers for steps, where other kernels run between; ops that were recorded alone are
    run with one whose starts cost nothing more for that.

    Parameters
    ----------
    entry : text of the catalog file whose families are in that file, by the name ``fitted``
    """
    at = np.flatnonzero(np.isin(rows.families, list(fit.errors)) & fit.model.has_peak(rows))
    texts = [rows.texts[i] for i in at.tolist()]
    after = rows.after[at]
    simulated = np.empty(len(at))
    alone, in_place = np.flatnonzero(~after), np.flatnonzero(after)
    with TemporaryDirectory() as folder:
        if len(alone):
            some = [BenchOp(texts[i]) for i in alone.tolist()]
            simulated[alone] = _simulated_alone(bench, some, fit, Path(folder) / "alone.json")
        if len(in_place):
            file = Path(folder) / "families.json"
            file.write_text(kernels_text(fit.model.families))
            (Path(folder) / "fitted.yaml").write_text(entry(str(file)))
            some = [BenchOp(texts[i]) for i in in_place.tolist()]
            part = {"model": "fitted"}
            simulated[in_place] = bench.simulated_seconds(some, part, [Path(folder)])
    fitted = fit.model.seconds(texts, after)
    own = float(np.median([e.error for e in fit.errors.values()]))
    moved = np.array([float(parse_signature(t).bytes) for t in texts])
    back = RoundTrip(tuple(texts), moved, fitted, simulated, rows.seconds[at], own)
    return back, [
        f"{len(at)} ops run with the entry: {three_digits(100 * back.apart)} % from the fit at "
        "most; from the recording, by family:",
        *_lines_of_families(rows, at, simulated),
    ]


def _simulated_alone(bench: Bench, ops: list[BenchOp], fit: GpuFit, file: Path) -> Floats:
    """(n,) s of ops in runs of a GPU on which nothing starts later for what ran before."""
    model = with_cold_start(fit.model, 0.0)
    file.write_text(kernels_text(model.families))
    part = settings_as_written("gpu", {**unflatten_settings(model.settings), "kernels": str(file)})
    return bench.simulated_seconds(ops, part)


def _lines_of_families(rows: GpuRows, at: NDArray[np.int_], simulated: Floats) -> list[str]:
    """How far runs are from the recording, by family, of ops alone and in their place."""
    error = simulated / rows.seconds[at] - 1
    family, after = rows.families[at], rows.after[at]
    lines = []
    for name in sorted(set(family.tolist())):
        for in_place, where in ((False, ""), (True, " in place")):
            mine = (family == name) & (after == in_place)
            if mine.any():
                bias, size = float(np.median(error[mine])), float(np.median(np.abs(error[mine])))
                lines.append(
                    f"{name}{where}: {bias:+.1%} in the median, {size:.1%} off "
                    f"({int(mine.sum())} ops)"
                )
    return lines
