"""Calibration of a model: fitted parameters, their intervals, and held-out errors.

Complete groups of rows are held out: a validation set for every attempt, and a test set that is
scored once. Parameters that the data do not determine keep their value. Baselines are interpolation
between measured points, and the nearest point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...sim.errors import BackendError
from .held_out_errors import HeldOutErrors
from .held_out_rows import CalibrationRows
from .identifiability import FittedParameter, Model, Parameter, identify_parameters
from .model_selection import GROUPS_A_PARAMETER
from .nearest_rows import model_free_predictions
from .parameter_search import SEED, SHARE, PredictionErrors

MAX_INTERVAL_RATIO = 3.0  # larger ratio of interval ends: parameter not determined
DRAWS = 60


@dataclass(frozen=True)
class Calibration:
    """Result of a fit: fitted parameters, and prediction errors on fitted and held-out rows.

    Parameters
    ----------
    parameters : all parameters, including those that kept their value
    groups : numbers of groups that are fitted, held out, and in the final test
    fitted : errors on the fitted rows
    blind, held, interpolated, nearest : errors on held-out rows: ``blind`` before the fit, ``held``
        after it, ``interpolated`` and ``nearest`` of the two baselines
    final : errors on the final test rows; None if there are none
    judged, once : signed errors with their groups: ``judged`` of the held-out rows, ``once`` of the
        final test rows
    """

    parameters: tuple[FittedParameter, ...]
    groups: tuple[int, int, int]
    fitted: PredictionErrors
    blind: PredictionErrors
    held: PredictionErrors
    interpolated: PredictionErrors
    nearest: PredictionErrors
    final: PredictionErrors | None
    judged: HeldOutErrors
    once: HeldOutErrors

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the parameters that the data do not determine."""
        return tuple(p.name for p in self.parameters if p.kept)

    @property
    def values(self) -> dict[str, float]:
        """Values of all parameters by name."""
        return {p.name: p.value for p in self.parameters}


def calibrate(
    model: Model,
    parameters: Sequence[Parameter],
    rows: CalibrationRows,
    *,
    share: float = SHARE,
    seed: str = SEED,
    draws: int = DRAWS,
    max_interval_ratio: float = MAX_INTERVAL_RATIO,
) -> Calibration:
    """Fit a model's parameters to measured rows, and score it on held-out rows.

    Parameters
    ----------
    model : function that returns op times in s, from the parameters by name and the ops
    share : fraction of the groups to hold out
    draws : number of bootstrap refits for the intervals
    max_interval_ratio : largest ratio of the ends of a parameter's interval; a parameter with a
        wider interval keeps its value. Infinite: every parameter is fitted

    Raises
    ------
    BackendError
        Fewer than five groups per parameter, or no group is held out.

    Examples
    --------
    >>> from foretrace.sim.facts.ops import Ops
    >>> ops = Ops.of(bytes=[2.0**k for k in range(30)], signature=range(30),
    ...     signatures=[f"copy:h2h uint8[{2**k}]" for k in range(30)])
    >>> def line(p, ops):
    ...     return p["latency"] + ops.bytes / p["bandwidth"]
    >>> rows = CalibrationRows(ops, line({"latency": 2e-6, "bandwidth": 1e9}, ops),
    ...     tuple(map(str, range(30))), ops.bytes)
    >>> found = calibrate(line, [Parameter("latency", 1e-6), Parameter("bandwidth", 3e9)], rows,
    ...     draws=5)
    >>> {name: float(f"{value:.3g}") for name, value in found.values.items()}
    {'latency': 2e-06, 'bandwidth': 1000000000.0}
    >>> found.held.worst < 0.001 < found.blind.median
    True
    """
    held_mask, final = rows.held_out_masks(share, seed)
    fitted_rows = rows.take(np.flatnonzero(~held_mask & ~final))
    held_rows, final_rows = rows.take(np.flatnonzero(held_mask)), rows.take(np.flatnonzero(final))
    counts = (len(set(fitted_rows.groups)), len(set(held_rows.groups)), len(set(final_rows.groups)))
    _check_group_counts(parameters, counts)
    values, intervals = identify_parameters(
        model, parameters, fitted_rows, draws, seed, max_interval_ratio
    )
    before = {p.name: p.value for p in parameters}

    def errors(of: dict[str, float], on: CalibrationRows) -> PredictionErrors:
        return PredictionErrors.of(model(of, on.ops), on.seconds)

    between, closest = model_free_predictions(fitted_rows, held_rows.ops)
    return Calibration(
        tuple(FittedParameter(n, before[n], values[n], intervals.get(n)) for n in before),
        counts,
        errors(values, fitted_rows),
        errors(before, held_rows),
        errors(values, held_rows),
        PredictionErrors.of(between, held_rows.seconds),
        PredictionErrors.of(closest, held_rows.seconds),
        errors(values, final_rows) if len(final_rows.groups) else None,
        *(HeldOutErrors.of(model(values, on.ops), on) for on in (held_rows, final_rows)),
    )


def _check_group_counts(parameters: Sequence[Parameter], counts: tuple[int, int, int]) -> None:
    """Raise an error for fewer than five fitted groups per parameter, or no held-out group.

    Parameters
    ----------
    counts : number of groups that are fitted, held out, and in the final test
    """
    fitted_rows, held_rows, _ = counts
    wanted = GROUPS_A_PARAMETER * len(parameters)
    if fitted_rows < wanted:
        raise BackendError(
            f"fit: {len(parameters)} parameters need {wanted} fitted groups, but there are "
            f"{fitted_rows}; measure more groups, or fit fewer parameters"
        )
    if not held_rows:
        raise BackendError("fit: no group is held out; measure more groups, or hold out more")
