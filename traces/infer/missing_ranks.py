"""Ranks of the job that were not recorded: refused, or replaced as the scenario says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...sim.errors import TraceError
from ..recorded_events import RecordedEvents
from .rank_graph import RankGraph


def complete(trace: RecordedEvents, parts: list[RankGraph], policy: str) -> list[RankGraph]:
    """Parts of all ranks that take part.

    Raises
    ------
    TraceError
        A collective has a member that was not recorded, and `policy` is ``refuse``.
    """
    missing = missing_members(trace, parts)
    if not missing or policy == "recorded_waits":
        return parts
    if policy == "refuse":
        raise TraceError(
            f"{trace.processes[0].file}: collectives involve ranks {_span(missing)}, which were "
            f"not recorded; add their files, or say what stands for them (missing_ranks: "
            "like_recorded | recorded_waits)"
        )
    world = max(max(missing), *trace.ranks) + 1
    recorded = {p.view.rank: p for p in parts}
    order = sorted(recorded)
    return [
        recorded[r] if r in recorded else _copy(recorded[order[r % len(order)]], r, world)
        for r in range(world)
    ]


def missing_members(trace: RecordedEvents, parts: Sequence[RankGraph]) -> list[int]:
    """Ranks in a group of a recorded collective that were not recorded themselves."""
    world = max((p.world for p in trace.processes), default=0)
    members: set[int] = set()
    for p in parts:
        for c in p.collectives:
            members.update(c.group or range(world))
    return sorted(members - set(trace.ranks))


def _span(ranks: list[int]) -> str:
    if len(ranks) > 4 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]} to {ranks[-1]}"
    return ", ".join(map(str, ranks))


def _copy(source: RankGraph, rank: int, world: int) -> RankGraph:
    """A rank that does what a recorded one did, in the group that lies as far from it."""
    shift = rank - source.view.rank
    groups = [tuple(sorted((r + shift) % world for r in c.group)) for c in source.collectives]
    return replace(
        source,
        view=source.view.renamed(rank),
        collectives=[c._replace(group=g) for c, g in zip(source.collectives, groups, strict=True)],
    )
