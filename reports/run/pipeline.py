"""The pipeline of a training step, drawn as its papers draw it: stages over time, passes in boxes.

Sources: Huang et al. 2019 (arXiv:1811.06965), figure 2; Narayanan et al. 2021 (arXiv:2104.04473),
figures 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.ops import Kind
from ...sim.result import Result
from ...sim.units import Seconds, seconds
from ..blocks import BarChart, Bars, BarText, Block, Column, Heading, Line, Paragraph, Table
from ..figures.schedule import seconds_scale
from ..numbers import format_quantity, format_share
from ..palette import mixed
from ..section import section
from .study import StudyShown

FACT = "pipeline"  # of a graph: ``stages``, ``ranks`` of each, ``turns`` of each
MOST_PASSES = 8_000  # of a drawing
LEAST = 0.011  # of the width: a box with room for its number
FORWARD, BACKWARD = "var(--series-1)", "var(--series-2)"
PALER = 45  # per cent of the colour, for every second chunk of a stage


class Pass(NamedTuple):
    """A micro-batch's way through one chunk of one stage, and when it ran, s."""

    stage: int
    forward: bool
    micro_batch: int
    chunk: int
    start: Seconds
    end: Seconds


@section("pipeline", title="Pipeline", order=24)
def pipeline(study: StudyShown) -> Iterable[Block]:
    """Drawing of the passes of every stage in the last iteration, and how much of it is bubble."""
    found = {name: passes_of_stages(result) for name, result in study.results.items()}
    found = {name: passes for name, passes in found.items() if passes}
    if not found:
        return
    yield Paragraph(
        "Each row is a stage of the pipeline, each box the way of a micro-batch, whose number is "
        "in it, through the layers of the stage; blank is the bubble."
    )
    columns = [
        Column("variant", header=True), Column("stages", number=True),
        Column("micro-batches", number=True), Column("chunks of a stage", number=True),
        Column("bubble", number=True, title="of the mean stage, from the first pass to the last"),
        Column("if all passes took as long", number=True, title="(p - 1) / (c m + p - 1)"),
    ]  # fmt: skip
    yield Table(columns, [_row(name, passes) for name, passes in found.items()])
    whole = max(map(_length, found.values()))
    for name, passes in found.items():
        if len(found) > 1:
            yield Heading(name)
        if len(passes) > MOST_PASSES:
            yield Paragraph(f"{len(passes):,} passes are too many to draw; see the timeline.")
        else:
            yield _drawing(passes, whole)


def passes_of_stages(result: Result) -> list[Pass]:
    """Passes of the first rank of each stage, in its last iteration.

    [] without a pipeline, and where passes are in halves or side by side, and so no boxes.
    """
    detail = result.detail
    if len(detail.runs) != 1:
        return []
    told: Mapping[str, Any] = detail.runs[0].graph.facts.get(FACT, {})  # type: ignore[assignment]
    if told.get("stages", 1) < 2 or not told["whole_passes"]:
        return []
    return [
        one
        for stage, turns in enumerate(told["turns"])
        for one in _passes_of_rank(detail, stage, stage * told["ranks"], turns)
    ]


def _passes_of_rank(result: Result, stage: int, rank: int, turns: Sequence[Any]) -> Iterable[Pass]:
    """Passes of a rank: between messages its ops are of one pass, as long as they go one way."""
    (run,) = result.runs
    block, kind = run.graph.explicit, result.ops.kind
    rows = np.flatnonzero(result.rank(run)[: len(run.graph)] == rank)
    rows = rows[result.ops.period[rows] == result.ops.period[rows].max()]
    ways = np.array([_way(text.module) for text in run.graph.labels] + [0])
    way = ways[block.ops.label[rows]]
    message = np.isin(kind[rows], (Kind.SEND, Kind.RECV))
    own = (kind[rows] == Kind.COMPUTE) & (way != 0)
    cut = np.cumsum(message)[own]
    turned = np.flatnonzero(np.diff(way[own]) | np.diff(cut)) + 1
    for turn, ops in zip(turns, np.split(rows[own], turned), strict=True):
        start, end = result.columns.start[ops].min(), result.columns.end[ops].max()
        times = _times(np.array([start, end]), result.tick)
        yield Pass(stage, turn.forward, turn.micro_batch, turn.chunk, *times)


def _times(ticks: NDArray[np.int64], tick: Seconds) -> tuple[float, float]:
    first, last = seconds(ticks, tick).tolist()
    return first, last


def _way(module: str) -> int:
    """1 of a module that is computed forward, -1 backward, else 0.

    >>> _way("forward dense layer"), _way("backward head"), _way("optimizer")
    (1, -1, 0)
    """
    first = module.partition(" ")[0]
    return (first == "forward") - (first == "backward")


def _row(name: str, passes: Sequence[Pass]) -> list[Line]:
    """Sizes of a pipeline, its bubble, and what that would be if all passes took as long."""
    stages, chunks, batches = (
        1 + max(getattr(one, part) for one in passes) for part in ("stage", "chunk", "micro_batch")
    )
    bubble = 1 - sum(one.end - one.start for one in passes) / (stages * _length(passes))
    ideal = (stages - 1) / (chunks * batches + stages - 1)
    return [name, f"{stages}", f"{batches}", f"{chunks}", format_share(bubble), format_share(ideal)]


def _length(passes: Sequence[Pass]) -> Seconds:
    """From the first pass of any stage to the end of the last."""
    return max(one.end for one in passes) - min(one.start for one in passes)


def _drawing(passes: Sequence[Pass], whole: Seconds) -> BarChart:
    """Boxes of the passes, numbered from 1 as in the papers.

    Parameters
    ----------
    whole : of the axis, the same for all variants
    """
    first = min(one.start for one in passes)
    scale, unit = seconds_scale(whole)
    bars, texts, legend = [], [], {}
    kinds = sorted({(one.chunk, not one.forward) for one in passes})
    several = len(kinds) > 2
    for chunk, back in kinds:
        phase = "backward" if back else "forward"
        name = f"{phase}, chunk {chunk + 1}" if several else phase
        plain = BACKWARD if back else FORWARD
        legend[name] = colour = mixed(plain, PALER) if chunk % 2 else plain
        for stage in range(1 + max(one.stage for one in passes)):
            own = [o for o in passes if (o.stage, o.chunk, o.forward) == (stage, chunk, not back)]
            start = (np.array([one.start for one in own]) - first) / scale
            took = np.array([one.end - one.start for one in own]) / scale
            gap = np.minimum(0.0012 * whole / scale, 0.2 * took)  # boxes are told apart
            middle = format_quantity(float(np.median(took)) * scale, "s")
            title = f"stage {stage}: {name}, {len(own)} passes, {middle} in the median"
            bars.append(
                Bars(np.full(len(own), stage + 0.08), start, took - gap, colour, title, 0.84)
            )
            ink = "var(--ink)" if chunk % 2 else f"var(--on-{'warm' if back else 'bar'})"
            texts += [
                BarText(stage, float(s), float(t), str(one.micro_batch + 1), ink)
                for one, s, t in zip(own, start, took, strict=True)
                if t * scale > LEAST * whole
            ]
    rows = [f"stage {stage}" for stage in range(1 + max(one.stage for one in passes))]
    return BarChart(rows, bars, whole / scale, f"time, {unit}", 24, legend, texts)
