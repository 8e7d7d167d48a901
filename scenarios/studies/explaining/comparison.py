"""Comparison of runs: different settings, different metrics, and causes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....sim.errors import ScenarioError, SimulationError

if TYPE_CHECKING:
    from ....reports.paper.plots import Plots
    from ...config.condition import Condition
    from ...config.scenario import Scenario
    from ..run.run import Study

METRICS = (  # shown if they differ, in this order
    "cost_per_million_tokens",
    "cost_per_hour",
    "exposed_communication.mean",
    "waiting.mean",
    "makespan",
    "tokens_per_second.p50",
    "gpu.utilization.mean",
    "nic.utilization.mean",
)
LEAST = 5e-4  # smallest relative change that counts
MOST_COLUMNS = 3  # metrics shown next to the headline
APART = ("name", "question", "report", "what_if", "sweep", "expect", "catalog")
"""Sections that do not change a result."""
Told = dict[str, tuple[str, str]]


@dataclass(frozen=True)
class ComparisonRow:
    """One run compared with the first.

    Parameters
    ----------
    name : name of the run or variant
    values : metric values in SI
    changes : changes relative to the first run, for metrics of both
    interval : interval of the headline's change from paired replicas; None for none
    settings : settings that differ from the first run: ``{path: (first, this)}``
    activity : mean seconds per iteration of each activity of a rank
    blame : seconds of the critical path by component
    """

    name: str
    values: Mapping[str, float]
    changes: Mapping[str, float]
    interval: tuple[float, float] | None = None
    settings: Told = field(default_factory=dict)
    activity: Mapping[str, float] = field(default_factory=dict)
    blame: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """Runs compared with the first of them; notebooks show it as a table.

    Parameters
    ----------
    rows : one row per run, the first is the reference
    answer : deciding metric of the first run
    """

    rows: tuple[ComparisonRow, ...]
    answer: Mapping[str, str] = field(default_factory=lambda: {"metric": "makespan", "unit": "s"})

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the deciding metric and of other metrics that differ between the runs."""
        named = {m: [abs(r.changes[m]) for r in self.rows if m in r.changes] for m in METRICS}
        differing = [m for m, c in named.items() if max(c, default=0.0) >= LEAST]
        headline = self.answer["metric"]
        return (headline, *[m for m in differing if m != headline][:MOST_COLUMNS])

    @property
    def no_effect(self) -> tuple[str, ...]:
        """Settings that differ only in runs without any change of a metric."""
        same = [r for r in self.rows[1:] if all(abs(c) < LEAST for c in r.changes.values())]
        moved = {p for r in self.rows[1:] if r not in same for p in r.settings}
        return tuple(dict.fromkeys(p for r in same for p in r.settings if p not in moved))

    def missed(self, conditions: Iterable[Condition]) -> list[str]:
        """Conditions of ``--fail-if`` that are met, as ``run: condition``.

        Raises
        ------
        ScenarioError
            A run lacks the metric.
        """
        found = []
        for condition in conditions:
            for row in self.rows[1:]:
                if condition.name not in row.changes:
                    raise ScenarioError(
                        f"{condition.name}: {row.name} or {self.rows[0].name} has no such metric; "
                        f"write one of {', '.join(list(row.values)[:8])} …"
                    )
                if condition.holds(row.changes[condition.name]):
                    found.append(f"{row.name}: {condition.text}")
        return found

    def why(self, row: ComparisonRow) -> str:
        """Largest differences to the first run in the time of each activity of a rank, as text.

        Computing is one activity here, whether or not it hides communication.

        Examples
        --------
        >>> a = ComparisonRow("a", {}, {}, activity={"compute": 1.0, "overlapped": 0.5})
        >>> moved = {"compute": 1.4, "overlapped": 0.1, "idle": 0.1}
        >>> b = ComparisonRow("b", {}, {}, activity=moved)
        >>> Comparison((a, b)).why(b)
        'idle 0 s -> 100 ms'
        """
        from ....reports.numbers import format_quantity

        base, here = _with_hidden_in_computing(self.rows[0].activity, row.activity)
        whole = sum(base.values()) or 1.0
        moved = {box: t - base.get(box, 0.0) for box, t in here.items()}
        first = sorted(moved, key=lambda box: -abs(moved[box]))[:2]
        return ", ".join(
            f"{box.replace('_', ' ')} {format_quantity(base.get(box, 0.0), 's')} -> "
            f"{format_quantity(here[box], 's')}"
            for box in first
            if abs(moved[box]) / whole >= LEAST
        )

    def limit(self, row: ComparisonRow) -> str:
        """Text about the component with most of the critical path of a run.

        Examples
        --------
        >>> a = ComparisonRow("a", {}, {}, blame={"node0.gpu0": 3.0, "fabric": 1.0})
        >>> Comparison((a,)).limit(a)
        'the critical path is node0.gpu0 for 75 % of its time'
        """
        whole = sum(row.blame.values())
        if not whole:
            return ""
        who = max(row.blame, key=lambda name: row.blame[name])
        return f"the critical path is {who} for {100 * row.blame[who] / whole:.0f} % of its time"

    def frame(self) -> Any:
        """A pandas data frame, one row per run, one column per metric (SI)."""
        import pandas as pd

        return pd.DataFrame({r.name: dict(r.values) for r in self.rows}).T

    @property
    def plot(self) -> Plots:
        """Figures of the comparison by matplotlib: ``comparison.plot.answer()``."""
        from ....reports.comparison.comparison_page import ComparisonShown
        from ....reports.paper.plots import Plots

        rows = [{**asdict(row), "why": "", "limit": "", "see": ""} for row in self.rows]
        facts = {"answer": self.answer, "no_effect": self.no_effect, "command": "", "units": {}}
        return Plots("comparison", ComparisonShown(rows, facts))

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        return str(self.frame()[list(self.metrics)].to_html())


def _with_hidden_in_computing(*told: Mapping[str, float]) -> list[dict[str, float]]:
    """Activities with ``compute`` and ``overlapped`` merged, if any run has overlapped compute.

    >>> _with_hidden_in_computing({"compute": 2.0, "overlapped": 1.0}, {"compute": 2.0})
    [{'compute and overlapped': 3.0}, {'compute and overlapped': 2.0}]
    """
    if not any(activity.get("overlapped") for activity in told):
        return [dict(activity) for activity in told]
    both = ("compute", "overlapped")
    return [
        {" and ".join(both): sum(activity.get(box, 0.0) for box in both)}
        | {box: t for box, t in activity.items() if box not in both}
        for activity in told
    ]


def compare(
    *runs: str | os.PathLike[str] | Scenario | Study,
    out: str = "runs",
    beside: str = "",
    simulate: Callable[[Scenario], Study] | None = None,
) -> Comparison:
    """Compare runs with the first of them, or the variants of a single run with its base.

    Parameters
    ----------
    runs : scenarios (files, bundled names, loaded ones), studies, or saved runs (folders,
        ``summary.json``, the beginning of a name)
    out : folder in which saved runs are searched by name
    beside : variant of a single run, to which its other variants are compared; by default the base
    simulate : function that runs a scenario without a saved run; by default ``study``

    Raises
    ------
    ScenarioError
        An argument is none of these.
    """
    read = [_read_run(run, out, simulate) for run in runs]
    if len(read) == 1:
        points = read[0].points
        if len(points) == 1:
            raise ScenarioError(
                f"{read[0].name}: is a single run without variants (what_if); give a second run or "
                "scenario to compare with"
            )
        return Comparison(tuple(_variant_rows(points, beside)), read[0].answer)
    if beside:
        raise ScenarioError(
            "--with: needs a single scenario or run; give only one, or put the run to compare with "
            "first"
        )
    first = read[0]
    rows = []
    for one, name in zip(read, _run_names(read), strict=True):
        point = next(iter(one.points.values()))
        rows.append(
            _comparison_row(
                name, point, first.points, _differing_settings(first.settings, one.settings)
            )
        )
    return Comparison(tuple(rows), first.answer)


def _variant_rows(points: Mapping[str, Any], beside: str) -> Iterator[ComparisonRow]:
    """Comparison row of each variant, the reference first."""
    if beside and beside not in points:
        raise ScenarioError(f"--with: no variant '{beside}'; write one of {', '.join(points)}")
    first = beside or next(iter(points))
    ordered = {first: points[first], **points}
    for name, point in ordered.items():
        settings = _settings_between(points[first]["settings"], point["settings"])
        if first == next(iter(points)):
            yield _comparison_row(name, point, ordered, settings)
        else:  # intervals of changes are known only against the base
            yield replace(_comparison_row(name, point, ordered, settings), interval=None)


def _settings_between(first: Told, second: Told) -> Told:
    """Settings that differ between two variants, given how each variant differs from the base.

    >>> _settings_between({"a": ("1", "2")}, {"a": ("1", "3"), "b": ("", "4")})
    {'a': ('2', '3'), 'b': ('', '4')}
    """
    base = {path: was for told in (first, second) for path, (was, _) in told.items()}
    pairs = {
        p: (first.get(p, (was, was))[1], second.get(p, (was, was))[1]) for p, was in base.items()
    }
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}


@dataclass(frozen=True)
class _ComparedRun:
    name: str
    answer: Mapping[str, str]
    points: Mapping[str, Any]
    settings: Mapping[str, str]
    folder: str = ""


def _run_names(runs: Sequence[_ComparedRun]) -> list[str]:
    """Names of runs; those of the same scenario include their folder."""
    told = [one.name for one in runs]
    return [
        f"{one.name}/{one.folder}" if one.folder and told.count(one.name) > 1 else one.name
        for one in runs
    ]


def _read_run(run: Any, out: str, simulate: Callable[[Scenario], Study] | None) -> _ComparedRun:
    """Summary and settings of a run; a scenario with a saved run is not run again."""
    from ...config.scenario import Scenario
    from ..run.run import Study

    if isinstance(run, Study):
        return _compared_run_of_study(run)
    if isinstance(run, Scenario):
        return _compared_run_of_scenario(run, out, simulate)
    if not isinstance(run, str | os.PathLike):
        raise ScenarioError(
            f"compare: {type(run).__name__} is not a run; give a study, a scenario or a saved run"
        )
    if (folder := saved_run_path(os.fspath(run), out)) is not None:
        return _compared_run_of_folder(folder)
    from ...config.loader import load

    return _compared_run_of_scenario(load(run), out, simulate)


def _compared_run_of_scenario(
    scenario: Scenario, out: str, simulate: Callable[[Scenario], Study] | None
) -> _ComparedRun:
    """Saved run of a scenario, else a new one; real devices are measured each time."""
    from ...config.hil_settings import live_devices_drive_run
    from ..run.run import study
    from ..run.run_folder import existing_run

    folder = None if live_devices_drive_run(scenario) else existing_run(Path(out), scenario)
    if folder is not None:
        return replace(_compared_run_of_folder(folder), folder="")
    return _compared_run_of_study((simulate or study)(scenario))


def _compared_run_of_study(done: Study) -> _ComparedRun:
    """Run of a study; an unfinished study cannot be compared."""
    if left := done.summary.unfinished:
        raise SimulationError(
            "time limit",
            f"{', '.join(left)} of {done.scenario.name} did not finish; raise run.time_limit or "
            "shorten the run",
        )
    told = done.summary.to_dict()
    return _ComparedRun(
        done.scenario.name, told["answer"], told["points"], _flat_settings(done.scenario.resolved())
    )


def saved_run_path(name: str, out: str) -> Path | None:
    """Folder of a saved run, or its summary file; None if the name is a scenario."""
    from ...config.loader import LIBRARY
    from ..folders.saved_runs import find_run_folder

    path = Path(name)
    if path.is_dir() or path.suffix == ".json":
        return path
    if path.exists() or path.suffix or name.startswith("foretrace:"):
        return None
    return None if (LIBRARY / f"{name}.yaml").is_file() else find_run_folder(name, Path(out))


def _compared_run_of_folder(folder: Path) -> _ComparedRun:
    from ..run.run_folder import load_summary

    summary = load_summary(folder)
    if summary.get("kind") == "sweep":
        raise ScenarioError(f"{folder}: is a sweep; see its report, or give runs")
    kept = (folder if folder.is_dir() else folder.parent) / "resolved.yaml"
    settings = _flat_settings(_resolved_scenario(kept)) if kept.is_file() else {}
    return _ComparedRun(
        summary["name"], summary["answer"], summary["points"], settings, kept.parent.name
    )


def _resolved_scenario(file: Path) -> dict[str, Any]:
    """Settings of a saved run, with current names."""
    from ...config.reading.document import read_yaml_file
    from ...config.reading.renamed_settings import with_current_names
    from ...config.reading.tree import to_dict

    told: dict[str, Any] = to_dict(with_current_names(read_yaml_file(file, str(file))))
    return told


def _flat_settings(settings: dict[str, Any]) -> dict[str, str]:
    from ...config.scenario import values_by_dotted_path

    kept = {k: v for k, v in settings.items() if k not in APART}
    return {
        setting: str(value).lower() if isinstance(value, bool) else str(value)
        for setting, value in values_by_dotted_path(kept).items()
    }


def _differing_settings(base: Mapping[str, str], other: Mapping[str, str]) -> Told:
    """Settings that differ between two runs; "" if a run lacks one.

    >>> _differing_settings({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
    {'b': ('2', '3'), 'c': ('', '4')}
    """
    paths = [p for p in {**base, **other} if base.get(p) != other.get(p)]
    return {p: (base.get(p, ""), other.get(p, "")) for p in paths}


def _comparison_row(name: str, point: Any, base: Mapping[str, Any], settings: Any) -> ComparisonRow:
    first = next(iter(base.values()))
    was = {m: v["value"] for m, v in first["metrics"].items()}
    is_ = {m: v["value"] for m, v in point["metrics"].items() if v["value"] is not None}
    own = name in base and base[name] is point and point is not first
    bounds = point["change"]["interval"] if own else None
    return ComparisonRow(
        name,
        is_,
        {m: _relative_change(was[m], v) for m, v in is_.items() if was.get(m) is not None},
        (bounds[0], bounds[1]) if bounds else None,
        {p: (a, b) for p, (a, b) in settings.items()},
        {box: t["mean"] for box, t in point["activity"].items()},
        point["blame"],
    )


def _relative_change(was: float, is_: float) -> float:
    if was == is_:
        return 0.0
    return is_ / was - 1 if was else float("inf")
