"""Ranks of the job that were not recorded: refused, left out, or replaced by copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...sim.errors import TraceError
from ..recorded_events import RecordedEvents
from .ranks.rank_graph import RankGraph


def fill_missing_ranks(
    trace: RecordedEvents, graphs: list[RankGraph], policy: str
) -> list[RankGraph]:
    """Graphs of all ranks that take part: the given ones, and copies for missing ranks.

    Parameters
    ----------
    policy : ``refuse``, ``like_recorded`` (copies) or ``recorded_waits`` (left out)

    Raises
    ------
    TraceError
        A collective has a member that was not recorded, and `policy` is ``refuse``.
    """
    missing = missing_members(trace, graphs)
    if not missing or policy == "recorded_waits":
        return graphs
    if policy == "refuse":
        some = f"{'ranks' if len(missing) > 1 else 'rank'} {_rank_range_text(missing)}"
        had = "were" if len(missing) > 1 else "was"
        raise TraceError(
            f"{trace.processes[0].file}: collectives involve {some}, "
            f"which {had} not recorded; add their files, or choose what replaces them "
            "(missing_ranks: like_recorded | recorded_waits)"
        )
    world = max(max(missing), *trace.ranks) + 1
    recorded = {g.events.rank: g for g in graphs}
    order = sorted(recorded)
    return [
        recorded[r] if r in recorded else _copy_for_rank(recorded[order[r % len(order)]], r, world)
        for r in range(world)
    ]


def missing_members(trace: RecordedEvents, graphs: Sequence[RankGraph]) -> list[int]:
    """Ranks that are members of a recorded collective but were not recorded themselves."""
    world = max((p.world for p in trace.processes), default=0)
    members: set[int] = set()
    for graph in graphs:
        for c in graph.collectives:
            members.update(c.group or range(world))
    return sorted(members - set(trace.ranks))


def _rank_range_text(ranks: list[int]) -> str:
    if len(ranks) > 4 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]} to {ranks[-1]}"
    return ", ".join(map(str, ranks))


def _copy_for_rank(source: RankGraph, rank: int, world: int) -> RankGraph:
    """Graph of a missing rank: a copy of a recorded one with shifted process groups.

    The parts of an all-to-all that involve the missing rank are unknown, so parts are taken as
    equal.
    """
    shift = rank - source.events.rank
    groups = [tuple(sorted((r + shift) % world for r in c.group)) for c in source.collectives]
    return replace(
        source,
        events=source.events.of_rank(rank),
        collectives=[
            c._replace(group=g, sent=-1, received=-1, sent_splits=())
            for c, g in zip(source.collectives, groups, strict=True)
        ],
    )
