"""Study: every variant of a scenario is run, measured, explained and compared with the base."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

from ....models.compute.recorded import Recorded
from ....sim.run.result import Result
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
    error_sources,
)
from ..summaries.ablations import judged_ablations
from ..summaries.attempts import EVERYTHING, STOPPED, UNDER_WAY, Attempts, Unexplained
from ..summaries.distributions import metrics_kept_as_distribution
from ..summaries.fabric_facts import fabric_facts
from ..summaries.full_queues import full_queues
from ..summaries.gpu_roofs import gpu_roofs
from ..summaries.grids import errors_of_grids
from ..summaries.peak_check import require_flops_below_peak
from ..summaries.provenance import REPLAY, is_pure_replay, provenance
from ..summaries.summary import (
    MetricValue,
    Summary,
    metric_values,
    replicas_may_differ,
    values_with_conditions,
)
from ..variants.answers import StudyAnswer, answer_of
from ..variants.executor import Executor, point_map_function
from ..variants.map_function import Counted, MapFunction, SimulationCounter
from ..variants.prints import capture_prints
from ..variants.variant import Variant
from ..variants.variants import VariantResults, build_variants, run_with_replicas
from .explanations import Explainer, without_repeats, workload_facts
from .plan import count_simulations, runs_processes

if TYPE_CHECKING:
    from ....hil.coupling.journal import JournalEntry
    from ....reports.paper.plots import Plots
    from ..folders.partial_answers import PartialAnswers

log = logging.getLogger(__name__)

MOST_VALUES = 8  # longest list that is shown in full
CHECKED = "hil."  # prefix of metrics that `hil check` judges
EXPLAINED = "explained"  # key of a variant in progress
EXPLANATIONS = ("late", "as_profiled", "window", "jobs", "errors", "chains", "calibration")
NOT_YET = Unexplained("", EVERYTHING, UNDER_WAY, STOPPED)
Progress = Callable[[str], None]


@dataclass(frozen=True, repr=False)
class Study:
    """Results and summary of a scenario.

    Parameters
    ----------
    measured : results of each finished variant
    prints : text printed by processes in the first simulation of each variant
    rows : result of each variant that was repeated for the rows of a window
    """

    scenario: Scenario
    measured: tuple[VariantResults, ...]
    summary: Summary
    prints: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, Result] = field(default_factory=dict)

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
        return Plots("run", StudyShown(self.summary.to_dict(), self.results, texts, self.rows))

    @property
    def journals(self) -> dict[str, list[JournalEntry]]:
        """Measurements of real devices by variant; empty if none drove a run."""
        return {m.name: m.point.coupled.journal for m in self.measured if m.point.coupled}

    @property
    def results(self) -> dict[str, Result]:
        """Result of each variant, with recorded durations."""
        return {m.name: m.result for m in self.measured}

    @property
    def drawn(self) -> dict[str, Result]:
        """Result of each variant for timelines: of a window if only its rows could be had."""
        return {**self.results, **self.rows}


Answered = Callable[[Study], None]


def study(
    scenario: Scenario | str | os.PathLike[str],
    progress: Progress = lambda _: None,
    threads: int | None = None,
    partial: PartialAnswers | None = None,
    counted: Counted = lambda done, of: None,
    shown: TextIO | None = None,
    answered: Answered = lambda _: None,
) -> Study:
    """Run every variant of a scenario and summarize the results.

    Parameters
    ----------
    scenario : loaded scenario, or an argument of ``load``
    progress : called with one line of text for each step
    threads : number of concurrent runs; by default one per core
    partial : stores measurements of devices even if the run fails
    counted : called after each simulation with the number done and the expected total
    answered : called with the study when all variants have their answer, before any is explained
    shown : also receives the text that processes print, in every simulation
    """
    if not isinstance(scenario, Scenario):
        from ...config.loader import load

        scenario = load(scenario)
    under_way = _StudyInProgress(scenario)
    limit, started = scenario.run.time_limit, monotonic()
    with point_map_function(threads) as given, capture_prints(shown) as prints:
        try:
            with time_limit(limit), _devices_in_points(scenario) as drive:
                points = build_variants(scenario)
                errors = error_sources(scenario.variants(), points)
                counter = SimulationCounter(under_way.expected(points, errors), counted)
                for one in map(drive, points):
                    if partial is not None and one.coupled is not None:
                        partial.record_driving_devices(one.name, one.coupled)
                    under_way.run(one, errors, counter.over(given(one)), progress)
            answered(under_way.study(prints.texts))
            left = None if limit is None else max(limit - (monotonic() - started), 1e-3)
            with time_limit(left):
                under_way.explain(errors, progress)
                under_way.defend(given, counter, progress)
        except TimeLimitExceeded:
            if not under_way.points:
                raise
            under_way.note_time_limit()
        return under_way.study(prints.texts, explained=True)


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


class _StudyInProgress:
    """Study in progress: its variants are run, and then explained; each step may be the last.

    Parameters
    ----------
    scenario : scenario of the study
    """

    def __init__(self, scenario: Scenario):
        self.scenario = scenario
        self.facts = provenance(scenario) | ({"quick": True} if scenario.run.quick else {})
        self.results: list[VariantResults] = []
        self.maps: list[MapFunction] = []
        self.points: dict[str, dict[str, Any]] = {}
        self.rows: dict[str, Result] = {}
        self.attempts = Attempts()

    def expected(self, points: Sequence[Variant], errors: ErrorSources) -> int:
        """Approximate number of simulations of the study."""
        expected = sum(count_simulations(v, errors) for v in self.scenario.variants())
        if self.scenario.run.defend and not devices_drive_run(self.scenario):
            expected += sum(runs_that_defend(points, self.facts["values"]))
        return expected

    def run(
        self, variant: Variant, errors: ErrorSources, map_runs: MapFunction, progress: Progress
    ) -> None:
        """Run one variant, and summarize its answer without explaining it."""
        progress(
            f"running {variant.name}: {_size_text(variant)}{_process_runs_text(variant, errors)}"
        )
        found = run_with_replicas(variant, map_runs)
        require_flops_below_peak(found)
        self.results.append(without_repeats(found))
        self.maps.append(map_runs)
        base = VariantWithErrors(self.results[0])
        self.points[variant.name] = _summarise_variant(VariantWithErrors(self.results[-1]), base)

    def explain(self, errors: ErrorSources, progress: Progress) -> None:
        """Explain every variant, which may run it again."""
        explainer, base = Explainer(errors, self.attempts), None
        for of, map_runs in zip(self.results, self.maps, strict=True):
            also = "" if self.scenario.run.quick else ", and runs with parts faster or wrong"
            progress(f"explaining {of.name}: blame{also}")
            found = explainer.explain(of, map_runs)
            base = base or found
            if found.rows is not None:
                self.rows[of.name] = found.rows
            doubted = base.doubted and found.doubted
            self.points[of.name] = _summarise_variant(
                found.tried, base.tried, found.facts, change_with_errors=doubted
            )

    def defend(self, given: Executor, counter: SimulationCounter, progress: Progress) -> None:
        """Test which values matter and what flips the answer, if ``run.defend`` is on."""
        every = [of.point for of in self.results]
        if not _may_be_defended(self.scenario, every):
            return
        from ..confidence.robustness import values_with_effects

        progress(_defence_text(*runs_that_defend(every, self.facts["values"])))
        each = counter.over(_map_function_of_all(given, every))
        nothing: dict[str, Any] = {}
        self.facts |= self.attempts.make(
            "", "what flips the answer",
            lambda: values_with_effects(every, self.facts["values"], each, counter.expect), nothing,
        )  # fmt: skip

    def note_time_limit(self) -> None:
        """Note the variants that were not explained before the time limit."""
        limit = self.scenario.run.time_limit
        why = f"the time limit of {limit:g} s was reached; raise run.time_limit"
        for name, point in self.points.items():
            if EXPLAINED not in point:
                self.attempts.note(name, EVERYTHING, why, STOPPED)

    def study(self, prints: Mapping[str, str], explained: bool = False) -> Study:
        """Study of the variants that have an answer so far."""
        where = dict(self.facts)
        sources = self.points.get(BASE, {}).get("sources", {})
        if where["calibration"].startswith("blind") and is_pure_replay(self.scenario, sources):
            where["calibration"] = REPLAY
        if self.results and not replicas_may_differ(self.results):
            where["jitter"] = {"state": "unknown"}
        if self.results and (found := self.results[0].point.calibration) is not None:
            where["calibration"] = found.text()
        answer, points = answer_of(self.scenario), self._plain_points()
        summary = Summary(
            self.scenario.name, self.scenario.question, points, where, answer,
            self._unfinished_variants(),
            judged_ablations(self.scenario, points, answer),
            self.attempts.to_list() if explained else [asdict(NOT_YET)],
        )  # fmt: skip
        return Study(self.scenario, tuple(self.results), summary, dict(prints), dict(self.rows))

    def _plain_points(self) -> dict[str, dict[str, Any]]:
        return {
            name: {k: v for k, v in point.items() if k != EXPLAINED}
            for name, point in self.points.items()
        }

    def _unfinished_variants(self) -> tuple[str, ...]:
        """Names of the variants without an answer, and ``--defend`` if that did not finish."""
        names = [v.variant for v in self.scenario.variants() if v.variant not in self.points]
        asked = _may_be_defended(self.scenario, [m.point for m in self.results])
        return (*names, *(("--defend",) if asked and "break_even" not in self.facts else ()))


def _devices_in_points(scenario: Scenario) -> AbstractContextManager[Callable[[Variant], Variant]]:
    """Context manager that yields a function, which puts real devices into a variant."""
    if not devices_drive_run(scenario):
        return nullcontext(lambda point: point)
    from ..accuracy.coupled_study import devices_driving_points

    return devices_driving_points(scenario)


def _summarise_variant(
    tried: VariantWithErrors,
    base: VariantWithErrors,
    explained: Mapping[str, Any] | None = None,
    *,
    change_with_errors: bool = True,
) -> dict[str, Any]:
    """Summary of one variant: its answer, and what explains it as far as that is known.

    Parameters
    ----------
    explained : explanation by key; None if the variant is not explained yet
    change_with_errors : False to leave model errors out of the change, as one variant lacks them
    """
    of = tried.of
    metrics = values_with_conditions(metric_values(of), [e.that for e in of.point.scenario.expect])
    answer = of.point.answer
    if answer.metric in metrics:
        metrics[answer.metric] = tried.with_model_error(metrics[answer.metric])
    if COST in metrics and answer.period:
        metrics[COST] = tried.with_model_error(metrics[COST], grows=True)
    pair = (base, tried)
    if not change_with_errors:
        pair = VariantWithErrors(base.of), VariantWithErrors(of)
    why = explained or {}
    optional = {key: why[key] for key in EXPLANATIONS if why.get(key)}
    rules, roofs = changed_ops_by_rule(of.point.built.graphs), gpu_roofs(of.point.scenario)
    fabric = fabric_facts(of.point)
    return {
        "metrics": {k: asdict(v) for k, v in metrics.items()},
        "expect": _judge_expectations(of, metrics),
        "blame": why.get("blame", {}),
        **optional,
        **({"rules": rules} if rules else {}),
        "activity": why.get("activity", {}),
        "faster": why.get("faster", []),
        "sources": _sources_of_op_times(of),
        **({"roofs": roofs} if roofs else {}),
        **({"fabric": fabric} if fabric else {}),
        **({"grids": grids} if (grids := errors_of_grids(of.result.grid_errors)) else {}),
        **({"distributions": kept} if (kept := metrics_kept_as_distribution(of.samples)) else {}),
        **({"queues": queues} if (queues := full_queues(of.result)) else {}),
        "facts": {
            "ops": of.result.count,
            "ranks": of.result.ranks if of.point.graph is None else of.point.graph.ranks,
            "gpus": len(of.point.simulation.system.gpus),
            **reason_without_op_table(of.result),
            **{k: v for k, v in workload_facts(of.point).items() if _is_plain_value(v)},
        },
        "settings": setting_differences(base.of.point.scenario, of.point.scenario),
        "change": change_against_base(*pair),
        **({} if explained is None else {EXPLAINED: True}),
    }  # fmt: skip


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
    facts = workload_facts(results.point)
    if "untraced_steps" not in facts:
        return results.result.sources
    more = f", times {facts['times_multiplied_by']}: untraced steps of {facts['untraced_steps']}"
    return {
        name + more if name.startswith(Recorded().source) else name: seconds
        for name, seconds in results.result.sources.items()
    }


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
