"""Communication partners in an SPMD graph: groups of collectives, and mailboxes of messages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...facts.spmd.spmd_graph import SpmdGraph


@dataclass(frozen=True)
class Rendezvous:
    """Groups and mailboxes of an SPMD graph, numbered across all families.

    Parameters
    ----------
    group : (families, ranks) number of each rank's group, unique across families
    member_at, member : members of each group, ascending, as offsets and values
    lead : (groups,) rank whose program gives the durations of the group's collectives
    row : (groups,) graph row of the first collective of each group
    peer : (message families, ranks) rank that each rank sends to
    mailbox_at : (message families x ranks + 1,) offset of each rank's mailbox, family after family
    """

    group: NDArray[np.int64]
    member_at: NDArray[np.int64]
    member: NDArray[np.int32]
    lead: NDArray[np.int32]
    row: NDArray[np.int64]
    peer: NDArray[np.int32]
    mailbox_at: NDArray[np.int64]

    @classmethod
    def of(cls, template: SpmdGraph) -> Rendezvous:
        """Build the tables of groups and mailboxes of an SPMD graph."""
        ranks = template.ranks
        group = np.zeros((len(template.groups), ranks), np.int64)
        counts, members, rows = [np.zeros(1, np.int64)], [], []
        base, shared = 0, int(template.bases[ranks])
        for f, of in enumerate(template.groups):
            number = int(of.max(initial=-1)) + 1
            group[f] = of + base
            counts.append(np.bincount(of, minlength=number))
            members.append(np.argsort(of, kind="stable"))
            first = template.first_calls(f)
            rows.append(shared + first[:-1])
            base, shared = base + number, shared + int(first[-1])
        return cls(
            group,
            np.cumsum(np.concatenate(counts)),
            np.concatenate([np.empty(0, np.int64), *members]).astype(np.int32),
            np.concatenate([np.empty(0, np.int32), *template.group_leaders]).astype(np.int32),
            np.concatenate([np.empty(0, np.int64), *rows]),
            np.ascontiguousarray(template.peers),
            _mailbox_starts(template),
        )


def _mailbox_starts(template: SpmdGraph) -> NDArray[np.int64]:
    """Offset of each rank's mailbox, family after family; the last entry is their total size.

    A mailbox has one entry per message that the rank receives.
    """
    found = [np.zeros(1, np.int64)]
    for f, sender in enumerate(template.senders):
        sends = template.sends[f][template.program]
        found.append(np.where(sender >= 0, sends[sender], 0))
    return np.cumsum(np.concatenate(found))
