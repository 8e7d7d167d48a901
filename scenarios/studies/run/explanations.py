"""Explanations of a variant's answer: blame, time breakdown, sensitivity and model errors.

Each is tried by itself. What one cannot do, because rows were not kept, a device answered, or it
would take too many simulations, is noted as a sentence; the answer remains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ....sim.errors import NotKeptError
from ....sim.rerun.sensitivity import SpeedupEffect, speedup_effects
from ....sim.run.result import Result
from ....sim.units import seconds
from ..confidence.uncertainty import (
    ErrorSources,
    VariantWithErrors,
    components_by_kind,
    run_with_model_errors,
)
from ..summaries.attempts import Attempts
from ..summaries.headline_breakdown import headline_time_breakdown
from ..summaries.late_ranks import waiting_by_rank
from ..summaries.profiled_steps import as_profiled
from ..variants.blame_window import blame_window, repeated_window
from ..variants.map_function import MapFunction
from ..variants.preflight import chain_shares_of_point
from ..variants.samples import answer_of_run, headline_value
from ..variants.step_calibration import calibration_facts
from ..variants.variant import Variant
from ..variants.variants import VariantResults, run_with_replicas
from .budget import allowed_simulations, is_steered_without_rows, over_budget_text
from .plan import ERRORS, SENSITIVITY

SENSITIVE, DOUBTS = "the effect of faster parts", "the effect of model errors"
NOTHING: dict[str, Any] = {}
NO_BLAME: tuple[dict[str, Any], Result | None] = ({}, None)
QUICK = "it is a quick run (leave out --quick to explain a part of it)"
MEASURED = "a device or another online backend answered, and would be measured again"


@dataclass(frozen=True)
class Explained:
    """Explanation of a variant.

    Parameters
    ----------
    tried : answer with each source of error at both ends
    facts : explanation as plain data, by key of the summary
    rows : result with the rows of a window, if the run was repeated for them
    doubted : True if model errors were tried
    """

    tried: VariantWithErrors
    facts: Mapping[str, Any]
    rows: Result | None = None
    doubted: bool = True


def without_repeats(of: VariantResults) -> VariantResults:
    """Results whose steered run is not repeated for rows, if the run is quick."""
    if not (of.point.scenario.run.quick and is_steered_without_rows(of.result)):
        return of
    return replace(of, result=replace(of.result, repeat_run=QUICK, repeat_window=QUICK))


class Explainer:
    """Explainer of the variants of a study, one after the other.

    Parameters
    ----------
    errors : sources of model error
    attempts : what could not be explained so far
    """

    def __init__(self, errors: ErrorSources, attempts: Attempts):
        self.errors, self.attempts = errors, attempts
        self._reference: VariantWithErrors | None = None

    def explain(self, of: VariantResults, map_runs: MapFunction) -> Explained:
        """Explain the answer of one variant."""
        name, attempt = of.name, self.attempts.make
        left = allowed_simulations(of) - is_steered_without_rows(of.result)
        changes = self._sensitivity(of, map_runs, left)
        left -= 2 * len(changes)
        tried = self._with_errors(of, map_runs, left)
        blamed, rows = attempt(name, "blame", lambda: _blame(of), NO_BLAME)
        boxes = attempt(name, "the time breakdown", lambda: _breakdown(of, map_runs), NOTHING)
        late = attempt(name, "late ranks", lambda: waiting_by_rank(of.result), None)
        profiled = attempt(name, "profiled steps", lambda: _as_profiled(of), NOTHING)
        chains = attempt(name, "chains", lambda: chain_shares_of_point(of.point), NOTHING)
        calibrated = attempt(
            name, "the answer without calibration", lambda: _calibration(of.point, map_runs),
            NOTHING,
        )  # fmt: skip
        deviations = [] if tried is None else tried.deviations()
        facts = {
            **blamed, **profiled, "activity": boxes,
            "faster": [asdict(c) | {"gain": c.gain, "bound": c.bound} for c in changes],
            "late": late, "errors": deviations, "chains": chains, "calibration": calibrated,
        }  # fmt: skip
        return Explained(tried or VariantWithErrors(of), facts, rows, tried is not None)

    def _sensitivity(
        self, of: VariantResults, map_runs: MapFunction, left: float
    ) -> list[SpeedupEffect]:
        """Effect of each kind of component being faster; [] if devices drive the run, or quick."""
        needed = SENSITIVITY * len(components_by_kind(of.point.simulation))
        if of.point.scenario.run.quick or not self._may_repeat(of, SENSITIVE, needed, left):
            return []
        return self.attempts.make(
            of.name, SENSITIVE, lambda: effect_of_faster_components(of, map_runs=map_runs), []
        )

    def _with_errors(
        self, of: VariantResults, map_runs: MapFunction, left: float
    ) -> VariantWithErrors | None:
        """Answer with each source of error at both ends; None if it could not be computed."""
        needed = ERRORS * self.errors.count
        if of.point.scenario.run.quick or not needed:
            return run_with_model_errors(of, self.errors, map_runs)
        if not self._may_repeat(of, DOUBTS, needed, left):
            return None
        return self.attempts.make(of.name, DOUBTS, lambda: self._errors_of(of, map_runs), None)

    def _errors_of(self, of: VariantResults, map_runs: MapFunction) -> VariantWithErrors:
        tried = run_with_model_errors(of, self.errors, map_runs)
        if of.point.calibration is None:
            return tried
        if self._reference is None:
            measured = run_with_replicas(of.point.calibration.reference, map_runs)
            self._reference = run_with_model_errors(measured, self.errors, map_runs)
        return tried.relative_to_measured_step(self._reference)

    def _may_repeat(self, of: VariantResults, what: str, needed: int, left: float) -> bool:
        """True if a variant may be simulated again; otherwise the reason is noted."""
        simulation = of.point.simulation
        if of.point.coupled is not None or any(b.online for b in simulation.distinct_backends):
            self.attempts.note(of.name, what, MEASURED)
            return False
        if needed > left:
            every = SENSITIVITY * len(components_by_kind(simulation)) + ERRORS * self.errors.count
            every += is_steered_without_rows(of.result)
            self.attempts.note(of.name, what, over_budget_text(of, needed, every))
            return False
        return True


def _blame(of: VariantResults) -> tuple[dict[str, Any], Result | None]:
    """Blame of a variant, by job too; and its rows, if only those of a window could be had."""
    window = blame_window(of.point, of.result)
    try:
        rows = of.result.detail
    except NotKeptError:
        if isinstance(of.result.repeat_window, str):
            raise
        return _blame_of_window(of)
    whole = rows.blame()
    return {
        "blame": window.blame(whole) if window else whole.seconds,
        **({"window": window.to_dict(of.result.tick)} if window else {}),
        **blame_by_job(rows),
    }, None


def _blame_of_window(of: VariantResults) -> tuple[dict[str, Any], Result | None]:
    """Blame of a window of a run that is repeated for its rows, and the rows."""
    first, last, what = repeated_window(of.point, of.result, of.samples)
    rows = of.result.window(first, last)
    assert rows.span is not None  # noqa: S101
    begin, end = (float(seconds(tick, rows.tick)) for tick in rows.span)
    told = {"first": begin, "last": end, "samples": 1, "length": end - begin, "repeated": what}
    return {"blame": rows.blame().seconds, "window": told, **blame_by_job(rows)}, rows


def _breakdown(of: VariantResults, map_runs: MapFunction) -> dict[str, dict[str, float]]:
    """Mean and worst time of ranks by category."""
    answer = of.point.answer
    headline = headline_of(of) if answer.period else 0.0
    boxes = headline_time_breakdown(of, headline, map_runs)
    return {
        box: {"mean": float(t.mean()), "worst": float(t.max())}
        for box, t in boxes.items()
        if t.size
    }


def headline_of(of: VariantResults) -> float:
    """Value of the deciding metric, over all replicas."""
    from ..summaries.summary import metric_values

    return metric_values(of)[of.point.answer.metric].value


def _as_profiled(of: VariantResults) -> dict[str, Any]:
    """Step time and exposed communication as a profiler reports them; {} if nothing differs."""
    told = as_profiled(of.result, workload_facts(of.point))
    return {} if told is None else {"as_profiled": told}


def _calibration(point: Variant, map_runs: MapFunction) -> dict[str, Any]:
    """Facts about the measured step, and the answer without calibration; {} for none."""
    if point.uncalibrated is None:
        return {}
    blind = point.with_simulation(point.uncalibrated)
    (value,) = map_runs(answer_of_run, (blind,))
    return dict(calibration_facts(point, value))


def workload_facts(point: Variant) -> Mapping[str, object]:
    """Facts of the only workload's graph, as far as known before the run."""
    (graph, *others) = point.built.graphs.values()
    return {} if graph is None or others else graph.facts


def blame_by_job(rows: Result) -> dict[str, Any]:
    """Blame of each of several jobs, and the jobs that slowed it down."""
    if len(rows.jobs) < 2:
        return {}
    jobs = {}
    for name in rows.jobs:
        own = rows.of(name)
        if own.count:
            blame = own.blame()
            slowed = {job: float(seconds(t, own.tick)) for job, t in blame.slowed_by.items()}
            at = [
                {"job": job, "part": part, "seconds": float(seconds(t, own.tick))}
                for (job, part), t in sorted(blame.slowed_at.items(), key=lambda one: -one[1])
            ]
            jobs[name] = {"blame": blame.seconds, "slowed_by": slowed, "slowed_at": at}
    return {"jobs": jobs}


def effect_of_faster_components(
    results: VariantResults, factor: float = 1.1, map_runs: MapFunction = map
) -> list[SpeedupEffect]:
    """Effect of each kind of component being 10 % faster, or taking no time, by running again.

    For a job with periods it is the effect on the makespan, else on the answer.
    """
    point = results.point
    periodic = bool(point.answer.period)
    return speedup_effects(
        point.simulation,
        lambda s: point.with_simulation(s).run_for_answer(),
        components_by_kind(point.simulation),
        factor,
        map_runs,
        results.result.makespan if periodic else point.answer.of(results.samples),
        (lambda r: r.makespan) if periodic else (lambda r: headline_value(point, r)),
    )
