"""Model selection: the parameter list with the smallest cross-validated error."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from .held_out_rows import CalibrationRows
from .identifiability import Model, Parameter, best_values
from .parameter_search import ROUGH, SEED, SHARE, ParameterSearch

GROUPS_A_PARAMETER = 5
WORTH = 0.02  # smallest relative improvement that justifies a parameter
FOLDS = 5


def select_parameters(
    model: Model,
    choices: Sequence[Sequence[Parameter]],
    rows: CalibrationRows,
    *,
    share: float = SHARE,
    seed: str = SEED,
) -> list[Parameter]:
    """Parameter list with the smallest cross-validated error; a later list must be 2 % better.

    It uses fitted rows only, in five folds of groups. A list may have one parameter per five
    groups; longer lists are skipped.

    Examples
    --------
    >>> from foretrace.sim.facts.ops import Ops
    >>> size = 2.0 ** np.arange(40)
    >>> ops = Ops.of(bytes=size)
    >>> rows = CalibrationRows(ops, size / 1e9, tuple(map(str, range(40))))
    >>> def line(p, ops):
    ...     return 1e-12 + p.get("start", 0) + ops.bytes * p.get("cost", 0)
    >>> start, cost = Parameter("start", 0.0), Parameter("cost", 0.0, 3e-9)
    >>> [p.name for p in select_parameters(line, [[start], [cost], [start, cost]], rows)]
    ['cost']
    """
    rows_fitted = rows.rows_to_fit(share, seed)
    room = len(set(rows_fitted.groups)) // GROUPS_A_PARAMETER
    chosen: list[Parameter] = []
    least = np.inf
    for choice in choices:
        if len(choice) <= room:
            errors = cross_validated_errors(model, choice, rows_fitted, seed=seed)
            error = float(np.mean(np.abs(errors)))
            if error < least * (1 - WORTH):
                chosen, least = list(choice), error
    return chosen


def cross_validated_errors(
    model: Model, parameters: Sequence[Parameter], rows: CalibrationRows, *, seed: str = SEED,
    search: ParameterSearch = ROUGH,
) -> NDArray[np.float64]:  # fmt: skip
    """ln(predicted / measured) of each row from a fit to the other four folds, shape (n,).

    Examples
    --------
    >>> from foretrace.sim.facts.ops import Ops
    >>> ops = Ops.of(bytes=2.0 ** np.arange(20))
    >>> rows = CalibrationRows(ops, ops.bytes / 1e9, tuple(map(str, range(20))))
    >>> model = lambda p, ops: ops.bytes / p["rate"]
    >>> float(np.abs(cross_validated_errors(model, [Parameter("rate", 3e9)], rows)).max().round(2))
    0.0
    """
    fold = fold_numbers(rows.groups, seed)
    errors = np.empty(len(fold))
    for k in range(FOLDS):
        rows_fitted, judge = (rows.take(np.flatnonzero(x)) for x in (fold != k, fold == k))
        if len(rows_fitted.groups):
            values = best_values(
                model, parameters, {}, rows_fitted, [p.start for p in parameters], search
            )
            named = dict(zip((p.name for p in parameters), values, strict=True))
            errors[fold == k] = np.log(model(named, judge.ops) / judge.seconds)
    return errors


def fold_numbers(groups: Sequence[str], seed: str = SEED) -> NDArray[np.int64]:
    """Fold of each row, 0 to 4, by the order of group-name hashes, shape (n,).

    >>> fold_numbers(["a", "b", "a"]).tolist()
    [0, 1, 0]
    """
    order = sorted(set(groups), key=lambda g: sha256(f"{seed}:fold:{g}".encode()).digest())
    number = {g: i % FOLDS for i, g in enumerate(order)}
    return np.array([number[g] for g in groups], np.int64)
