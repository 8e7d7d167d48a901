"""Matching of collectives across ranks, by process group and order within the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...sim.errors import TraceError
from ..column_table import Ints
from .ranks.collective import RecordedCollective
from .ranks.rank_graph import RankGraph

POINT_TO_POINT = {"send", "recv"}
"""A send and its receive, in a group of two ranks, are matched into one op."""


class MatchedCollective(NamedTuple):
    """One collective, with the record of each of its members.

    Parameters
    ----------
    members : (index of the rank's graph, that rank's record of the collective) for each member,
        sorted by rank
    """

    members: tuple[tuple[int, RecordedCollective], ...]

    def member_rows(self, base: Sequence[int] | Ints) -> Ints:
        """Row of each member's op in the joined table, where graph i begins at row ``base[i]``."""
        return np.array([int(base[p]) + c.work for p, c in self.members])


def match_collectives(graphs: Sequence[RankGraph]) -> list[MatchedCollective]:
    """Match the collectives of several ranks: the k-th of a group is the same one on every rank.

    Raises
    ------
    TraceError
        Ranks disagree about the k-th collective of a group, or about the members of a group.
    """
    ranks = [g.events.rank for g in graphs]
    alone: list[MatchedCollective] = []
    queues: dict[tuple[tuple[int, ...], str], dict[int, list[RecordedCollective]]] = {}
    for i, graph in enumerate(graphs):
        events = graph.events
        for c in graph.collectives:
            if c.in_flight:
                alone.append(MatchedCollective(((i, c),)))
                continue
            group = c.group or tuple(ranks)
            if events.rank not in group:
                raise TraceError(
                    f"{events.process.file}: rank {events.rank} takes part in a collective of "
                    f"ranks {', '.join(map(str, group))}, to which it does not belong; the file "
                    "names its rank or the group wrongly, record it again"
                )
            queues.setdefault((group, c.channel), {}).setdefault(i, []).append(c)
    matches = alone
    for (group, channel), members in queues.items():
        expected = [i for i, r in enumerate(ranks) if r in group]
        matches += _match_group(graphs, channel, members, expected)
    return matches


def _match_group(
    graphs: Sequence[RankGraph],
    channel: str,
    members: dict[int, list[RecordedCollective]],
    expected: list[int],
) -> list[MatchedCollective]:
    """Match the collectives of one process group.

    `expected` are the graphs of its recorded ranks.
    """
    count = {i: len(members.get(i, [])) for i in expected}
    most = max(count.values())
    if min(count.values()) != most:
        few = min(expected, key=lambda i: count[i])
        raise TraceError(
            f"{graphs[few].events.process.file}: rank {graphs[few].events.rank} has {count[few]} "
            f"collectives of group {channel or 'of all'!r}, others {most}; record the same steps "
            "on every rank"
        )
    matches = []
    for k in range(most):
        together = tuple((i, members[i][k]) for i in expected)
        _refuse_different_signatures(graphs, k, together)
        matches.append(MatchedCollective(together))
    return matches


def _refuse_different_signatures(
    graphs: Sequence[RankGraph], k: int, together: tuple[tuple[int, RecordedCollective], ...]
) -> None:
    first = together[0][1]
    if first.name in POINT_TO_POINT and len(together) > 2:
        raise TraceError(
            f"{graphs[0].events.process.file}: collective {k} is a {first.name} in a group of "
            f"{len(together)} ranks, and its peer was not recorded; record with a process group of "
            "two ranks for each pair, or give one rank and missing_ranks: recorded_waits"
        )
    for i, c in together[1:]:
        if c.name != first.name and not {c.name, first.name} <= POINT_TO_POINT:
            raise TraceError(
                f"{graphs[i].events.process.file}: collective {k} is {c.signature} on rank "
                f"{graphs[i].events.rank}, but {first.signature} on rank "
                f"{graphs[together[0][0]].events.rank}; give traces of the same steps of one job"
            )
