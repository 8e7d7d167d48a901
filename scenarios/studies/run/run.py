"""Study: every variant of a scenario is run, measured, explained and compared with the base."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from ....models.compute.recorded import Recorded
from ....sim.rerun.sensitivity import SpeedupEffect, speedup_effects
from ....sim.run.result import Result
from ....sim.units import seconds
from ...config.condition import Condition
from ...config.hil_settings import devices_drive_run
from ...config.scenario import BASE, Scenario
from ..building.limits import TimeLimitExceeded, time_limit
from ..building.op_rules import changed_ops_by_rule
from ..confidence.defence import runs_that_defend
from ..confidence.uncertainty import (
    COST,
    ErrorSources,
    VariantWithErrors,
    change_against_base,
    components_by_kind,
    error_sources,
    run_with_model_errors,
)
from ..summaries.ablations import judged_ablations
from ..summaries.fabric_facts import fabric_facts
from ..summaries.full_queues import full_queues
from ..summaries.gpu_roofs import gpu_roofs
from ..summaries.headline_breakdown import headline_time_breakdown
from ..summaries.late_ranks import waiting_by_rank
from ..summaries.peak_check import require_flops_below_peak
from ..summaries.profiled_steps import as_profiled
from ..summaries.provenance import REPLAY, is_pure_replay, provenance
from ..summaries.summary import (
    MetricValue,
    Summary,
    metric_values,
    replicas_may_differ,
    values_with_conditions,
)
from ..variants.answers import StudyAnswer, answer_of
from ..variants.blame_window import blame_window
from ..variants.executor import Executor, point_map_function
from ..variants.map_function import Counted, MapFunction, SimulationCounter
from ..variants.preflight import chain_shares_of_point
from ..variants.prints import capture_prints
from ..variants.samples import answer_of_run, headline_value
from ..variants.step_calibration import calibration_facts
from ..variants.variant import Variant
from ..variants.variants import VariantResults, build_variants, run_with_replicas
from .plan import count_simulations, runs_processes

if TYPE_CHECKING:
    from ....hil.coupling.journal import JournalEntry
    from ....reports.paper.plots import Plots
    from ..folders.partial_answers import PartialAnswers

log = logging.getLogger(__name__)

MOST_VALUES = 8  # longest list that is shown in full
CHECKED = "hil."  # prefix of metrics that `hil check` judges
Progress = Callable[[str], None]


@dataclass(frozen=True, repr=False)
class Study:
    """Results and summary of a scenario.

    Parameters
    ----------
    measured : results of each finished variant
    prints : text printed by processes in the first simulation of each variant
    """

    scenario: Scenario
    measured: tuple[VariantResults, ...]
    summary: Summary
    prints: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The answer as text."""
        from ....reports.texts.answer import answer_sentences

        return "\n".join(answer_sentences(self.summary.to_dict()))

    def _repr_html_(self) -> str:
        """HTML for notebooks: the answer, and a row for each variant."""
        from html import escape

        from ....reports.numbers import format_change, format_quantity
        from ....reports.texts.answer import answer_sentences
        from ....reports.texts.headline import metric_header
        from ....sim.analysis.notebook import html_table

        plain = self.summary.to_dict()
        asked = plain["answer"]
        rows = [
            (name, format_quantity(p["metrics"][asked["metric"]]["value"], asked["unit"]),
             "" if name == BASE else format_change(p["change"]["value"]))
            for name, p in plain["points"].items()
        ]  # fmt: skip
        paragraphs = "".join(f"<p>{escape(text)}</p>" for text in answer_sentences(plain))
        return paragraphs + html_table(
            self.scenario.name, rows, ("variant", metric_header(asked), "change")
        )

    @property
    def plot(self) -> Plots:
        """Figures of the report's sections by matplotlib: ``study.plot.blame()``."""
        from ....reports.paper.plots import Plots
        from ....reports.texts.study import StudyShown

        texts = dict.fromkeys(("resolved", "command", "run", "title", "timeline_cut"), "")
        return Plots("run", StudyShown(self.summary.to_dict(), self.results, texts))

    @property
    def journals(self) -> dict[str, list[JournalEntry]]:
        """Measurements of real devices by variant; empty if none drove a run."""
        return {m.name: m.point.coupled.journal for m in self.measured if m.point.coupled}

    @property
    def results(self) -> dict[str, Result]:
        """Result of each variant, with recorded durations."""
        return {m.name: m.result for m in self.measured}


def study(
    scenario: Scenario | str | os.PathLike[str],
    progress: Progress = lambda _: None,
    threads: int | None = None,
    partial: PartialAnswers | None = None,
    counted: Counted = lambda done, of: None,
    shown: TextIO | None = None,
) -> Study:
    """Run every variant of a scenario and summarize the results.

    Parameters
    ----------
    scenario : loaded scenario, or an argument of ``load``
    progress : called with one line of text for each step
    threads : number of concurrent runs; by default one per core
    partial : stores measurements of devices even if the run fails
    counted : called after each simulation with the number done and the expected total
    shown : also receives the text that processes print, in every simulation
    """
    if not isinstance(scenario, Scenario):
        from ...config.loader import load

        scenario = load(scenario)
    where = provenance(scenario) | ({"quick": True} if scenario.run.quick else {})
    under_way = _StudyInProgress()
    try:
        with (
            point_map_function(threads) as given,
            time_limit(scenario.run.time_limit),
            capture_prints(shown) as prints,
        ):
            with _devices_in_points(scenario) as drive:
                points = build_variants(scenario)
                errors = error_sources(scenario.variants(), points)
                expected = sum(count_simulations(v, errors) for v in scenario.variants())
                if scenario.run.defend and not devices_drive_run(scenario):
                    expected += sum(runs_that_defend(points, where["values"]))
                counter = SimulationCounter(expected, counted)
                for one in map(drive, points):
                    if partial is not None and one.coupled is not None:
                        partial.record_driving_devices(one.name, one.coupled)
                    each = counter.over(given(one))
                    under_way.run_and_explain(one, errors, each, progress)
            every = [m.point for m in under_way.results]
            if _may_be_defended(scenario, every):
                from ..confidence.robustness import values_with_effects

                progress(_defence_text(*runs_that_defend(every, where["values"])))
                each = counter.over(_map_function_of_all(given, every))
                where |= values_with_effects(every, where["values"], each, counter.expect)
    except TimeLimitExceeded:
        if not under_way.points:
            raise
    sources = under_way.points.get(BASE, {}).get("sources", {})
    if where["calibration"].startswith("blind") and is_pure_replay(scenario, sources):
        where["calibration"] = REPLAY
    if under_way.results and not replicas_may_differ(under_way.results):
        where["jitter"] = {"state": "unknown"}
    left = under_way.unfinished_variants(scenario, where)
    if under_way.results and (found := under_way.results[0].point.calibration) is not None:
        where["calibration"] = found.text()
    answer = answer_of(scenario)
    judged = judged_ablations(scenario, under_way.points, answer)
    summary = Summary(
        scenario.name, scenario.question, under_way.points, where, answer, left, judged
    )
    done = tuple(under_way.results[: len(under_way.points)])
    return Study(scenario, done, summary, prints.texts)


def _defence_text(values: int, errors: int) -> str:
    """Progress text about ``run.defend``, from the numbers of runs for values and errors.

    >>> _defence_text(1, 355)
    'defending: each kind of part wrong, about 355 runs'
    >>> _defence_text(68, 0)
    'defending: 67 unmeasured values 10 % off, a run each'
    """
    tried = [f"{values - 1} unmeasured values 10 % off, a run each"] * (values > 1)
    wrong = [f"each kind of part wrong, about {errors} runs"] * bool(errors)
    return f"defending: {', then '.join([*tried, *wrong]) or 'nothing could flip it'}"


def _may_be_defended(scenario: Scenario, points: Sequence[Variant]) -> bool:
    """True if ``run.defend`` is on and no device drives a variant."""
    return scenario.run.defend and not any(point.coupled for point in points)


def _map_function_of_all(executor: Executor, points: Sequence[Variant]) -> MapFunction:
    """Map function for runs of all variants: builtin ``map`` if runs may not be concurrent."""
    return next((own for own in map(executor, points) if own is map), executor(points[0]))


@dataclass
class _StudyInProgress:
    """Study in progress; a variant counts once it is measured and explained."""

    results: list[VariantResults] = field(default_factory=list)
    points: dict[str, dict[str, Any]] = field(default_factory=dict)
    base: VariantWithErrors | None = None
    reference: VariantWithErrors | None = None

    def run_and_explain(
        self, variant: Variant, errors: ErrorSources, map_runs: MapFunction, progress: Progress
    ) -> None:
        """Run one variant, and run it again for its model errors."""
        progress(
            f"running {variant.name}: {_size_text(variant)}{_process_runs_text(variant, errors)}"
        )
        self.results.append(run_with_replicas(variant, map_runs))
        require_flops_below_peak(self.results[-1])
        also = "" if variant.scenario.run.quick else ", and runs with parts faster or wrong"
        progress(f"explaining {variant.name}: blame{also}")
        tried = run_with_model_errors(self.results[-1], errors, map_runs)
        if variant.calibration is not None:
            if self.reference is None:
                measured = run_with_replicas(variant.calibration.reference, map_runs)
                self.reference = run_with_model_errors(measured, errors, map_runs)
            tried = tried.relative_to_measured_step(self.reference)
        self.base = self.base or tried
        self.points[variant.name] = _summarise_variant(tried, self.base, map_runs)

    def unfinished_variants(self, scenario: Scenario, facts: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of the variants that did not finish, and ``--defend`` if that did not."""
        names = [v.variant for v in scenario.variants() if v.variant not in self.points]
        asked = _may_be_defended(scenario, [m.point for m in self.results])
        return (*names, *(("--defend",) if asked and "break_even" not in facts else ()))


def _devices_in_points(scenario: Scenario) -> AbstractContextManager[Callable[[Variant], Variant]]:
    """Context manager that yields a function, which puts real devices into a variant."""
    if not devices_drive_run(scenario):
        return nullcontext(lambda point: point)
    from ..accuracy.coupled_study import devices_driving_points

    return devices_driving_points(scenario)


def _summarise_variant(
    tried: VariantWithErrors, base: VariantWithErrors, map_runs: MapFunction
) -> dict[str, Any]:
    """Summary of one variant: metrics, blame, time breakdown, sensitivity, expectations."""
    of = tried.of
    changes = effect_of_faster_components(of, map_runs=map_runs)
    metrics = values_with_conditions(metric_values(of), [e.that for e in of.point.scenario.expect])
    answer = of.point.answer
    if answer.metric in metrics:
        metrics[answer.metric] = tried.with_model_error(metrics[answer.metric])
    if COST in metrics and answer.period:
        metrics[COST] = tried.with_model_error(metrics[COST], grows=True)
    window = blame_window(of.point, of.result)
    boxes = headline_time_breakdown(
        of, metrics[answer.metric].value if answer.period else 0.0, map_runs
    )
    return {
        "metrics": {k: asdict(v) for k, v in metrics.items()},
        "expect": _judge_expectations(of, metrics),
        "blame": window.blame(of.result.blame()) if window else of.result.blame().seconds,
        **({"late": late} if (late := waiting_by_rank(of.result)) else {}),
        **_as_profiled(of),
        **({"rules": rules} if (rules := changed_ops_by_rule(of.point.built.graphs)) else {}),
        **({"window": window.to_dict(of.result.tick)} if window else {}),
        **blame_by_job(of),
        "activity": {box: {"mean": float(t.mean()), "worst": float(t.max())}
                     for box, t in boxes.items()},
        "faster": [asdict(c) | {"gain": c.gain, "bound": c.bound} for c in changes],
        **({"errors": found} if (found := tried.deviations()) else {}),
        "sources": _sources_of_op_times(of),
        **({"chains": chains} if (chains := chain_shares_of_point(of.point)) else {}),
        **({"roofs": roofs} if (roofs := gpu_roofs(of.point.scenario)) else {}),
        **({"fabric": fabric} if (fabric := fabric_facts(of.point)) else {}),
        **({"queues": queues} if (queues := full_queues(of.result)) else {}),
        "facts": {
            "ops": of.result.count,
            "ranks": of.result.ranks if of.point.graph is None else of.point.graph.ranks,
            "gpus": len(of.point.simulation.system.gpus),
            **reason_without_op_table(of.result),
            **{k: v for k, v in _workload_facts(of.point).items() if _is_plain_value(v)},
        },
        "settings": setting_differences(base.of.point.scenario, of.point.scenario),
        "change": change_against_base(base, tried),
        **({"calibration": told} if (told := _calibration_facts(of.point, map_runs)) else {}),
    }  # fmt: skip


def _as_profiled(results: VariantResults) -> dict[str, Any]:
    """Step time and exposed communication as a profiler reports them; {} if they are the same."""
    told = as_profiled(results.result, _workload_facts(results.point))
    return {} if told is None else {"as_profiled": told}


def _calibration_facts(point: Variant, map_runs: MapFunction) -> Mapping[str, Any]:
    """Facts about the measured step, and the answer without calibration; {} for none."""
    if point.uncalibrated is None:
        return {}
    blind = point.with_simulation(point.uncalibrated)
    (value,) = map_runs(answer_of_run, (blind,))
    return calibration_facts(point, value)


def _size_text(variant: Variant) -> str:
    """Size of a variant as text, as far as it is known."""
    if variant.graph is None:
        return f"{len(variant.workloads)} job{'s' * (len(variant.workloads) != 1)}"
    ranks = f"{variant.graph.ranks} rank{'s' * (variant.graph.ranks != 1)}"
    return f"{len(variant.graph):,} ops on {ranks}"


def _process_runs_text(variant: Variant, errors: ErrorSources) -> str:
    """Text about how often the processes of a variant run; "" if it has none."""
    if not runs_processes(variant.scenario):
        return ""
    return f"; its processes run about {count_simulations(variant.scenario, errors)} times"


def _sources_of_op_times(results: VariantResults) -> dict[str, float]:
    """Seconds of ops by the source of their time; a recording names its untraced steps too."""
    facts = _workload_facts(results.point)
    if "untraced_steps" not in facts:
        return results.result.sources
    more = f", times {facts['times_multiplied_by']}: untraced steps of {facts['untraced_steps']}"
    return {
        name + more if name.startswith(Recorded().source) else name: seconds
        for name, seconds in results.result.sources.items()
    }


def _workload_facts(point: Variant) -> Mapping[str, object]:
    """Facts of the only workload's graph, as far as known before the run."""
    (graph, *others) = point.built.graphs.values()
    return {} if graph is None or others else graph.facts


def blame_by_job(results: VariantResults) -> dict[str, Any]:
    """Blame of each of several jobs, and the jobs that slowed it down."""
    if len(results.result.jobs) < 2:
        return {}
    jobs = {}
    for name in results.result.jobs:
        own = results.result.of(name)
        if own.count:
            blame = own.blame()
            slowed = {job: float(seconds(t, own.tick)) for job, t in blame.slowed_by.items()}
            at = [
                {"job": job, "part": part, "seconds": float(seconds(t, own.tick))}
                for (job, part), t in sorted(blame.slowed_at.items(), key=lambda one: -one[1])
            ]
            jobs[name] = {"blame": blame.seconds, "slowed_by": slowed, "slowed_at": at}
    return {"jobs": jobs}


def reason_without_op_table(result: Result) -> dict[str, str]:
    """Entry of the facts that says why there is no table of ops; {} if there is one."""
    if result.keep == "ops":
        return {}
    return {"table_of_ops": f"left out: the run kept {result.keep}; --keep ops writes it"}


def _is_plain_value(value: object) -> bool:
    return isinstance(value, str | int | float | bool)


def _judge_expectations(
    results: VariantResults, metrics: Mapping[str, MetricValue]
) -> list[dict[str, Any]]:
    """Each condition with its value and outcome; a metric that the run lacks counts as not met."""
    return [
        {
            "that": e.that.text,
            "otherwise": e.otherwise,
            "unit": e.that.unit,
            "value": metrics[e.that.name].value if e.that.name in metrics else None,
            "met": e.that.name in metrics and bool(e.that.holds(metrics[e.that.name].value)),
            "short": _shortfall(e.that, metrics, results.point.answer),
        }
        for e in results.point.scenario.expect
        if not e.that.metric.startswith(CHECKED)
    ]


def _shortfall(
    that: Condition, metrics: Mapping[str, MetricValue], answer: StudyAnswer
) -> float | None:
    """Relative change of the deciding metric that would meet a condition; None if unknown."""
    if that.metric != answer.sample or that.name not in metrics or not that.op.startswith("<"):
        return None
    value = metrics[that.name].value
    return that.limit / value - 1 if value else None


def effect_of_faster_components(
    results: VariantResults, factor: float = 1.1, map_runs: MapFunction = map
) -> list[SpeedupEffect]:
    """Effect if each kind of component were 10 % faster, or took no time, found by running again.

    Empty if devices drive the run, and for a quick run. For a job with periods it is the effect on
    the makespan, else on the deciding metric.
    """
    point = results.point
    periodic = bool(point.answer.period)
    if point.coupled is not None or point.scenario.run.quick:
        return []
    return speedup_effects(
        point.simulation,
        lambda s: point.with_simulation(s).run_for_answer(),
        components_by_kind(point.simulation),
        factor,
        map_runs,
        results.result.makespan if periodic else point.answer.of(results.samples),
        (lambda r: r.makespan) if periodic else (lambda r: headline_value(point, r)),
    )


def setting_differences(base: Scenario, other: Scenario) -> dict[str, tuple[str, str]]:
    """Settings that differ between two scenarios: (text in ``base``, text in ``other``) by path.

    A list of plain values is one setting. The text is empty if a scenario lacks the setting;
    ``what_if`` is ignored.
    """
    a, b = _values_by_setting(base), _values_by_setting(other)
    paths = [p for p in dict.fromkeys((*a, *b)) if not p.startswith("what_if")]
    return {
        p: (_list_text(a.get(p, [])), _list_text(b.get(p, [])))
        for p in paths
        if a.get(p) != b.get(p)
    }


def _values_by_setting(scenario: Scenario) -> dict[str, list[str]]:
    """Values of each setting as texts, by path; items of a list are under the path of the list."""
    found: dict[str, list[str]] = {}
    for path, origin in scenario.origins.items():
        above, _, last = path.rpartition(".")
        found.setdefault(above if last.isdigit() else path, []).append(origin.text)
    return found


def _list_text(values: Sequence[str]) -> str:
    """Values as one text; a long list is shown by its first and last items.

    >>> _list_text(["0"]), _list_text([str(i) for i in range(30)])
    ('0', '0, 1, 2 … 28, 29 (30 values)')
    """
    if len(values) <= MOST_VALUES:
        return ", ".join(values)
    return f"{', '.join(values[:3])} … {', '.join(values[-2:])} ({len(values)} values)"
