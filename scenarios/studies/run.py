"""A study: every variant of a scenario run, measured, explained, and compared with the first."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...sim.analysis.activity import activities
from ...sim.analysis.metrics import step_edges
from ...sim.analysis.sensitivity import Change, faster
from ...sim.result import Result
from ..config.condition import Condition
from ..config.hil_settings import coupled
from ..config.scenario import BASE, Scenario
from .executor import MapFunction, executor
from .limits import TimeOver, time_limit
from .provenance import provenance
from .summary import Summary, Value, checked, values
from .uncertainty import COST, HEADLINE, Tried, change, groups, model_errors, with_errors
from .variants import Variant, VariantResults, counted, measured, variants

if TYPE_CHECKING:
    from ...hil.coupling.journal import JournalEntry

log = logging.getLogger(__name__)

CHECKED = "hil."  # metrics that `hil check` answers
Progress = Callable[[str], None]


@dataclass(frozen=True, repr=False)
class Study:
    """All that was run, and what it says."""

    scenario: Scenario
    measured: tuple[VariantResults, ...]
    summary: Summary

    def __repr__(self) -> str:
        """As a session shows it: the answer."""
        from ...reports.run.answer import sentences

        return "\n".join(sentences(self.summary.to_dict()))

    def _repr_html_(self) -> str:
        """As a notebook shows it: the answer, and a row for each variant."""
        from html import escape

        from ...reports.numbers import change, format_quantity
        from ...reports.run.answer import sentences
        from ...sim.analysis.notebook import table

        plain = self.summary.to_dict()
        rows = [
            (name, format_quantity(p["metrics"][HEADLINE]["value"], "s"),
             "" if name == BASE else change(p["change"]["value"]))
            for name, p in plain["points"].items()
        ]  # fmt: skip
        said = "".join(f"<p>{escape(text)}</p>" for text in sentences(plain))
        return said + table(self.scenario.name, rows, ("variant", "iteration time, p50", "change"))

    @property
    def journals(self) -> dict[str, list[JournalEntry]]:
        """What devices answered, by variant; empty where none drove a run."""
        return {m.name: m.point.coupled.journal for m in self.measured if m.point.coupled}

    @property
    def results(self) -> dict[str, Result]:
        """The run of each variant with durations as recorded."""
        return {m.name: m.result for m in self.measured}


def study(
    scenario: Scenario | str | os.PathLike[str],
    progress: Progress = lambda _: None,
    threads: int | None = None,
) -> Study:
    """Run everything that a scenario asks.

    Parameters
    ----------
    scenario : as ``load`` gave it, or what ``load`` takes
    progress : told what is being done, a line each
    threads : runs under way at once; as many as there are cores unless said
    """
    if not isinstance(scenario, Scenario):
        from ..config.loader import load

        scenario = load(scenario)
    errors = model_errors(scenario.variants())
    where = provenance(scenario)
    doing = _Doing()
    try:
        with executor(threads) as given, time_limit(scenario.run.time_limit):
            with _driven(scenario) as drive:
                for one in map(drive, variants(scenario)):
                    doing.add(one, errors, given(one), progress)
            if scenario.run.defend and not any(m.point.coupled for m in doing.made):
                from .robustness import defended

                progress("defending: each unmeasured value 10 % off, each kind of part wrong")
                every = [m.point for m in doing.made]
                where |= defended(every, where["values"], given(every[0]))
    except TimeOver:
        if not doing.told:
            raise
    left = doing.left(scenario, where)
    summary = Summary(scenario.name, scenario.question, doing.told, where, left)
    return Study(scenario, tuple(doing.made[: len(doing.told)]), summary)


@dataclass
class _Doing:
    """What is done of a study: a variant counts once it is measured and explained."""

    made: list[VariantResults] = field(default_factory=list)
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    base: Tried | None = None

    def add(
        self, one: Variant, errors: Mapping[str, float], each: MapFunction, progress: Progress
    ) -> None:
        """Run one variant, and say why it takes what it takes."""
        ranks = f"{one.graph.ranks} rank{'s' * (one.graph.ranks != 1)}"
        progress(f"running {one.name}: {len(one.graph):,} ops on {ranks}")
        self.made.append(measured(one, each))
        progress(f"explaining {one.name}: blame, and what a faster part would change")
        tried = with_errors(self.made[-1], errors, each)
        self.base = self.base or tried
        self.told[one.name] = _told(tried, self.base, each)

    def left(self, scenario: Scenario, where: Mapping[str, Any]) -> tuple[str, ...]:
        """What was not finished in time."""
        names = [v.variant for v in scenario.variants() if v.variant not in self.told]
        asked = scenario.run.defend and not any(m.point.coupled for m in self.made)
        return (*names, *(("--defend",) if asked and "break_even" not in where else ()))


def _driven(scenario: Scenario) -> AbstractContextManager[Callable[[Variant], Variant]]:
    """What puts devices into points; what talks to them is imported only where there are any."""
    if not coupled(scenario):
        return nullcontext(lambda point: point)
    from .accuracy.coupled_study import driven

    return driven(scenario)


def _told(tried: Tried, base: Tried, each: MapFunction) -> dict[str, Any]:
    """What one point says."""
    of = tried.of
    changes = what_if_faster(of, each=each)
    found = checked(values(of), [e.that for e in of.point.scenario.expect])
    for name in {HEADLINE, COST} & found.keys():
        found[name] = tried.widened(found[name])
    return {
        "metrics": {k: asdict(v) for k, v in found.items()},
        "expect": _expectations(of, found),
        "blame": of.result.blame().seconds,
        "activity": {box: {"mean": float(t.mean()), "worst": float(t.max())}
                     for box, t in per_iteration(of).items()},
        "faster": [asdict(c) | {"gain": c.gain, "bound": c.bound} for c in changes],
        "sources": of.result.sources,
        "facts": {
            "ops": of.result.count,
            "ranks": of.point.graph.ranks,
            "gpus": len(of.point.simulation.system.gpus),
            **left_out(of.result),
            **{k: v for k, v in of.point.graph.facts.items() if _plain(v)},
        },
        "settings": differences(base.of.point.scenario, of.point.scenario),
        "change": change(base, tried),
    }  # fmt: skip


def per_iteration(of: VariantResults) -> dict[str, NDArray[np.float64]]:
    """Seconds of each rank in each box: those of the mean iteration that counts."""
    result = of.result if of.result.keep != "none" else of.result.detail
    warm_up, count = counted(of.point.scenario)
    edges = step_edges(result)[warm_up : None if count is None else warm_up + count + 1]
    return {box: t.mean(axis=0) for box, t in activities(result, edges).items()}


def left_out(result: Result) -> dict[str, str]:
    """Why there is no table of ops, if there is none."""
    if result.keep == "ops":
        return {}
    return {"table_of_ops": f"left out: the run kept {result.keep}; --keep ops writes it"}


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool)


def _expectations(of: VariantResults, found: Mapping[str, Value]) -> list[dict[str, Any]]:
    """Each condition with the value it is about; a metric that the run lacks is not met."""
    return [
        {
            "that": e.that.text,
            "otherwise": e.otherwise,
            "unit": e.that.unit,
            "value": found[e.that.name].value if e.that.name in found else None,
            "met": e.that.name in found and bool(e.that.holds(found[e.that.name].value)),
            "short": _short(e.that, found),
        }
        for e in of.point.scenario.expect
        if not e.that.metric.startswith(CHECKED)
    ]


def _short(that: Condition, found: Mapping[str, Value]) -> float | None:
    """The relative change of an iteration that would meet a bar of its time; None of another's."""
    if that.metric != "iteration_time" or that.name not in found or not that.op.startswith("<"):
        return None
    return that.limit / found[that.name].value - 1


def what_if_faster(
    of: VariantResults, factor: float = 1.1, each: MapFunction = map
) -> list[Change]:
    """Every kind of component 10 % faster, and free: by running again, unless devices drive it."""
    point = of.point
    if point.coupled is not None:
        return []
    return faster(
        point.simulation,
        lambda s: point.on(s).run(),
        groups(point.simulation),
        factor,
        each,
        of.result.makespan,
    )


def differences(base: Scenario, of: Scenario) -> dict[str, tuple[str, str]]:
    """Settings that differ, as written: ``{path: (base, this)}``."""
    a, b = base.origins, of.origins
    paths = [p for p in dict.fromkeys((*a, *b)) if not p.startswith("what_if")]
    return {
        p: (a[p].text if p in a else "", b[p].text if p in b else "")
        for p in paths
        if (a[p].text if p in a else None) != (b[p].text if p in b else None)
    }
