"""Summary of a sweep as plain data, for ``summary.json``, ``--json`` and the report.

The same points give the same bytes, whichever workers ran them and however often they were
interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...config.condition import Condition
from ...config.scenario import Scenario
from ...config.sections.sweep import Objective, Sweep
from ..variants.answers import StudyAnswer, answer_of
from .pareto import pareto_front
from .trial import SweepTrial

if TYPE_CHECKING:
    from ....reports.paper.plots import Plots

SCHEMA = 1
Ranking = tuple[tuple[SweepTrial, Mapping[str, Any]], ...]
"""Best points in order, each with its differences from others (see ``ranking.rank_points``)."""


@dataclass(frozen=True)
class Swept:
    """Results of a sweep.

    Parameters
    ----------
    scenario : Scenario
    sampler : full name of the sampler that chose the points
    base : outcome of the scenario without changes
    trials : outcome of each distinct point, in the order in which the method chose them
    asked : number of points that the method returned, including repeated ones
    ranking : best points in order, if they are to be ranked
    """

    scenario: Scenario
    sampler: str
    base: SweepTrial
    trials: tuple[SweepTrial, ...]
    asked: int
    ranking: Ranking = ()

    def summary(self) -> dict[str, Any]:
        """Summary as plain data, as ``foretrace sweep --json`` prints it."""
        return sweep_summary(self)

    def frame(self) -> Any:
        """A pandas data frame, one row per point, settings and metrics (SI) as columns."""
        import pandas as pd

        rows = [{**t.settings, **t.values} for t in self.trials]
        return pd.DataFrame(rows)

    @property
    def plot(self) -> Plots:
        """Figures of the report's sections by matplotlib: ``swept.plot.pareto()``."""
        from ....reports.paper.plots import Plots
        from ....reports.sweep.points import SweepShown

        texts = dict.fromkeys(("resolved", "command", "run", "title"), "")
        run = {**texts, "file": self.scenario.file}
        return Plots("sweep", SweepShown(self.summary(), run))

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        from html import escape

        from ....reports.sweep.sweep_answer import answer_sentences

        paragraphs = "".join(f"<p>{escape(text)}</p>" for text in answer_sentences(self.summary()))
        return paragraphs + str(self.frame().to_html(max_rows=20))

    @property
    def failed(self) -> tuple[SweepTrial, ...]:
        """Points that failed, without parallel plans that were rejected."""
        return tuple(t for t in self.trials if t.error is not None and not t.refused)

    @property
    def wanted(self) -> tuple[Objective, ...]:
        """Objectives of the sweep; by default the deciding metric."""
        section: Sweep = self.scenario.section("sweep")
        return section.optimize or (default_objective(answer_of(self.scenario)),)


def sweep_summary(swept: Swept) -> dict[str, Any]:
    """Summary of a sweep as plain data, with points in the order of the method."""
    scenario = swept.scenario
    section: Sweep = scenario.section("sweep")
    answer = answer_of(scenario)
    wanted = swept.wanted
    rows = [_trial_row(t, scenario.expect) for t in swept.trials]
    best = _best_rows(swept.trials, rows, wanted)
    for i in best:
        rows[i]["front"] = True
    return {
        "schema": SCHEMA,
        "kind": "sweep",
        "name": scenario.name,
        "question": scenario.question,
        "method": {"name": section.method, "sampler": swept.sampler, "seed": scenario.run.seed},
        "vary": _tried_values(section, swept.trials),
        "answer": answer.to_dict(),
        "optimize": [{**o.to_dict(), "unit": o.unit} for o in wanted],
        "expect": [{"that": e.that.text, "otherwise": e.otherwise, "metric": e.that.name,
                    "limit": e.that.limit} for e in scenario.expect],
        "counts": {
            "asked": swept.asked,
            "points": len(rows),
            "failed": len(swept.failed),
            **({"refused": refused} if (refused := sum(t.refused for t in swept.trials)) else {}),
            "missed": sum(bool(r.get("missed")) for r in rows),
            "front": len(best),
        },
        "base": _trial_row(swept.base, scenario.expect),
        "points": rows,
        "no_effect": settings_without_effect(swept.trials, wanted),
        **({"ranking": _ranking_rows(swept)} if swept.ranking else {}),
        **({"quick": True} if swept.ranking and scenario.run.quick else {}),
    }  # fmt: skip


def best_trials(swept: Swept) -> list[SweepTrial]:
    """Points that meet all conditions, sorted by the first objective, best first."""
    first = swept.wanted[0]
    strict = [e.that for e in swept.scenario.expect if e.otherwise == "fail"]
    fit = [
        t
        for t in swept.trials
        if first.metric in t.values and all(c.holds(t.values.get(c.name, NAN)) for c in strict)
    ]
    return sorted(fit, key=lambda t: first.sign * t.values[first.metric])


def _ranking_rows(swept: Swept) -> list[dict[str, Any]]:
    """Ranked points with their index among all points, and their differences."""
    place = {t.key: i for i, t in enumerate(swept.trials)}
    return [{"point": place[t.key], **found} for t, found in swept.ranking]


def _tried_values(section: Sweep, trials: Sequence[SweepTrial]) -> dict[str, Any]:
    """Values of each setting: those in ``vary``, and those that the method chose."""
    said = {
        paths: list(v.to_dict().values()) if hasattr(v, "values") else v.to_dict()
        for paths, v in section.vary.items()
    }
    chosen: dict[str, list[Any]] = {}
    for trial in trials:
        for path, value in trial.settings.items():
            if path not in said and value not in chosen.setdefault(path, []):
                chosen[path].append(value)
    return {**said, **{path: _in_order(values) for path, values in chosen.items()}}


def _in_order(values: list[Any]) -> list[Any]:
    """Values sorted if all are numbers; otherwise in the given order."""
    return sorted(values) if all(isinstance(v, int | float) for v in values) else values


def default_objective(answer: StudyAnswer) -> Objective:
    """Objective of a sweep that names none: the deciding metric."""
    return Objective(answer.metric, answer.unit, answer.sign)


def _trial_row(trial: SweepTrial, expect: Sequence[Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"set": trial.settings}
    if trial.error is not None:
        return {**row, "error": dict(trial.error)}
    missed = [e.that.text for e in expect if not e.that.holds(trial.values.get(e.that.name, NAN))]
    strict = {e.that.text for e in expect if e.otherwise == "fail"}
    return {
        **row,
        "values": dict(trial.values),
        "intervals": {k: list(v) for k, v in trial.intervals.items()},
        "missed": [m for m in missed if m in strict],
        "warned": [m for m in missed if m not in strict],
        "unsure": [e.that.text for e in expect if _is_straddled(e.that, trial)],
        "front": False,
        **({} if trial.varies else {"varies": False}),
    }


NAN = float("nan")


def _is_straddled(that: Condition, trial: SweepTrial) -> bool:
    """True if the limit of a condition lies inside the metric's interval, so it is undecided."""
    bounds = trial.intervals.get(that.name)
    return bounds is not None and that.holds(bounds[0]) != that.holds(bounds[1])


def _best_rows(
    trials: Sequence[SweepTrial], rows: Sequence[dict[str, Any]], wanted: Sequence[Objective]
) -> list[int]:
    """Indices of the Pareto front among the points that meet all conditions."""
    fit = [
        i
        for i, (t, r) in enumerate(zip(trials, rows, strict=True))
        if t.error is None and not r["missed"] and all(o.metric in t.values for o in wanted)
    ]
    found = pareto_front([tuple(o.sign * trials[i].values[o.metric] for o in wanted) for i in fit])
    return [fit[i] for i in found]


LEAST = 5e-4  # smallest relative change that counts


def settings_without_effect(trials: Sequence[SweepTrial], wanted: Sequence[Objective]) -> list[str]:
    """Settings that changed no objective between points that differ in this setting only.

    A setting that never differed alone, as in a search, is not judged.

    Examples
    --------
    >>> points = [{"a": a, "b": b} for a in (1.0, 2.0) for b in (1, 2)]
    >>> trials = [SweepTrial(point, "", {"makespan": point["a"]}) for point in points]
    >>> settings_without_effect(trials, [Objective("makespan", "s", 1)])
    ['b']
    """
    found = []
    for setting in trials[0].settings if trials else ():
        changes = [c for o in wanted for c in _changes_by_setting(trials, setting, o.metric)]
        if changes and max(changes) < LEAST:
            found.append(setting)
    return found


def _changes_by_setting(trials: Sequence[SweepTrial], setting: str, metric: str) -> list[float]:
    """Relative range of a metric within groups of points that differ in one setting only."""
    alike: dict[str, list[float]] = {}
    for t in trials:
        if metric in t.values:
            others = repr([(k, v) for k, v in t.settings.items() if k != setting])
            alike.setdefault(others, []).append(t.values[metric])
    groups = [values for values in alike.values() if len(values) > 1]
    return [(max(g) - min(g)) / (abs(max(g, key=abs)) or 1.0) for g in groups]
