"""Section on the stages of a training job side by side: layers, time of an iteration, memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...sim.analysis.activity import activity_by_window
from ...sim.analysis.periods import counted_edges
from ...sim.facts.ops import Kind
from ...sim.run.result import Result
from ...sim.units import Seconds, seconds
from ..blocks import Block, Column, Heading, Line, Paragraph, Table
from ..numbers import format_quantity
from ..section import section
from ..texts.study import StudyShown

FACTS = "stages"  # of a graph: of each ``first`` rank, ``layers`` in words, ``memory`` by kind, B
PHASES = ("forward", "backward")  # with which the modules of ops begin; others are updates


class StageTime(NamedTuple):
    """Time breakdown of an iteration on the first rank of a stage, in s; the parts add up to it.

    Parameters
    ----------
    forward, backward : time of forward and backward passes
    updates : time of the optimizer
    communication : exposed communication, including waiting for late members of collectives
    bubble : time in which nothing runs and nothing is in flight
    """

    forward: Seconds
    backward: Seconds
    updates: Seconds
    communication: Seconds
    bubble: Seconds


@section("stages", title="Stages", order=24)
def pipeline_stages(study: StudyShown) -> Iterable[Block]:
    """Section on the layers, times and memory of every stage in the last iteration."""
    found = {name: _table(result) for name, result in study.results.items()}
    tables = {name: table for name, table in found.items() if table}
    if not tables:
        return
    yield Paragraph(
        "Times are for the first rank of each stage in the last iteration and add up to its "
        "length. Memory is the peak of one rank. Communication is the exposed part, including "
        "waiting for late ranks. In the bubble nothing runs and nothing is in flight."
    )
    for name, table in tables.items():
        if len(tables) > 1:
            yield Heading(name)
        yield table


def _table(result: Result) -> Table | None:
    detail = result.detail
    if len(detail.runs) != 1:
        return None
    stage_facts: Sequence[Mapping[str, Any]] = detail.runs[0].graph.facts.get(FACTS, ())  # type: ignore[assignment]
    if not stage_facts:
        return None
    times, kinds = stage_times(detail), list(stage_facts[0]["memory"])
    columns = [
        Column("stage", header=True), Column("layers", wraps=True),
        *(Column(name, number=True) for name in StageTime._fields),
        *(Column(kind, number=True, wraps=True) for kind in (*kinds, "memory")),
    ]  # fmt: skip
    rows: list[list[Line]] = [
        [
            f"{stage}",
            one["layers"],
            *(format_quantity(t, "s") for t in time),
            *(format_quantity(one["memory"][kind], "B") for kind in kinds),
            format_quantity(sum(one["memory"].values()), "B"),
        ]
        for stage, (one, time) in enumerate(zip(stage_facts, times, strict=True))
    ]
    return Table(columns, rows, stacked=True)


def stage_times(detail: Result) -> list[StageTime]:
    """Time breakdown of the last iteration on the first rank of each stage; needs op rows."""
    (run,) = detail.runs
    stage_facts: Sequence[Mapping[str, Any]] = run.graph.facts[FACTS]  # type: ignore[assignment]
    edges = counted_edges(detail)[-2:]
    boxes = {box: spent[0] for box, spent in activity_by_window(detail, edges).items()}
    phases = np.array([text.module.partition(" ")[0] for text in run.graph.labels] + [""])
    n = len(run.graph)
    rank, ops, columns = detail.rank(run)[:n], detail.ops, detail.columns
    last = (ops.kind[:n] == Kind.COMPUTE) & (ops.period[:n] == ops.period[:n].max())
    phase = phases[run.graph.explicit.ops.label]
    took = seconds(columns.end[:n] - columns.start[:n], detail.tick)
    found = []
    for first in (one["first"] for one in stage_facts):
        own = last & (rank == first)
        forward, backward = (float(took[own & (phase == name)].sum()) for name in PHASES)
        rest = float(took[own & ~np.isin(phase, PHASES)].sum())
        exposed = boxes["exposed_communication"][first] + boxes["waiting"][first]
        idle = float(boxes["idle"][first])
        found.append(StageTime(forward, backward, rest, float(exposed), idle))
    return found
