"""Section with the pipeline of a training step drawn as in the literature: stages over time.

Sources: Huang et al. 2019 (arXiv:1811.06965), figure 2; Narayanan et al. 2021 (arXiv:2104.04473),
figures 3 and 4; Qi et al. 2023 (arXiv:2401.10241), figure 3 and table 2; DeepSeek-AI 2024
(arXiv:2412.19437), figure 5 and table 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...sim.units import Seconds
from ..blocks import BarChart, Bars, BarText, Block, Column, Heading, Line, Paragraph, Table
from ..figures.schedule import seconds_scale
from ..numbers import format_quantity, format_share
from ..palette import INK, SERIES, paler
from ..section import section
from ..texts.step_passes import BOTH_ENDS, FORWARD, WEIGHTS, Pass, Pipeline
from ..texts.study import StudyShown

MOST_PASSES = 8_000  # of a drawing
LEAST = 0.011  # of the width: a box with room for its number
COLOURS = {
    FORWARD: SERIES[0],
    "backward": SERIES[1],
    "backward of inputs": SERIES[1],
    WEIGHTS: SERIES[2],
}
WARM = ("backward", "backward of inputs")  # with dark ink
PALER = 45  # per cent of the colour, for every second chunk of a stage; of weights none is paler
IDEAL = {  # bubble where forward, and backward of inputs and of weights, take as long; its source
    "zb-h1": "(p - 1) / (3 m + p - 1)",
    BOTH_ENDS: "(p - 2) / (3 m + p - 2)",
}


@section("pipeline", title="Pipeline", order=24)
def pipeline(study: StudyShown) -> Iterable[Block]:
    """Section with the passes of all stages in the last iteration, and the blank time."""
    drawn = {name: one for name, one in study.passes.items() if one.sizes[0] > 1}
    if not drawn:
        return
    yield Paragraph(
        "Each row is a pipeline stage. Each box is the pass of a micro-batch through the layers of "
        "the stage, with the number of the micro-batch. Blank time is the bubble and exposed "
        "communication."
        + " Two boxes above each other run at the same time: one computes while the other "
        "communicates." * any(p.is_concurrent for one in drawn.values() for p in one.passes)
    )
    columns = [
        Column("variant", header=True), Column("schedule"), Column("stages", number=True),
        Column("micro-batches", number=True), Column("chunks of a stage", number=True),
        Column("blank", number=True, title="mean over stages, from first to last pass"),
        Column("bubble if all passes took equally long", number=True, title=_ideal_bubble_text()),
    ]  # fmt: skip
    yield Table(columns, [_row(name, one) for name, one in drawn.items()])
    whole = max(_length(one.passes) for one in drawn.values())
    for name, one in drawn.items():
        if len(drawn) > 1:
            yield Heading(name)
        if len(one.passes) > MOST_PASSES:
            yield Paragraph(f"{len(one.passes):,} passes are too many to draw; see the timeline.")
        else:
            yield _drawing(one, whole)


def _row(name: str, shown: Pipeline) -> list[Line]:
    """Table row of a pipeline: sizes, bubble, and bubble if all passes took equally long."""
    stages, chunks, batches = shown.sizes
    bubble = 1 - _busy(shown.passes) / (stages * _length(shown.passes))
    idle = stages - (2 if shown.schedule == BOTH_ENDS else 1)
    work = 3 * batches if shown.schedule in IDEAL else chunks * batches
    return [name, shown.schedule, f"{stages}", f"{batches}", f"{chunks}", format_share(bubble),
            format_share(idle / (work + idle))]  # fmt: skip


def _ideal_bubble_text() -> str:
    others = ", ".join(f"{name} {formula}" for name, formula in IDEAL.items())
    return f"(p - 1) / (c m + p - 1); with separate passes for inputs and weights: {others}"


def _busy(passes: Sequence[Pass]) -> Seconds:
    """Time in s in which stages run at least one pass, summed over stages."""
    order = sorted(passes, key=lambda one: (one.stage, one.start))
    stage = np.array([one.stage for one in order])
    start, end = np.array([(one.start, one.end) for one in order]).T
    busy = 0.0
    for number in np.unique(stage):
        own = stage == number
        reach = np.maximum.accumulate(np.append(-np.inf, end[own]))
        busy += float(np.maximum(end[own] - np.maximum(start[own], reach[:-1]), 0).sum())
    return busy


def _length(passes: Sequence[Pass]) -> Seconds:
    """Time in s from the start of the first pass to the end of the last pass, over all stages."""
    return max(one.end for one in passes) - min(one.start for one in passes)


def _drawing(shown: Pipeline, axis_length: Seconds) -> BarChart:
    """Bar chart of the passes, with micro-batches numbered from 1 as in the papers.

    Passes that run at the same time are half as high, with the forward pass above.

    Parameters
    ----------
    shown : the pipeline
    axis_length : length of the time axis in s, the same for all variants
    """
    first = min(one.start for one in shown.passes)
    scale, unit = seconds_scale(axis_length)
    stages, chunks, batches = shown.sizes
    bars, texts, legend = [], [], dict[str, str]()
    kinds = {
        (one.chunk, one.what, one.stage, one.is_concurrent): list[Pass]() for one in shown.passes
    }
    for one in shown.passes:
        kinds[one.chunk, one.what, one.stage, one.is_concurrent].append(one)
    for chunk, what, stage, beside in sorted(
        kinds, key=lambda k: (k[0], list(COLOURS).index(k[1]), k)
    ):
        own = kinds[chunk, what, stage, beside]
        name = _name(what, chunk, chunks, shown.schedule)
        is_second = chunk % 2 and what != WEIGHTS
        colour = paler(COLOURS[what], PALER) if is_second else COLOURS[what]
        if colour not in legend.values():  # backward of inputs alone is told by its title
            legend[name] = colour
        start = (np.array([one.start for one in own]) - first) / scale
        took = np.array([one.end - one.start for one in own]) / scale
        gap = np.minimum(0.0012 * axis_length / scale, 0.2 * took)  # boxes are told apart
        middle = format_quantity(float(np.median(took)) * scale, "s")
        title = f"stage {stage}: {name}, {len(own)} passes, {middle} in the median"
        top, high = stage + 0.08 + 0.43 * (beside and what != FORWARD), 0.41 if beside else 0.84
        bars.append(Bars(np.full(len(own), top), start, took - gap, colour, title, high))
        ink = INK if is_second else "on-warm" if what in WARM else "on-bar"
        row = stage + 0.215 * beside * (-1 if what == FORWARD else 1)
        before = batches // 2 if shown.schedule == BOTH_ENDS and chunk else 0
        texts += [
            BarText(row, float(s), float(t), str(before + one.micro_batch + 1), ink)
            for one, s, t in zip(own, start, took, strict=True)
            if t * scale > LEAST * axis_length
        ]
    rows = [f"stage {stage}" for stage in range(stages)]
    thick = 34 if any(one.is_concurrent for one in shown.passes) else 24
    return BarChart(rows, bars, axis_length / scale, f"time, {unit}", thick, legend, texts)


def _name(pass_kind: str, chunk: int, chunks: int, schedule: str) -> str:
    """Legend entry of the passes of one colour.

    >>> _name("forward", 1, 2, "1f1b"), _name("backward", 1, 2, "dualpipe")
    ('forward, chunk 2', 'backward, from the last stage')
    """
    if pass_kind == WEIGHTS:
        return pass_kind
    if schedule == BOTH_ENDS:
        return f"{pass_kind}, from the {'last' if chunk else 'first'} stage"
    return f"{pass_kind}, chunk {chunk + 1}" if chunks > 1 else pass_kind
