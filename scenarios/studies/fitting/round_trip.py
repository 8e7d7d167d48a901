"""Round trip of a fit: simulate the recorded ops with the new catalog entry, and compare.

A run must agree with the fit, since both use the same models; it is compared with the recording
too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....models.calibration.parameter_search import PredictionErrors
from ....models.compute.demand import family
from ....reports.numbers import three_digits
from ....sim.errors import ScenarioError
from ....sim.facts.signature import parse_signature
from .bench import Bench, RecordedOp
from .families import FittedFamily, family_model

Floats = NDArray[np.float64]
LEAST, SAME = 0.001, 0.01  # digits of an entry; the most that a run may differ from its fit
BAND = 64.0  # from the least to the largest bytes of a line


@dataclass(frozen=True)
class RoundTrip:
    """Recorded ops with their fitted, simulated and measured times.

    Parameters
    ----------
    texts : signature of each op, length n
    bytes : number of bytes of each op, shape (n,)
    fitted, simulated, measured : times in s, shape (n,) each
    own : held-out error of the fit, as a fraction
    """

    texts: tuple[str, ...]
    bytes: Floats
    fitted: Floats
    simulated: Floats
    measured: Floats
    own: float

    @property
    def simulation_error(self) -> float:
        """Largest relative difference between simulation and fit."""
        return float(np.abs(self.simulated / self.fitted - 1).max())

    @property
    def bar(self) -> float:
        """Limit of ``simulation_error``: the held-out error of the fit, but at most one percent."""
        return min(max(self.own, LEAST), SAME)

    def require_simulation_equals_fit(self) -> None:
        """Raise an error if the simulation with the new entry differs from the fit.

        Raises
        ------
        ScenarioError
            The difference exceeds the error of the fit, or one percent.

        Examples
        --------
        >>> one = np.array([1e-6])
        >>> RoundTrip(("copy:h2c uint8[64]",), np.array([64.0]), one, 2 * one, one, 0.001
        ...     ).require_simulation_equals_fit()
        Traceback (most recent call last):
        foretrace.sim.errors.ScenarioError: fit: copy:h2c uint8[64] takes 2 us in a run with the ...
        """
        if self.simulation_error <= self.bar:
            return
        worst = int(np.abs(self.simulated / self.fitted - 1).argmax())
        run, said = (1e6 * x[worst] for x in (self.simulated, self.fitted))
        raise ScenarioError(
            f"fit: {self.texts[worst]} takes {run:.4g} us in a run with the new entry, and "
            f"{said:.4g} us by the fit, so nothing is written; fit another kind of part, or give "
            "the machine with --machine"
        )

    def lines(self) -> list[str]:
        """Lines of the report: simulation against fit, against the recording, and by size."""
        errors = PredictionErrors.of(self.simulated, self.measured)
        found = [
            f"{len(self.texts)} ops run with the entry: "
            f"{three_digits(100 * self.simulation_error)} % from the fit at most; from the "
            f"recording median {errors.median:.1%}, worst {errors.worst:.1%}, "
            f"bias {errors.bias:+.1%}"
        ]
        band = np.floor(np.log(np.maximum(self.bytes, 1.0)) / np.log(BAND) + 1e-9)
        for b in np.unique(band).tolist():
            at = band == b
            error = float(np.median(self.simulated[at] / self.measured[at] - 1))
            least, most = self.bytes[at].min(), self.bytes[at].max()
            found.append(f"{least:.4g} to {most:.4g} B: {error:+.1%} ({int(at.sum())} ops)")
        return found

    def to_dict(self) -> dict[str, Any]:
        """The round trip as plain data."""
        rows = zip(self.texts, self.fitted, self.simulated, self.measured, strict=True)
        names = ("signature", "fitted", "simulated", "measured")
        return {
            "apart": self.simulation_error,
            "bar": self.bar,
            "errors": str(PredictionErrors.of(self.simulated, self.measured)),
            "lines": self.lines(),
            "ops": [
                dict(zip(names, (t, *map(float, rest)), strict=True)) for t, *rest in rows
            ],
        }  # fmt: skip


def part_round_trip(
    bench: Bench, ops: Sequence[RecordedOp], entry: str, name: str, fitted: Floats,
    measured: Floats, held_out_error: float,
) -> RoundTrip:  # fmt: skip
    """Simulate recorded ops with a fitted catalog entry, next to their fitted and measured times.

    Parameters
    ----------
    entry : text of a catalog file with the entry
    name : name of the entry
    fitted, measured : times of each op in s, shape (n,) each
    held_out_error : held-out error of the fit
    """
    with TemporaryDirectory() as folder:
        (Path(folder) / "fitted.yaml").write_text(entry)
        simulated = bench.simulated_seconds(ops, {"model": name}, [Path(folder)])
    return RoundTrip(_texts(ops), _operand_bytes(ops), fitted, simulated, measured, held_out_error)


def families_round_trip(
    bench: Bench, ops: Sequence[RecordedOp], file: str, parts: Mapping[str, FittedFamily | str],
    measured: Floats,
) -> RoundTrip | None:  # fmt: skip
    """Round trip of a file of op families, for the ops of fitted families; None if there are none.

    Parameters
    ----------
    file : text that the backend ``families`` reads
    measured : time of each op in s, shape (n,)
    """
    mine = {n: f for n, f in parts.items() if isinstance(f, FittedFamily)}
    names = [family(o.text) for o in ops]
    kept = [i for i, n in enumerate(names) if n in mine]
    if not kept:
        return None
    some = [ops[i] for i in kept]
    table = bench.placed_ops(some, {})
    fitted = np.empty(len(some))
    for name, found in mine.items():
        rows = np.flatnonzero([names[i] == name for i in kept])
        fitted[rows] = family_model(found.own)(
            found.calibration.values, table.take_with_placement(rows)
        )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ops.json"
        path.write_text(file)
        simulated = bench.simulated_seconds(some, {}, use="families", file=str(path))
    own = float(np.median([f.calibration.held.median for f in mine.values()]))
    return RoundTrip(_texts(some), _operand_bytes(some), fitted, simulated, measured[kept], own)


def _texts(ops: Sequence[RecordedOp]) -> tuple[str, ...]:
    return tuple(o.text for o in ops)


def _operand_bytes(ops: Sequence[RecordedOp]) -> Floats:
    return np.array([float(parse_signature(o.text).bytes) for o in ops])
