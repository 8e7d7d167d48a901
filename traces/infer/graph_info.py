"""Description of a trace that already is a graph, such as Chakra files."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...sim.facts.graph import Graph
from ...sim.facts.ops import Kind
from .trace_info import TraceInfo, UseVerdict, group_scaling_use, inference_facts

NETWORK = (Kind.SEND, Kind.RECV, Kind.COLLECTIVE)


def graph_info(graph: Graph) -> TraceInfo:
    """Describe a graph; facts about the trace that it was made from come first.

    Examples
    --------
    >>> from ...sim.facts.graph import Builder
    >>> build = Builder("two")
    >>> _ = build.op(Kind.COMPUTE, duration=1e-3)
    >>> graph_info(build.graph()).lines()[2]
    ('ops', '1, without recorded times')
    """
    facts: dict[str, Any] = dict(graph.facts)
    ranks = tuple(facts.get("recorded_ranks", range(graph.ranks)))
    steps = tuple(facts.get("steps", range(int(graph.ops.period.max(initial=0)) + 1)))
    times = facts.get("step_times") or [()]
    peak = facts.get("memory_peak")
    return TraceInfo(
        ranks=ranks,
        world=graph.ranks,
        backend="",
        device="",
        events=len(graph),
        seconds=None,
        steps=steps,
        step_times=tuple(times[0]),
        collectives=_total_collective_members(graph),
        memory_peak={"gpu": peak} if peak else {},
        uses=_possible_uses(graph, bool(peak)),
        facts=inference_facts(facts),
        notes=(),
    )


def _total_collective_members(graph: Graph) -> int:
    """Total number of members of all collectives, as many events as ranks would record."""
    block = graph.explicit
    return int(np.count_nonzero(block.ops.kind[block.op_of_place] == Kind.COLLECTIVE))


def _possible_uses(graph: Graph, peak: bool) -> tuple[UseVerdict, ...]:
    ops = graph.ops
    timed = ~np.isnan(ops.duration) | np.isin(ops.kind, NETWORK)
    replay = "" if timed.all() else f"{np.count_nonzero(~timed)} ops have no duration; bind models"
    return (
        UseVerdict("replay", not replay, replay),
        _scaling_use(graph),
        UseVerdict("memory", peak, "" if peak else "no memory was recorded"),
    )  # fmt: skip


def _scaling_use(graph: Graph) -> UseVerdict:
    sizes = graph.ops.bytes[graph.ops.kind == Kind.COLLECTIVE]
    return group_scaling_use(len(sizes) > 0, not np.isnan(sizes).any())
