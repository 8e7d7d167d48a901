"""Section with the timeline; its static figure shows two ranks over the first steps or a window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...sim.analysis.periods import period_edges, step_edges
from ...sim.run.result import Result
from ..blocks import BarChart, Block, Code, Inline, Live, Paragraph
from ..figures import schedule
from ..figures.timeline_source import timeline_data
from ..numbers import format_quantity
from ..section import section
from ..texts.study import StudyShown

TWO_STEPS = 2


@section("timeline", title="Timeline", order=50)
def timeline(study: StudyShown) -> Iterable[Block]:
    """Section with the timeline of every variant, and where the full timeline is stored."""
    base = study.base
    first = next(iter(study.points))
    if not all(result.count for result in study.results.values()):
        return
    chart, note = timeline_chart(study.rows_of(first), base.get("window"), base.get("late"))
    text: list[Inline] = [
        "All variants over one time axis. They are also in ",
        Code("timeline.pftrace"),
        ", in the run's folder: open it in ui.perfetto.dev.",
    ]
    if study.summary["provenance"]["jitter"]["state"] == "unknown":
        text.append(" Ops have no jitter: no distribution of their times is known.")
    if study.rows:
        text.append(f" Of {', '.join(study.rows)} it shows a part that was run again for its ops.")
    if cut := study.run["timeline_cut"]:
        text += [
            f" That file leaves out the last {cut} slices; every op is in ",
            Code("ops.*.parquet"),
            ".",
        ]
    yield Paragraph(text)
    results = {name: study.rows_of(name) for name in study.results}
    spotlight = {
        name: [r for r in (late["cause"], _longest_waiting(late)) if r is not None]
        for name, p in study.points.items()
        if (late := p.get("late")) is not None
    }
    yield Live("timeline", timeline_data(results, spotlight), chart, note)


def timeline_chart(
    result: Result,
    window: Mapping[str, float] | None = None,
    lateness: Mapping[str, Any] | None = None,
) -> tuple[BarChart, str]:
    """Static timeline of two ranks over the first two steps or over a window, and its caption.

    If one rank causes the waiting, they are that rank and the one that waits longest; else the
    slowest and the median rank.

    Parameters
    ----------
    result : result of the run
    window : ``first`` and ``last`` time of the window, in s
    lateness : waiting for late ranks; see :func:`~.waiting.last_arriver_sentence`
    """
    result = result.detail  # a timeline needs one row per op
    span, text = _span(result, window)
    ranks, which = _ranks_shown(result, lateness)
    chart, least = schedule.timeline_bars(result, ranks, span)
    return (
        chart,
        f"{text} of {which}; each {format_quantity(least, 's')} shows the kind with most time.",
    )


def _ranks_shown(result: Result, lateness: Mapping[str, Any] | None) -> tuple[list[int], str]:
    """Ranks to draw, and a text that says which they are."""
    if lateness is not None and lateness["cause"] is not None:
        cause = int(lateness["cause"])
        waits = _longest_waiting(lateness)
        return sorted({cause, waits}), (
            f"rank {cause}, which others wait for, and rank {waits}, which waits longest"
        )
    ended = result.columns.end >= 0
    rank = np.concatenate([result.rank(run)[: len(run.lowered)] for run in result.runs])
    last = np.zeros(int(rank.max(initial=0)) + 1, np.int64)
    np.maximum.at(last, rank[ended], result.columns.end[ended])
    order = np.argsort(last, kind="stable")
    slowest, median = int(order[-1]), int(order[len(order) // 2])
    if slowest == median:
        return [slowest], f"rank {slowest}"
    return sorted({slowest, median}), f"rank {slowest} (ends last) and rank {median} (the median)"


def _longest_waiting(lateness: Mapping[str, Any]) -> int:
    return int(max(lateness["ranks"], key=lambda one: float(one["waiting"]))["rank"])


def _span(result: Result, window: Mapping[str, float] | None) -> tuple[tuple[int, int], str]:
    """Time span to draw as (first tick, last tick), and a text that describes it."""
    if window is not None:
        first, last = (round(window[end] / result.tick) for end in ("first", "last"))
        length = format_quantity(window["last"] - window["first"], "s")
        of = window.get("repeated")
        text = f"The {length} around the worst sample of the answer"
        return (first, last), f"The last {length} of {of}" if of else text
    edges = step_edges(result)
    if period_edges(result) is None:
        return (int(edges[0]), int(edges[-1])), "The whole run"
    steps = min(TWO_STEPS, len(edges) - 1)
    text = "The only step" if steps == 1 == len(edges) - 1 else f"The first {steps} steps"
    return (int(edges[0]), int(edges[steps])), text
