"""Collectives matched across ranks: the k-th of a group on one rank is the k-th on all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...sim.errors import TraceError
from ..column_table import Integers
from .collective import RecordedCollective
from .rank_graph import RankGraph

ENDS = {"send", "recv"}
"""The two ends of a message: in a group of two ranks they are one op with two places."""


class Match(NamedTuple):
    """One collective of all its members.

    Parameters
    ----------
    members : (number of the part, its collective), by rank
    """

    members: tuple[tuple[int, RecordedCollective], ...]

    def rows(self, base: Sequence[int] | Integers) -> Integers:
        """Integers of the members in a table of all parts."""
        return np.array([int(base[p]) + c.work for p, c in self.members])


def match(parts: Sequence[RankGraph], *, alone: bool) -> list[Match]:
    """Match collectives.

    Parameters
    ----------
    alone : whether ranks that were not recorded are represented by the waits for them

    Raises
    ------
    TraceError
        Members disagree on what the k-th collective of their group is, or are in another group.
    """
    ranks = [p.view.rank for p in parts]
    queues: dict[tuple[tuple[int, ...], str], dict[int, list[RecordedCollective]]] = {}
    for i, p in enumerate(parts):
        for c in p.collectives:
            group = c.group or tuple(ranks)
            if p.view.rank not in group:
                raise TraceError(
                    f"{p.view.process.file}: rank {p.view.rank} takes part in a collective of "
                    f"ranks {', '.join(map(str, group))}, to which it does not belong; the file "
                    "names its rank or the group wrongly, record it again"
                )
            queues.setdefault((group, c.channel), {}).setdefault(i, []).append(c)
    found = []
    for (group, channel), members in queues.items():
        expected = [i for i, r in enumerate(ranks) if r in group]
        found += _match_group(parts, channel, members, expected, alone)
    return found


def _match_group(
    parts: Sequence[RankGraph],
    channel: str,
    members: dict[int, list[RecordedCollective]],
    expected: list[int],
    alone: bool,
) -> list[Match]:
    count = {i: len(members.get(i, [])) for i in expected}
    most = max(count.values())
    if min(count.values()) != most:
        few = min(expected, key=lambda i: count[i])
        raise TraceError(
            f"{parts[few].view.process.file}: rank {parts[few].view.rank} has {count[few]} "
            f"collectives of group {channel or 'of all'!r}, others {most}; record the same steps "
            "on every rank"
        )
    found = []
    for k in range(most):
        together = tuple((i, members[i][k]) for i in expected)
        _refuse_different(parts, k, together)
        found.append(Match(together))
    return found


def _refuse_different(
    parts: Sequence[RankGraph], k: int, together: tuple[tuple[int, RecordedCollective], ...]
) -> None:
    first = together[0][1]
    if first.name in ENDS and len(together) > 2:
        raise TraceError(
            f"{parts[0].view.process.file}: collective {k} is a {first.name} in a group of "
            f"{len(together)} ranks, and its peer was not recorded; record with a process group of "
            "two ranks for each pair, or give one rank and missing_ranks: recorded_waits"
        )
    for i, c in together[1:]:
        if c.name != first.name and not {c.name, first.name} <= ENDS:
            raise TraceError(
                f"{parts[i].view.process.file}: collective {k} is {c.signature} on rank "
                f"{parts[i].view.rank}, but {first.signature} on rank "
                f"{parts[together[0][0]].view.rank}; give traces of the same steps of one job"
            )
