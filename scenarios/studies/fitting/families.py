"""Fit of op families to recordings: a linear cost model each, and corrections of single ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ....models.calibration.calibrate import Calibration, calibrate
from ....models.calibration.held_out_rows import CalibrationRows
from ....models.calibration.identifiability import Model, Parameter
from ....models.calibration.model_selection import GROUPS_A_PARAMETER, select_parameters
from ....models.calibration.parameter_search import fit_parameters
from ....models.compute.demand import demand, family, op_name
from ....models.compute.families import FittedLine
from ....sim.facts.ops import Ops
from .recording_rows import MeasuredRows


@dataclass(frozen=True)
class OpCorrections:
    """Corrections of single ops of a family.

    Parameters
    ----------
    factors : factor on the family's time without its start-up time, by op name
    launches : start-up time in s, by op name
    """

    factors: Mapping[str, float] = field(default_factory=dict)
    launches: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FittedFamily:
    """Fitted parameters of an op family, and corrections of single ops."""

    calibration: Calibration
    own: OpCorrections


def fit_families(
    data: MeasuredRows, holdout: str, draws: int = 20
) -> dict[str, FittedFamily | str]:
    """Fit every op family that has enough groups; the result of another one is the reason, as text.

    The terms of a family's cost model are those with the smallest error in five-fold
    cross-validation on the fitted rows.

    Parameters
    ----------
    draws : number of refits for the intervals of parameters
    """
    names = [family(t) for t in data.texts]
    found: dict[str, FittedFamily | str] = {}
    for name in dict.fromkeys(names):
        if name in NO_FAMILY:
            found[name] = NO_FAMILY[name]
            continue
        rows = data.only([n == name for n in names]).rows(holdout)
        chosen, own = _fit_alternately(rows)
        if not chosen or not rows.held_out_masks()[0].any():
            groups = len(set(rows.groups))
            found[name] = (
                f"{groups} groups of {holdout} are too few to fit and to hold out; record more"
            )
            continue
        model = family_model(own)
        found[name] = FittedFamily(
            calibrate(model, chosen, rows, draws=draws, max_interval_ratio=np.inf), own
        )
    return found


NO_FAMILY = {
    "host:chase": "latency of dependent loads, which is not linear in bytes",
    "compute:graph": "a sequence of ops, not one op family",
    "compute:step": "a complete step, not one op family",
}


def _fit_alternately(rows: CalibrationRows) -> tuple[list[Parameter], OpCorrections]:
    """Parameters of a family and corrections of its ops, fitted alternately."""
    near, own = rows.rows_to_fit(), OpCorrections()
    chosen: list[Parameter] = []
    for _ in range(2):
        chosen = select_parameters(family_model(own), _term_choices(near), rows)
        if not chosen:
            break
        own = fit_corrections(
            near, chosen, len(set(near.groups)) // GROUPS_A_PARAMETER - len(chosen)
        )
        if not own.factors:
            break
    return chosen, own


TURNS = 4
GUESS = {
    "flop_rate": 5e10, "byte_rate": 3e10, "launch": 2e-6, "ragged_rate": 1e10, "piece": 1e-8,
    "cache": 1e7, "rate_beyond": 2e10, "clash_rate": 1e9,
}  # fmt: skip
NEEDS = {
    "flop_rate": 0, "byte_rate": 1, "cache": 2, "piece": 3, "ragged_rate": 4,
    "clash_rate": 5,
}  # fmt: skip


FURTHER = (
    ("byte_rate",), ("launch",), ("ragged_rate",), ("piece",), ("clash_rate",),
    ("cache", "rate_beyond"),
)  # fmt: skip


def _term_choices(near: CalibrationRows) -> list[list[Parameter]]:
    """Possible sets of terms of a family: arithmetic or else bytes, with any of the others."""
    asked = op_demands(near.ops.signatures)[near.ops.signature]
    there = (asked > 0).sum(axis=0) > 0
    first = "flop_rate" if there[NEEDS["flop_rate"]] else "byte_rate"
    more = [terms for terms in FURTHER if first not in terms and there[NEEDS.get(terms[0], 1)]]
    found = []
    for count in range(len(more) + 1):
        for several in combinations(more, count):
            names = [first, *(name for terms in several for name in terms)]
            found.append([Parameter(n, 0.0, GUESS[n]) for n in names])
    return found


def fit_corrections(
    near: CalibrationRows, chosen: Sequence[Parameter], budget: int
) -> OpCorrections:
    """Factor and start-up time of single ops, relative to the family's line.

    Fitted alternately with the line, on the same rows. Each number counts as a parameter: a factor
    needs five groups of the op, a start-up time five more. Ops with most groups come first.

    Parameters
    ----------
    chosen : parameters of the family's line
    budget : largest number of corrections
    """
    names = [op_name(near.ops.signature_text(i)) for i in range(len(near.ops))]
    many = {n: len({g for g, m in zip(near.groups, names, strict=True) if m == n}) for n in names}
    able, own = _correction_counts_by_op(many, budget), OpCorrections()
    asked = op_demands(near.ops.signatures)[near.ops.signature]
    for _ in range(TURNS if able else 0):
        line = _fit_family_line(near, chosen, own)
        busy = line.seconds(asked) - line.launch
        mine = {n: np.array([name == n for name in names]) for n in able}
        each = {
            n: _factor_and_start_of_op(busy[mine[n]], near.seconds[mine[n]], line, able[n])
            for n in able
        }
        launches = {n: start for n, (_, start) in each.items() if able[n] > 1}
        own = OpCorrections({n: factor for n, (factor, _) in each.items()}, launches)
    return own


def _correction_counts_by_op(groups_by_op: Mapping[str, int], budget: int) -> dict[str, int]:
    """Number of corrections of each op, by op name.

    The op with most groups has none, since the family's line describes it.
    """
    able: dict[str, int] = {}
    for name in sorted(groups_by_op, key=lambda n: -groups_by_op[n])[1:]:
        wanted = min(groups_by_op[name] // GROUPS_A_PARAMETER, 2, budget - sum(able.values()))
        if wanted > 0:
            able[name] = wanted
    return able


def _factor_and_start_of_op(
    busy: NDArray[np.float64], seconds: NDArray[np.float64], line: FittedLine, numbers: int
) -> tuple[float, float]:
    """Factor and start-up time of one op, given the family's line.

    Tries start-up times around the family's and factors that match a row exactly; returns the pair
    with the smallest mean logarithmic error.
    """
    starts = line.launch * (AROUND if numbers > 1 else np.ones(1))
    busy = np.maximum(busy, 1e-12)
    pairs = []
    for start in starts.tolist():
        factors = np.maximum((seconds - start) / busy, 0.1 * seconds / busy)
        each = np.log((start + factors[:, None] * busy) / seconds)
        errors = np.abs(each).mean(axis=1)
        k = int(np.argmin(errors))
        pairs.append((float(errors[k]), float(factors[k]), start))
    _, factor, begin = min(pairs)
    return factor, begin


AROUND = 2.0 ** np.arange(-2, 4.25, 0.25)  # of a family's start: an op's own


def _fit_family_line(
    near: CalibrationRows, chosen: Sequence[Parameter], corrections: OpCorrections
) -> FittedLine:
    """Cost model (fitted line) of a family, with the given corrections of its ops held fixed."""
    free, model = [p.name for p in chosen], family_model(corrections)

    def predict(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return model(dict(zip(free, values.tolist(), strict=True)), near.ops)

    found = fit_parameters(predict, [p.start for p in chosen], near.seconds)
    return FittedLine.of(dict(zip(free, found.tolist(), strict=True)))


@lru_cache(maxsize=8)
def op_demands(signatures: tuple[str, ...]) -> NDArray[np.float64]:
    """Demands of each op, shape (n, 6)."""
    return np.array([demand(s) for s in signatures])


def family_model(corrections: OpCorrections) -> Model:
    """Function that predicts op times in s from the parameters of a family, and its ops.

    Parameters
    ----------
    corrections : corrections of single ops, held fixed
    """
    kept: dict[tuple[str, ...], tuple[NDArray[np.float64], ...]] = {}

    def each(signatures: tuple[str, ...]) -> tuple[NDArray[np.float64], ...]:
        if signatures not in kept:
            names = [op_name(s) for s in signatures]
            factors = np.array([corrections.factors.get(n, 1.0) for n in names])
            kept[signatures] = (
                factors,
                np.array([corrections.launches.get(n, np.nan) for n in names]),
            )
        return kept[signatures]

    def seconds(p: dict[str, float], ops: Ops) -> NDArray[np.float64]:
        factor, start = (x[ops.signature] for x in each(ops.signatures))
        line = FittedLine.of(p)
        begin = np.where(np.isnan(start), line.launch, start)
        asked = op_demands(ops.signatures)[ops.signature]
        return np.maximum(line.seconds(asked, factor, begin), 1e-12)

    return seconds
