"""A model's parameters from measurements, with what there is to be said about them.

Whole groups are held out, some to judge every attempt by, some to judge the last one, once.
What the data cannot tell keeps the value that it had.  The fit stands beside what one has without
a model: interpolation between the measured points, and the nearest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...sim.errors import BackendError
from .held_out_errors import Judged
from .held_out_rows import Rows
from .identifiability import Fitted, Model, Parameter, identified
from .model_selection import GROUPS_A_PARAMETER
from .nearest_rows import without_model
from .parameter_search import SEED, SHARE, Errors

TOLD = 3.0  # a parameter is known if the ends of its interval are within this factor
DRAWS = 60


@dataclass(frozen=True)
class Calibration:
    """The result of a fit: parameters, intervals, held-out errors.

    Parameters
    ----------
    parameters : all of them, the kept ones too
    groups : how many were fitted on, held out, and scored once
    fitted : errors on the rows that were fitted
    blind, held, interpolated, nearest : on those that were held out: before the fit, after it,
        and of what needs no model
    final : on those that were scored once; None for no such rows
    judged, once : errors of the held-out rows, and of those scored once, with their groups
    """

    parameters: tuple[Fitted, ...]
    groups: tuple[int, int, int]
    fitted: Errors
    blind: Errors
    held: Errors
    interpolated: Errors
    nearest: Errors
    final: Errors | None
    judged: Judged
    once: Judged

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the parameters that the data cannot tell."""
        return tuple(p.name for p in self.parameters if p.kept)

    @property
    def values(self) -> dict[str, float]:
        """Values of all parameters by name."""
        return {p.name: p.value for p in self.parameters}


def calibrate(
    model: Model,
    parameters: Sequence[Parameter],
    rows: Rows,
    *,
    share: float = SHARE,
    seed: str = SEED,
    draws: int = DRAWS,
    told: float = TOLD,
) -> Calibration:
    """Fit a model, and say how well.

    Parameters
    ----------
    model : seconds of ops, given the parameters by name
    share : of the groups, to hold out
    draws : refits on resampled groups, for the intervals
    told : by which factor the ends of a parameter's interval may differ, else it is kept; infinite
        for parameters that ``best`` chose by what they predict

    Raises
    ------
    BackendError
        Fewer than five groups a parameter, or none to judge by.

    Examples
    --------
    >>> from foretrace.sim.ops import Ops
    >>> ops = Ops.of(bytes=[2.0**k for k in range(30)], signature=range(30),
    ...     signatures=[f"copy:h2h uint8[{2**k}]" for k in range(30)])
    >>> def line(p, ops):
    ...     return p["latency"] + ops.bytes / p["bandwidth"]
    >>> rows = Rows(ops, line({"latency": 2e-6, "bandwidth": 1e9}, ops),
    ...     tuple(map(str, range(30))), ops.bytes)
    >>> found = calibrate(line, [Parameter("latency", 1e-6), Parameter("bandwidth", 3e9)], rows,
    ...     draws=5)
    >>> {name: float(f"{value:.3g}") for name, value in found.values.items()}
    {'latency': 2e-06, 'bandwidth': 1000000000.0}
    >>> found.held.worst < 0.001 < found.blind.median
    True
    """
    aside, final = rows.split(share, seed)
    near = rows.take(np.flatnonzero(~aside & ~final))
    judge, last = rows.take(np.flatnonzero(aside)), rows.take(np.flatnonzero(final))
    counts = (len(set(near.groups)), len(set(judge.groups)), len(set(last.groups)))
    _enough(parameters, counts)
    values, intervals = identified(model, parameters, near, draws, seed, told)
    before = {p.name: p.value for p in parameters}

    def errors(of: dict[str, float], on: Rows) -> Errors:
        return Errors.of(model(of, on.ops), on.seconds)

    between, closest = without_model(near, judge.ops)
    return Calibration(
        tuple(Fitted(n, before[n], values[n], intervals.get(n)) for n in before),
        counts,
        errors(values, near),
        errors(before, judge),
        errors(values, judge),
        Errors.of(between, judge.seconds),
        Errors.of(closest, judge.seconds),
        errors(values, last) if len(last.groups) else None,
        *(Judged.of(model(values, on.ops), on) for on in (judge, last)),
    )


def _enough(parameters: Sequence[Parameter], counts: tuple[int, int, int]) -> None:
    """Refuse to fit more than the data can carry."""
    near, judge, _ = counts
    wanted = GROUPS_A_PARAMETER * len(parameters)
    if near < wanted:
        raise BackendError(
            f"fit: {len(parameters)} parameters need {wanted} groups to be fitted on, there are "
            f"{near}; measure more of them, or fit fewer parameters"
        )
    if not judge:
        raise BackendError("fit: no group is held out to judge by; measure more, or hold out more")
