"""Searches that learn from earlier points, by Optuna: TPE and NSGA-II."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ....sim.errors import ScenarioError
from ...config.condition import Condition
from ...config.parameters import Values, Vary
from ..workers.worker_pool import Outcome
from .task import Settings

if TYPE_CHECKING:
    from ...config.sections.sweep import Sweep

TPE_BATCH = 10  # points that are asked for before their outcomes are reported
POPULATION = 20  # smallest generation of NSGA-II
MISSED = "missed"  # attribute of a trial: relative miss of each condition


class SweepSearch:
    """Sweep method in which Optuna chooses the next points.

    Parameters
    ----------
    sweep : Sweep
    seed : random seed
    limits : conditions that the search tries to meet

    Raises
    ------
    ScenarioError
        Optuna is not installed, or there is no objective.
    """

    def __init__(self, sweep: Sweep, seed: int, limits: Sequence[Condition]):
        optuna = _import_optuna(sweep.method)
        if not sweep.optimize:
            raise ScenarioError(
                f"sweep.optimize: '{sweep.method}' needs an objective; write for example "
                "[{minimize: makespan}]"
            )
        self.sweep, self.limits, self.left = sweep, limits, sweep.wanted
        self.batch = TPE_BATCH if sweep.method == "tpe" else _population_size(sweep.wanted)
        sampler = _make_sampler(optuna, sweep.method, seed, self.batch, bool(limits))
        self.name = f"optuna {optuna.__version__} {type(sampler).__name__}"
        directions = ["minimize" if o.sign > 0 else "maximize" for o in sweep.optimize]
        self.study = optuna.create_study(sampler=sampler, directions=directions)
        self.failed = optuna.trial.TrialState.FAIL
        self.trials: list[Any] = []

    def ask(self) -> list[Settings]:
        """Next batch of points."""
        count = min(self.batch, self.left)
        self.left -= count
        with _without_warnings():
            self.trials = [self.study.ask() for _ in range(count)]
            return [_suggest_settings(trial, self.sweep.vary) for trial in self.trials]

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Report outcomes to Optuna; a point that failed or lacks a metric counts as failed."""
        for trial, outcome in zip(self.trials, outcomes, strict=True):
            found = outcome.get("values", {})
            values = [found.get(o.metric) for o in self.sweep.optimize]
            with _without_warnings():
                if None in values:
                    self.study.tell(trial, state=self.failed)
                    continue
                trial.set_user_attr(
                    MISSED, [relative_miss(c, found.get(c.name)) for c in self.limits]
                )
                self.study.tell(trial, values)


def relative_miss(condition: Condition, value: float | None) -> float:
    """Relative distance of a value from a condition's limit; 0 if the condition holds.

    >>> from foretrace.scenarios.config.condition import read_condition
    >>> at_most, above = map(read_condition, ("makespan <= 10 s", "makespan > 1 s"))
    >>> round(relative_miss(at_most, 12.0), 3), relative_miss(above, 2.0)
    (0.2, 0.0)
    """
    if value is None:
        return 1.0
    if condition.holds(value):
        return 0.0
    return max(abs(value - condition.limit) / (abs(condition.limit) or 1.0), 1e-12)


def _import_optuna(method: str) -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ScenarioError(
            f"sweep.method: '{method}' needs Optuna; run pip install optuna, or write "
            "grid, random or sobol"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _make_sampler(optuna: Any, method: str, seed: int, population: int, constrained: bool) -> Any:
    """Optuna sampler of a method, named explicitly since defaults change between versions."""
    seed %= 2**32
    limits = (lambda trial: trial.user_attrs.get(MISSED, [1.0])) if constrained else None
    with _without_warnings():
        if method == "tpe":
            return optuna.samplers.TPESampler(
                seed=seed, multivariate=False, constant_liar=True, constraints_func=limits
            )
        return optuna.samplers.NSGAIISampler(
            seed=seed, population_size=population, constraints_func=limits
        )


def _population_size(points: int) -> int:
    """Size of an NSGA-II generation: an eighth of all points, to have several generations."""
    return max(2, min(100, max(POPULATION, points // 8), points))


def _suggest_settings(trial: Any, vary: dict[str, Vary]) -> Settings:
    return {path: _suggest_value(trial, path, v) for path, v in vary.items()}


def _suggest_value(trial: Any, path: str, vary: Vary) -> Any:
    if not isinstance(vary, Values):
        return vary.value_at(trial.suggest_float(path, 0.0, 1.0))
    last = len(vary.values) - 1
    if vary.ordered:
        return vary.values[trial.suggest_int(path, 0, last)]
    return vary.values[trial.suggest_categorical(path, list(range(last + 1)))]


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Context manager that hides Optuna's warnings about experimental interfaces."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
