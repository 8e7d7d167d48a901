"""Section on the memory of training ranks over an iteration, stage by stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.units import Bytes, Seconds
from ..blocks import Axes, Axis, Block, Column, Heading, Paragraph, Plot, Series, Table
from ..figures.schedule import seconds_scale
from ..numbers import PREFIXES, format_quantity, format_share
from ..palette import series_colour
from ..section import section
from ..texts.step_passes import WEIGHTS, Pass
from ..texts.study import StudyShown

FACTS = "stages"  # of a graph: of each stage ``memory`` by part, ``chunks``, ``room`` of its GPUs
MOST_STAGES = 6  # of a drawing
MOST_POINTS = 600  # of a curve: a page is to stay small
AT_THE_PEAK = ("activations", "work under way")
"""Parts of a stage's memory that vary over time; all others are constant."""


class MemoryOverTime(NamedTuple):
    """Memory of one rank of a pipeline stage over an iteration.

    Parameters
    ----------
    time : times in s of memory changes, ascending, from the start of the first pass, shape (n,)
    held : bytes in use from each of the times ``time`` until the next, shape (n,)
    always : bytes in use during the complete iteration; included in ``held``
    passes : the pass that begins or ends at each change, shape (n,)
    """

    time: NDArray[np.float64]
    held: NDArray[np.float64]
    always: Bytes
    passes: Sequence[Pass]

    @property
    def peak(self) -> int:
        """Index of the change after which most memory is in use; the first of several."""
        return int(np.argmax(self.held))


@section("memory", title="Memory over time", order=25)
def memory_over_time(study: StudyShown) -> Iterable[Block]:
    """Section on the memory of one rank of each stage in the last iteration, and on its peak."""
    if not study.passes:
        return
    yield Paragraph(
        "Memory of one rank of each stage in the last iteration. The activations of a micro-batch "
        "are held from the start of its forward pass to the end of its backward pass. Weights, "
        "gradients, optimizer state and reserve are held all the time. Memory that is free between "
        "two peaks stays allocated."
    )
    for name, (_, passes) in study.passes.items():
        (run,) = study.results[name].detail.runs
        stage_facts: Sequence[Mapping[str, Any]] = run.graph.facts[FACTS]  # type: ignore[assignment]
        if len(study.passes) > 1:
            yield Heading(name)
        first = min(one.start for one in passes)
        by_stage: list[list[Pass]] = [[] for _ in stage_facts]
        for one in passes:
            by_stage[one.stage].append(one)
        stages = [stage_memory(*both, first) for both in zip(stage_facts, by_stage, strict=True)]
        yield _table(stage_facts, stages)
        yield _drawing(stage_facts, stages)


def stage_memory(
    stage_facts: Mapping[str, Any], passes: Sequence[Pass], first: Seconds
) -> MemoryOverTime:
    """Memory of one rank of a stage over an iteration.

    Parameters
    ----------
    stage_facts : ``memory`` in bytes by part; and ``chunks``, each with the bytes per micro-batch
        that are ``kept``, ``working`` and ``later``
    passes : passes of the stage
    first : start of the first pass of any stage, in s

    Examples
    --------
    >>> one = {"memory": {"weights": 10.0}, "chunks": [{"kept": 4.0, "working": 1.0, "later": 0.0}]}
    >>> ran = [Pass(0, "forward", 0, 0, 0.0, 1.0), Pass(0, "backward", 0, 0, 1.0, 3.0)]
    >>> found = stage_memory(one, ran, first=0.0)
    >>> found.time.tolist(), found.held.tolist()
    ([0.0, 1.0, 3.0], [14.0, 15.0, 10.0])
    """
    changes: list[tuple[Seconds, int, Bytes]] = []
    for number, one in enumerate(passes):
        chunk = stage_facts["chunks"][one.chunk]
        if one.forward:
            changes.append((one.start - first, number, chunk["kept"]))
        elif one.what == WEIGHTS:
            changes.append((one.end - first, number, -chunk["later"]))
        else:
            changes.append((one.start - first, number, chunk["working"]))
            left = chunk["later"] if one.what != "backward" else 0.0
            changes.append((one.end - first, number, left - chunk["kept"] - chunk["working"]))
    changes.sort(key=lambda c: (c[0], c[2]))  # at one instant what ends is given back first
    at = np.array([when for when, _, _ in changes])
    size = np.array([size for _, _, size in changes])
    always = sum(v for part, v in stage_facts["memory"].items() if part not in AT_THE_PEAK)
    held = np.maximum(np.cumsum(size), 0.0) + always  # sums of floats end a little below 0
    last = np.append(at[1:] > at[:-1], True)  # of the changes at one instant
    kept = np.flatnonzero(last).tolist()
    return MemoryOverTime(at[last], held[last], always, [passes[changes[k][1]] for k in kept])


def _table(stage_facts: Sequence[Mapping[str, Any]], stages: Sequence[MemoryOverTime]) -> Table:
    """Table of each stage's peak: when, in which pass, and the activations by layer."""
    rows = []
    for stage, (one, found) in enumerate(zip(stage_facts, stages, strict=True)):
        peak, at, room = found.held[found.peak], found.time[found.peak], one["room"]
        ran = found.passes[found.peak]
        kept: dict[str, Bytes] = {}
        for chunk in one["chunks"]:
            for name, size in chunk["layers"].items():
                kept[name] = kept.get(name, 0.0) + size
        layers = ", ".join(f"{n} {format_quantity(v, 'B')}" for n, v in kept.items() if v)
        rows.append([
            f"{stage}", format_quantity(peak, "B"), format_share(peak / room) if room else "",
            format_quantity(float(at), "s"), f"{ran.what} of micro-batch {ran.micro_batch + 1}",
            format_quantity(peak - found.always, "B"), layers,
        ])  # fmt: skip
    columns = [
        Column("stage", header=True), Column("peak", number=True),
        Column("of the GPU's memory", number=True),
        Column("at", number=True, title="from the start of the iteration's first pass"),
        Column("during"),
        Column("activations and workspace at the peak", number=True, wraps=True),
        Column("kept per micro-batch", wraps=True, title="by kind of layer, all chunks together"),
    ]  # fmt: skip
    return Table(columns, rows, stacked=True)


def _fewer_points(stage: MemoryOverTime) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At most ``MOST_POINTS`` times and bytes; of consecutive changes the largest is kept."""
    together = -(-len(stage.held) // MOST_POINTS)
    kept = [
        at + int(np.argmax(stage.held[at : at + together]))
        for at in range(0, len(stage.held), together)
    ]
    kept[-1] = len(stage.held) - 1  # where it ends
    return stage.time[kept], stage.held[kept]


def _drawing(stage_facts: Sequence[Mapping[str, Any]], stages: Sequence[MemoryOverTime]) -> Plot:
    """Plot with one curve per stage, of at most six; the GPU's memory is dashed if it is near."""
    busiest = sorted(range(len(stages)), key=lambda s: -stages[s].held[stages[s].peak])
    drawn = sorted(busiest[:MOST_STAGES])
    whole, unit = seconds_scale(max(one.time[-1] for one in stages))
    room = stage_facts[0]["room"]
    most = max(float(stages[s].held.max()) for s in drawn)
    scale, prefix = next(p for p in PREFIXES if most >= p[0])
    curves = []
    for k, stage in enumerate(drawn):
        time, held = _fewer_points(stages[stage])
        colour = series_colour(k)
        curves.append(Series(time / whole, held / scale, "", "steps", colour, f"stage {stage}"))
    near = room is not None and room < 2 * most  # else it would flatten all curves
    whole_room = (room / scale,) if near else ()
    dashed = "; dashed: what a GPU has" if near else ""
    up = Axis(f"memory, {prefix}B{dashed}", limits=(0, 1.05 * max(most / scale, *whole_room, 0.0)),
              rule=whole_room)  # fmt: skip
    return Plot([Axes(Axis(f"time, {unit}"), up, curves)], height=2.6)
