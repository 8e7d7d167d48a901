"""The timeline of two ranks over the first steps, or over a window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ...sim.analysis.periods import period_edges, step_edges
from ...sim.result import Result
from ..blocks import BarChart, Block, Code, Inline, Paragraph
from ..figures import schedule
from ..numbers import format_quantity
from ..section import section
from .study import StudyShown

TWO_STEPS = 2


@section("timeline", title="Timeline", order=50)
def timeline(study: StudyShown) -> Iterable[Block]:
    """Figure of two ranks of the base scenario, and where the full timeline is."""
    chart, note = _timeline(study.base_result, study.base.get("window"))
    text: list[Inline] = [
        f"{note} All variants are in ",
        Code("timeline.pftrace"),
        ", in the run's folder: open it in ui.perfetto.dev.",
    ]
    if cut := study.run["timeline_cut"]:
        text += [
            f" The last {cut} slices were too many for that file; every op is in ",
            Code("ops.*.parquet"),
            ".",
        ]
    yield Paragraph(text)
    yield chart


def _timeline(result: Result, window: Mapping[str, float] | None) -> tuple[BarChart, str]:
    """Bars of the slowest and the median rank over the first two steps, or over a window."""
    result = result.detail  # a timeline needs one row per op
    span, text = _span(result, window)
    ended = result.columns.end >= 0
    rank = np.concatenate([result.rank(run)[: len(run.lowered)] for run in result.runs])
    last = np.zeros(int(rank.max(initial=0)) + 1, np.int64)
    np.maximum.at(last, rank[ended], result.columns.end[ended])
    order = np.argsort(last, kind="stable")
    ranks = sorted({int(order[-1]), int(order[len(order) // 2])})
    chart, least = schedule.timeline_bars(result, ranks, span)
    listed = " and ".join(map(str, ranks))
    which = f"rank {listed}" if len(ranks) == 1 else f"ranks {listed} (the slowest and the median)"
    return (
        chart,
        f"{text} of {which}; bars less than {format_quantity(least, 's')} apart are drawn as one.",
    )


def _span(result: Result, window: Mapping[str, float] | None) -> tuple[tuple[int, int], str]:
    """The span shown: first and last tick, and its description."""
    if window is not None:
        first, last = (round(window[end] / result.tick) for end in ("first", "last"))
        length = format_quantity(window["last"] - window["first"], "s")
        return (first, last), f"The {length} around the worst sample of the answer"
    edges = step_edges(result)
    if period_edges(result) is None:
        return (int(edges[0]), int(edges[-1])), "The whole run"
    steps = min(TWO_STEPS, len(edges) - 1)
    text = "The only step" if steps == 1 == len(edges) - 1 else f"The first {steps} steps"
    return (int(edges[0]), int(edges[steps])), text
