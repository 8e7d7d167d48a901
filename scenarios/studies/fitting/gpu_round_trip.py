"""Round trip of a fitted GPU: simulate the recorded ops with the new entry, compare by family."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from ....reports.numbers import three_digits
from ....sim.facts.signature import parse_signature
from ....sim.setting_groups import unflatten_settings
from .bench import Bench, RecordedOp, settings_as_written
from .gpu_entry import kernels_text
from .gpu_fit import GpuFit, with_cold_start
from .gpu_rows import GpuRows
from .round_trip import RoundTrip

Floats = NDArray[np.float64]
Entry = Callable[[str], str]


def gpu_round_trip(
    bench: Bench, rows: GpuRows, fit: GpuFit, entry: Entry
) -> tuple[RoundTrip, list[str]]:
    """Simulate recorded ops of fitted families with the new entry; also one line per family.

    An entry describes training steps, in which other kernels run in between. Ops recorded alone are
    simulated without the cold-start penalty.

    Parameters
    ----------
    entry : function from the file of kernel families to the text of a catalog file with ``fitted``
    """
    at = np.flatnonzero(np.isin(rows.families, list(fit.errors)) & fit.model.has_peak(rows))
    texts = [rows.texts[i] for i in at.tolist()]
    after = rows.after[at]
    simulated = np.empty(len(at))
    alone, in_place = np.flatnonzero(~after), np.flatnonzero(after)
    with TemporaryDirectory() as folder:
        if len(alone):
            some = [RecordedOp(texts[i]) for i in alone.tolist()]
            simulated[alone] = _simulated_alone(bench, some, fit, Path(folder) / "alone.json")
        if len(in_place):
            file = Path(folder) / "families.json"
            file.write_text(kernels_text(fit.model.families))
            (Path(folder) / "fitted.yaml").write_text(entry(str(file)))
            some = [RecordedOp(texts[i]) for i in in_place.tolist()]
            part = {"model": "fitted"}
            simulated[in_place] = bench.simulated_seconds(some, part, [Path(folder)])
    fitted = fit.model.seconds(texts, after)
    own = float(np.median([e.error for e in fit.errors.values()]))
    moved = np.array([float(parse_signature(t).bytes) for t in texts])
    back = RoundTrip(tuple(texts), moved, fitted, simulated, rows.seconds[at], own)
    return back, [
        f"{len(at)} ops run with the entry: {three_digits(100 * back.simulation_error)} % from the "
        "fit at most; from the recording, by family:",
        *_lines_of_families(rows, at, simulated),
    ]


def _simulated_alone(bench: Bench, ops: list[RecordedOp], fit: GpuFit, file: Path) -> Floats:
    """Simulated time of each op in s, shape (n,), without cold-start penalties."""
    model = with_cold_start(fit.model, 0.0)
    file.write_text(kernels_text(model.families))
    part = settings_as_written("gpu", {**unflatten_settings(model.settings), "kernels": str(file)})
    return bench.simulated_seconds(ops, part)


def _lines_of_families(rows: GpuRows, at: NDArray[np.int_], simulated: Floats) -> list[str]:
    """Lines with the error of simulated ops against the recording, by family and context."""
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
