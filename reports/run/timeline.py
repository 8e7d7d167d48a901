"""The timeline of two ranks over the first steps."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...sim.analysis.metrics import step_edges
from ...sim.result import Result
from ..blocks import BarChart, Block, Code, Inline, Paragraph
from ..figures import schedule
from ..numbers import format_quantity
from ..section import section
from .study import StudyShown

TWO_STEPS = 2


@section("timeline", title="Timeline", order=50)
def timeline(study: StudyShown) -> Iterable[Block]:
    """What two ranks of the scenario as described do, and where the rest can be seen."""
    chart, note = _timeline(study.base_result)
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


def _timeline(result: Result) -> tuple[BarChart, str]:
    """The slowest and the median rank over the first two steps."""
    result = result.detail  # a timeline needs a row an op
    edges = step_edges(result)
    window = int(edges[0]), int(edges[min(TWO_STEPS, len(edges) - 1)])
    ended = result.columns.end >= 0
    last = np.zeros(int(result.ops.rank.max(initial=0)) + 1, np.int64)
    np.maximum.at(last, result.ops.rank[ended], result.columns.end[ended])
    order = np.argsort(last, kind="stable")
    ranks = sorted({int(order[-1]), int(order[len(order) // 2])})
    chart, least = schedule.timeline(result, ranks, window)
    listed = " and ".join(map(str, ranks))
    steps = min(TWO_STEPS, len(edges) - 1)
    which = f"rank {listed}" if len(ranks) == 1 else f"ranks {listed} (the slowest and the median)"
    span = "The only step" if steps == 1 == len(edges) - 1 else f"The first {steps} steps"
    return (
        chart,
        f"{span} of {which}; bars less than {format_quantity(least, 's')} apart are drawn as one.",
    )
