"""A model's parameters from measurements, with what there is to be said about them.

Whole groups are held out, some to judge every attempt by, some to judge the last one, once.
What the data cannot tell keeps the value that it had.  The fit stands beside what one has without
a model: interpolation between the measured points, and the nearest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from ..sim.errors import BackendError
from ..sim.ops import Ops
from .compute.table import Table
from .fit import SEED, SHARE, Errors, fit, held_out

FINAL = 0.15  # share of the groups that is scored once, where there are
MANY = 20
GROUPS_A_PARAMETER = 5
TOLD = 3.0  # a parameter is known if the ends of its interval are within this factor
DRAWS = 60
AS_GOOD = 0.02  # relative, of a loss
ASIDE = 0.7  # of a logarithm: where refits start from, around the fitted values
LEVEL = 0.9

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Model = Callable[[dict[str, float], Ops], Floats]


@dataclass(frozen=True)
class Parameter:
    """One number that a fit may change.

    Parameters
    ----------
    name : as the catalog has it
    value : before the fit; 0 for a cost that nobody stated
    guess : where the search starts if the value is 0
    """

    name: str
    value: float
    guess: float = 1e-6

    @property
    def start(self) -> float:
        """Where the search starts."""
        return self.value if self.value > 0 else self.guess


@dataclass(frozen=True)
class Rows:
    """What was measured.

    Parameters
    ----------
    ops : Ops
        With signatures.
    seconds : (n,) s
    groups : (n,) name of the group that each row is held out with
    size : (n,) what orders the groups; the largest is always held out.  Empty: none is larger
    """

    ops: Ops
    seconds: Floats
    groups: tuple[str, ...]
    size: Floats = field(default_factory=lambda: np.empty(0))

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """Those rows."""
        groups = tuple(self.groups[i] for i in rows.tolist())
        return Rows(self.ops.take(rows), self.seconds[rows], groups)

    def fitted(self, share: float = SHARE, seed: str = SEED) -> Rows:
        """Those that are neither held out nor scored once."""
        aside, final = self.split(share, seed)
        return self.take(np.flatnonzero(~aside & ~final))

    def split(self, share: float = SHARE, seed: str = SEED) -> tuple[Bools, Bools]:
        """Which rows are held out, and which are scored once, by hashes of their groups' names.

        Examples
        --------
        >>> rows = Rows(Ops.of(bytes=range(1, 41)), np.ones(40), tuple(map(str, range(40))),
        ...     np.arange(40.0))
        >>> aside, final = rows.split()
        >>> int(aside.sum()), int(final.sum()), bool(aside[39]), bool((aside & final).any())
        (13, 7, True, False)
        """
        last = np.zeros(len(self.groups), bool)
        if len(self.size):
            largest = self.groups[int(np.argmax(self.size))]
            last = np.array([g == largest for g in self.groups])
        share_once = FINAL if len(set(self.groups)) >= MANY else 0.0
        final = held_out(self.groups, share=share_once, seed=f"{seed}:final") & ~last
        return (held_out(self.groups, share=share, seed=seed) | last) & ~final, final


@dataclass(frozen=True)
class Fitted:
    """A parameter after the fit.

    Parameters
    ----------
    name : as the catalog has it
    before, value : what it was, what it is
    interval : 90 % of the refits on resampled groups lie in it; None where it was kept
    """

    name: str
    before: float
    value: float
    interval: tuple[float, float] | None

    @property
    def kept(self) -> bool:
        """Whether the data could not tell it."""
        return self.interval is None


@dataclass(frozen=True)
class Calibration:
    """What came of a fit.

    Parameters
    ----------
    parameters : all of them, the kept ones too
    groups : how many were fitted on, held out, and scored once
    fitted : errors on the rows that were fitted
    blind, held, interpolated, nearest : on those that were held out: before the fit, after it,
        and of what needs no model
    final : on those that were scored once; None for no such rows
    judged, once : errors of the held-out rows, and of those scored once, one by one
    """

    parameters: tuple[Fitted, ...]
    groups: tuple[int, int, int]
    fitted: Errors
    blind: Errors
    held: Errors
    interpolated: Errors
    nearest: Errors
    final: Errors | None
    judged: Floats = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    once: Floats = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the parameters that the data cannot tell."""
        return tuple(p.name for p in self.parameters if p.kept)

    @property
    def values(self) -> dict[str, float]:
        """All parameters."""
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
    values, intervals = _identified(model, parameters, near, draws, seed, told)
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
        *(np.asarray(model(values, on.ops) / on.seconds - 1) for on in (judge, last)),
    )


def best(
    model: Model,
    choices: Sequence[Sequence[Parameter]],
    rows: Rows,
    *,
    share: float = SHARE,
    seed: str = SEED,
) -> list[Parameter]:
    """Of several lists of parameters, the smaller ones first, the one that predicts best.

    Looks only at the rows that are fitted: the error on each fifth of their groups, of a fit to
    the others; a list later in the order has to be better by 2 %.  A list may have one parameter
    for five groups.

    Examples
    --------
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


WORTH = 0.02  # relative, of an error: less is not worth a parameter
FOLDS = 5


def across(model: Model, parameters: Sequence[Parameter], rows: Rows, seed: str = SEED) -> float:
    """Mean error of logarithms on each fifth of the groups, of a fit to the others.

    Examples
    --------
    >>> ops = Ops.of(bytes=2.0 ** np.arange(20))
    >>> rows = Rows(ops, ops.bytes / 1e9, tuple(map(str, range(20))))
    >>> round(across(lambda p, ops: ops.bytes / p["rate"], [Parameter("rate", 3e9)], rows), 4)
    0.0
    """
    fold = folds(rows.groups, seed)
    errors = np.empty(len(fold))
    for k in range(FOLDS):
        near, judge = (rows.take(np.flatnonzero(x)) for x in (fold != k, fold == k))
        if len(near.groups):
            values = _fitted(model, parameters, {}, near, [p.start for p in parameters])
            told = dict(zip((p.name for p in parameters), values, strict=True))
            errors[fold == k] = np.log(model(told, judge.ops) / judge.seconds)
    return float(np.mean(np.abs(errors)))


def folds(groups: Sequence[str], seed: str = SEED) -> NDArray[np.int64]:
    """Which fifth of the groups each row is of, by the order of the hashes of their names.

    >>> folds(["a", "b", "a"]).tolist()
    [0, 1, 0]
    """
    order = sorted(set(groups), key=lambda g: sha256(f"{seed}:fold:{g}".encode()).digest())
    number = {g: i % FOLDS for i, g in enumerate(order)}
    return np.array([number[g] for g in groups], np.int64)


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


def _identified(
    model: Model,
    parameters: Sequence[Parameter],
    near: Rows,
    draws: int,
    seed: str,
    most: float,
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Values of all parameters, and intervals of those that the data can tell.

    The one that resampling scatters most goes first; the others are then fitted without it.
    """
    free = list(parameters)
    while free:
        fixed = {p.name: p.value for p in parameters if p not in free}
        values = _fitted(model, free, fixed, near, [p.start for p in free])
        intervals = _bootstrap(model, free, fixed, near, values, draws, seed)
        ratio = [high / low for low, high in intervals]
        worst = int(np.argmax(ratio))
        if ratio[worst] <= most:
            told = dict(zip((p.name for p in free), intervals, strict=True))
            return fixed | dict(zip(told, values, strict=True)), told
        del free[worst]
    return {p.name: p.value for p in parameters}, {}


def _fitted(
    model: Model,
    free: Sequence[Parameter],
    fixed: dict[str, float],
    near: Rows,
    start: Sequence[float],
) -> list[float]:
    names = [p.name for p in free]

    def predict(values: Floats) -> Floats:
        return model(fixed | dict(zip(names, values.tolist(), strict=True)), near.ops)

    return [float(v) for v in fit(predict, start, near.seconds)]


def _refitted(
    model: Model,
    free: Sequence[Parameter],
    fixed: dict[str, float],
    near: Rows,
    starts: Sequence[Sequence[float]],
) -> list[float]:
    """The best of fits from several starts; the first of those that are as good."""
    found = [_fitted(model, free, fixed, near, start) for start in starts]
    names = [p.name for p in free]
    losses = [
        Errors.of(model(fixed | dict(zip(names, values, strict=True)), near.ops), near.seconds).log
        for values in found
    ]
    good = min(losses) * (1 + AS_GOOD) + AS_GOOD / 100
    return next(v for v, loss in zip(found, losses, strict=True) if loss <= good)


def _bootstrap(
    model: Model,
    free: Sequence[Parameter],
    fixed: dict[str, float],
    near: Rows,
    values: Sequence[float],
    draws: int,
    seed: str,
) -> list[tuple[float, float]]:
    """Where 90 % of the refits lie, each on as many groups drawn with replacement.

    Each starts elsewhere, too, and stays there where it is as good: what only a sum or product
    of parameters shows then scatters, while a search that got stuck does not count.
    """
    random = np.random.default_rng([*seed.encode()])
    names, group = np.unique(near.groups, return_inverse=True)
    members = [np.flatnonzero(group == g) for g in range(len(names))]
    drawn = []
    for _ in range(draws):
        rows = np.concatenate([members[g] for g in random.integers(0, len(names), len(names))])
        start = np.array(values) * np.exp(random.normal(0, ASIDE, len(values)))
        drawn.append(_refitted(model, free, fixed, near.take(rows), [start.tolist(), values]))
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def without_model(near: Rows, ops: Ops) -> tuple[Floats, Floats]:
    """Seconds of ops by interpolation between measured rows, and by the nearest of them.

    What lies between no measured rows takes the nearest.  Near is by the logarithms of flop and
    bytes, among ops of the same name if there are any.

    Examples
    --------
    >>> texts = ("copy:h2h uint8[10]", "copy:h2h uint8[1000]")
    >>> ops = Ops.of(bytes=[10, 1000], signature=[0, 1], signatures=texts)
    >>> rows = Rows(ops, np.array([1.0, 100.0]), ("a", "b"))
    >>> asked = Ops.of(bytes=[90], signature=0, signatures=("copy:h2h uint8[90]",))
    >>> [x.round(2).tolist() for x in without_model(rows, asked)]
    [[9.0], [1.0]]
    """
    texts = [near.ops.signature_text(i) for i in range(len(near.ops))]
    table = Table.of(texts, near.seconds.tolist())
    here, there = _features(near.ops), _features(ops)
    names = np.array([t.partition(" ")[0] for t in texts])
    closest, between = np.empty(len(ops)), np.empty(len(ops))
    for i in range(len(ops)):
        text = ops.signature_text(i)
        far = np.abs(here - there[i]).sum(axis=1)
        same = names == text.partition(" ")[0]
        closest[i] = near.seconds[np.argmin(np.where(same, far, np.inf) if same.any() else far)]
        try:
            between[i] = table.seconds([text])[0]
        except BackendError:  # beyond what was measured
            between[i] = closest[i]
    return between, closest


def _features(ops: Ops) -> Floats:
    """(n, 2) logarithms of flop and bytes; what is unknown counts as 1."""
    both = np.stack([np.nan_to_num(ops.flop, nan=1.0), np.nan_to_num(ops.bytes, nan=1.0)], axis=1)
    return np.asarray(np.log(np.maximum(both, 1.0)))
