"""Tables of a sweep's points: the best on the first screen, all points, and the failed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..blocks import (
    Block,
    Code,
    Column,
    FirstScreen,
    Heading,
    Items,
    Line,
    Listing,
    Paragraph,
    Table,
    Tag,
)
from ..numbers import format_change, format_quantity
from ..section import section
from ..texts.headline import metric_in_words
from .cost_ladder import cost_sentences
from .sweep_advice import next_steps
from .sweep_answer import (
    failure_counts,
    is_refused_plan,
    lead_sentences,
    most_and_least_effect,
    rejected_points_text,
    settings_without_effect,
)
from .sweep_results import (
    Summary,
    differing_settings,
    front_points,
    replicas_can_differ,
    setting_name,
    sweep_goals,
    value_text,
)

MOST_ROWS = 500
FAILED_ROWS = 100  # of them, where there are more points
BEST_ROWS = 8
MOST_SETTINGS = 4  # columns of the first screen, beside numbers
NO_JITTER = "unknown: no distribution of the times is known, so all replicas are equal"


@dataclass(frozen=True)
class SweepShown:
    """Input of the sweep page: the sweep's summary and facts about its run.

    Parameters
    ----------
    summary : the summary, as stored in ``summary.json``
    run : ``resolved``, ``command``, ``run``, ``title``, as for a run; and ``file``, the scenario
    """

    summary: Summary
    run: Mapping[str, str]


@section("answer", page="sweep", order=0)
def sweep_answer(sweep: SweepShown) -> Iterable[Block]:
    """First screen of a sweep's page."""
    summary = sweep.summary
    yield FirstScreen(
        lead=lead_sentences(summary),
        table=_best_table(summary),
        findings=[
            (
                "what limits it",
                [
                    (text, "")
                    for text in (*most_and_least_effect(summary), *settings_without_effect(summary))
                ],
            ),
            ("what it costs", [(text, "") for text in cost_sentences(summary)]),
            ("what is expected", [(text, "") for text in rejected_points_text(summary)]),
            ("what to do next", next_steps(summary, sweep.run)),
        ],
        trust=_trust_facts(summary),
    )


def _best_table(summary: Summary) -> Table:
    """Table of the base scenario and the best points; of many settings, only those that differ."""
    front = front_points(summary)[:BEST_ROWS]
    shown = list(summary["vary"])
    if len(shown) > MOST_SETTINGS:  # the leading sentence lists the settings of the best point
        shown = differing_settings(front, summary["vary"])[:MOST_SETTINGS]
    columns = [
        Column(header=True),
        *(Column(setting_name(paths, summary["vary"])) for paths in shown),
        *(Column(metric_in_words(m), number=True) for _, m, _ in sweep_goals(summary)),
        Column("90 % within", number=True, wraps=True),
        Column("change", number=True),
    ]
    rows: list[list[Line]] = []
    if "values" in summary["base"]:
        name: Line = ["as described"]
        if summary["base"].get("missed"):
            name = ["as described ", Tag("misses", "worse")]
        rows.append([name, *_cells(summary, summary["base"], shown), ""])
    name = "best" if len(front) == 1 else "front"
    rows += [[name, *_cells(summary, p, shown), _change_text(summary, p)] for p in front]
    return Table(columns, rows, stacked=True)


def _cells(summary: Summary, point: Mapping[str, Any], shown: Sequence[str]) -> list[Line]:
    """Table cells of a point: settings, metrics, and the interval of the first metric."""
    metrics = _metric_cells(summary, point)
    return [*_setting_cells(point, shown), *metrics, first_metric_interval(summary, point)]


def _setting_cells(point: Mapping[str, Any], shown: Iterable[str]) -> list[Line]:
    return [value_text(point["set"].get(paths, "")) for paths in shown]


def _metric_cells(summary: Summary, point: Mapping[str, Any]) -> list[Line]:
    values = point.get("values", {})
    return [format_quantity(values.get(m), u) if values else "" for _, m, u in sweep_goals(summary)]


def _change_text(summary: Summary, point: Mapping[str, Any]) -> str:
    values, base = point.get("values", {}), summary["base"].get("values", {})
    first = sweep_goals(summary)[0][1]
    if point["set"] and base.get(first) and first in values:
        return format_change(values[first] / base[first] - 1)
    return ""


def first_metric_interval(summary: Summary, point: Mapping[str, Any]) -> str:
    """Text of the 90 % interval of a point's first metric."""
    _, metric, unit = sweep_goals(summary)[0]
    bounds = point.get("intervals", {}).get(metric)
    return " to ".join(format_quantity(b, unit) for b in bounds) if bounds else "unknown"


def _trust_facts(summary: Summary) -> list[tuple[str, str]]:
    counts, method = summary["counts"], summary["method"]
    return [
        ("interval", _certainty_sentence(summary)),
        ("points", f"{counts['points']} distinct points of {counts['asked']} requested"),
        ("chosen by", method["sampler"]),
        ("seed", str(method["seed"])),
        ("failed", str(counts["failed"])),
        ("hardware check", "none was made"),
    ]


def _certainty_sentence(summary: Summary) -> str:
    """Text on the interval of the best point, and on the errors it includes."""
    front = front_points(summary)
    if summary.get("ranking"):
        return (
            "for differences between the best points (see below): includes model errors and jitter"
        )
    bounds = first_metric_interval(summary, front[0]) if front else "unknown"
    if bounds == "unknown":
        return "unknown: needs ten replicas" if replicas_can_differ(summary) else NO_JITTER
    return f"{bounds} for the best point: includes the jitter of its replicas, but no model error"


@section("points", page="sweep", title="Points", order=50)
def points_table(sweep: SweepShown) -> Iterable[Block]:
    """Section with a table of all points, the front first, and a table of failed points."""
    summary = sweep.summary
    rows = _ordered_points(summary)
    if more := len(summary["points"]) - len(rows):
        yield Paragraph([f"{more} more are in ", Code("points.parquet"), "."])
    settings = [Column(setting_name(p, summary["vary"]), title=p) for p in summary["vary"]]
    failed = [p for p in rows if "error" in p]
    if len(failed) < len(rows):
        yield _finished_table(summary, settings, [p for p in rows if "error" not in p])
    if failed:
        yield Heading("Refused plans" if all(map(is_refused_plan, failed)) else "Failed points")
        shown = [[*_setting_cells(p, summary["vary"]), p["error"]["message"]] for p in failed]
        yield Table([*settings, Column("why", wraps=True)], shown, stacked=True)


def _finished_table(
    summary: Summary, settings: Sequence[Column], rows: Sequence[Mapping[str, Any]]
) -> Table:
    columns = [
        Column(),
        *settings,
        *(Column(metric_in_words(m), number=True) for _, m, _ in sweep_goals(summary)),
        Column("change", number=True),
        Column(),
    ]
    return Table(columns, [_point_row(summary, p) for p in rows])


def _ordered_points(summary: Summary) -> list[Mapping[str, Any]]:
    way, metric, _ = sweep_goals(summary)[0]
    sign = 1 if way == "minimize" else -1
    whole = [p for p in summary["points"] if metric in p.get("values", {})]
    whole.sort(key=lambda p: (not p["front"], bool(p["missed"]), sign * p["values"][metric]))
    rest = [p for p in summary["points"] if metric not in p.get("values", {})]
    return [*whole[: MOST_ROWS - min(len(rest), FAILED_ROWS)], *rest][:MOST_ROWS]


def _point_row(summary: Summary, point: Mapping[str, Any]) -> list[Line]:
    missed = "; ".join(point.get("missed", ()))
    tag: Line = ""
    if point.get("front"):
        tag = Tag("front", "better")
    elif missed:
        tag = Tag("misses", "worse")
    cells = [*_setting_cells(point, summary["vary"]), *_metric_cells(summary, point)]
    return [tag, *cells, _change_text(summary, point), missed]


@section("failures", page="sweep", title="What failed", order=60)
def failure_reasons(sweep: SweepShown) -> Iterable[Block]:
    """Section on the reasons of failed points, and how often each occurred."""
    if reasons := failure_counts(sweep.summary):
        yield Items([f"{n} point{'s' * (n != 1)}: {message}" for message, n in reasons.items()])


@section("reproduce", page="sweep", title="Reproduce", order=95)
def how_to_repeat_sweep(sweep: SweepShown) -> Iterable[Block]:
    """Section with the command and the scenario with all values resolved."""
    run = sweep.run
    yield Paragraph(
        ["Run ", Code("foretrace sweep resolved.yaml"), " in the sweep's folder (",
         Code(run["run"]), "): the same seed and inputs give the same ", Code("summary.json"),
         ", byte for byte, on any workers. It was made by ", Code(run["command"]),
         ". Every metric of every point is in ", Code("points.parquet"), "."]
    )  # fmt: skip
    yield Listing(run["resolved"], "Resolved scenario, every value with its source")
