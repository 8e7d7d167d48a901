"""Model selection: the parameters that predict best what they were not fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from .held_out_rows import Rows
from .identifiability import Model, Parameter, values_of
from .parameter_search import ROUGH, SEED, SHARE

GROUPS_A_PARAMETER = 5
WORTH = 0.02  # relative, of an error: less is not worth a parameter
FOLDS = 5


def best(
    model: Model,
    choices: Sequence[Sequence[Parameter]],
    rows: Rows,
    *,
    share: float = SHARE,
    seed: str = SEED,
) -> list[Parameter]:
    """The list of parameters that predicts best; a later one has to be clearly better.

    Looks only at the rows that are fitted: the error on each fifth of their groups, of a fit to
    the others; a list later in the order has to be better by 2 %.  A list may have one parameter
    for five groups.

    Examples
    --------
    >>> from foretrace.sim.ops import Ops
    >>> size = 2.0 ** np.arange(40)
    >>> ops = Ops.of(bytes=size)
    >>> rows = Rows(ops, size / 1e9, tuple(map(str, range(40))))
    >>> def line(p, ops):
    ...     return 1e-12 + p.get("start", 0) + ops.bytes * p.get("cost", 0)
    >>> start, cost = Parameter("start", 0.0), Parameter("cost", 0.0, 3e-9)
    >>> [p.name for p in best(line, [[start], [cost], [start, cost]], rows)]
    ['cost']
    """
    near = rows.fitted(share, seed)
    room = len(set(near.groups)) // GROUPS_A_PARAMETER
    chosen: list[Parameter] = []
    least = np.inf
    for choice in choices:
        if len(choice) <= room:
            error = across(model, choice, near, seed)
            if error < least * (1 - WORTH):
                chosen, least = list(choice), error
    return chosen


def across(model: Model, parameters: Sequence[Parameter], rows: Rows, seed: str = SEED) -> float:
    """Mean error of logarithms on each fifth of the groups, of a fit to the others.

    Examples
    --------
    >>> from foretrace.sim.ops import Ops
    >>> ops = Ops.of(bytes=2.0 ** np.arange(20))
    >>> rows = Rows(ops, ops.bytes / 1e9, tuple(map(str, range(20))))
    >>> round(across(lambda p, ops: ops.bytes / p["rate"], [Parameter("rate", 3e9)], rows), 2)
    0.0
    """
    fold = folds(rows.groups, seed)
    errors = np.empty(len(fold))
    for k in range(FOLDS):
        near, judge = (rows.take(np.flatnonzero(x)) for x in (fold != k, fold == k))
        if len(near.groups):
            values = values_of(model, parameters, {}, near, [p.start for p in parameters], ROUGH)
            told = dict(zip((p.name for p in parameters), values, strict=True))
            errors[fold == k] = np.log(model(told, judge.ops) / judge.seconds)
    return float(np.mean(np.abs(errors)))


def folds(groups: Sequence[str], seed: str = SEED) -> NDArray[np.int64]:
    """Cross-validation fold (of five) of each row, by the order of the hashes of group names.

    >>> folds(["a", "b", "a"]).tolist()
    [0, 1, 0]
    """
    order = sorted(set(groups), key=lambda g: sha256(f"{seed}:fold:{g}".encode()).digest())
    number = {g: i % FOLDS for i, g in enumerate(order)}
    return np.array([number[g] for g in groups], np.int64)
