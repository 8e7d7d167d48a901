"""Messages of a collective algorithm, round by round, with their dependencies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....sim.facts.csr import Csr
from .steps import SEGMENTS, SWITCH, Algorithm, Members

NONE = np.empty(0, np.int64)


class Messages(NamedTuple):
    """Messages of a collective, ordered by the round in which they are sent.

    Parameters
    ----------
    round : (messages,) round, ascending from 0
    source, target : (messages,) member indices, or ``SWITCH``
    share : (messages,) size of each message, as a fraction of the collective's size
    """

    round: NDArray[np.int64]
    source: Members
    target: Members
    share: NDArray[np.float64]

    @classmethod
    def of(cls, algorithm: Algorithm, *n: int) -> Messages:
        """Messages of an algorithm: step after step, or segment after segment if it is pipelined.

        ``n`` is the number of members; a nested algorithm also takes the members per node.

        Examples
        --------
        >>> from .algorithms import ALGORITHMS
        >>> ring = Messages.of(ALGORITHMS["all-reduce"]["ring"], 2)
        >>> ring.round.tolist(), ring.source.tolist(), ring.share.tolist()
        ([0, 0, 1, 1], [0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5])
        """
        steps = [step for step in algorithm.steps(*n) for _ in range(step.times)]
        segments = SEGMENTS if algorithm.pipelined else 1
        sent = [
            (now, step)
            for now in range(len(steps) + segments - 1)
            for step in steps[max(now - segments + 1, 0) : now + 1]
        ]
        shares = (
            np.broadcast_to(step.parts / step.of / segments, len(step.source)) for _, step in sent
        )
        return cls(
            np.concatenate([NONE, *(np.full(len(step.source), now) for now, step in sent)]),
            np.concatenate([NONE, *(step.source for _, step in sent)]),
            np.concatenate([NONE, *(step.target for _, step in sent)]),
            np.concatenate([np.empty(0), *shares]),
        )


class Waits(NamedTuple):
    """Dependencies between the messages of a collective, as pairs.

    The end of the collective counts as one more message. The switch counts as one more member,
    whose dependencies are those of all members.

    Parameters
    ----------
    before, after : (pairs,) message indices: ``after`` waits for ``before``
    member, first : (pairs,) member, and the message that waits for this member's own dependencies
    """

    before: NDArray[np.int64]
    after: NDArray[np.int64]
    member: Members
    first: NDArray[np.int64]

    @classmethod
    def of(cls, messages: Messages, n: int) -> Waits:
        """Compute the dependencies of messages.

        A message waits for what its sender sent and received in its previous round. Without a
        previous round it waits for the sender's own dependencies, and in round 0 also for the
        receiver's. The end waits for the last round of each member, or for the dependencies of a
        member without messages.

        Parameters
        ----------
        n : number of members

        Examples
        --------
        >>> from .algorithms import ALGORITHMS
        >>> waits = Waits.of(Messages.of(ALGORITHMS["all-gather"]["ring"], 3), 3)
        >>> [waits.before[waits.after == k].tolist() for k in (0, 3, 6)]
        [[], [0, 2], [3, 5, 3, 4, 4, 5]]
        >>> waits.member[waits.first == 0].tolist(), waits.member[waits.first == 6].tolist()
        ([0, 1], [3])
        """
        end = len(messages.round)
        ends = np.column_stack([messages.source, messages.target])
        ends[ends == SWITCH] = n
        order = np.argsort(ends.ravel(), kind="stable")  # by member, then by message
        who, sent = ends.ravel()[order], order // 2
        when = messages.round[sent]
        begins = np.flatnonzero((np.diff(who, prepend=-1) != 0) | (np.diff(when, prepend=-1) != 0))
        turns = Csr(np.append(begins, len(sent)), sent.astype(np.int32))  # per member and round
        owner, turn = who[begins], np.empty(len(sent), np.int64)
        turn[order] = turns.owner
        earlier = turn[::2] - 1  # previous round of each message's sender
        follows = (earlier >= 0) & (owner[earlier] == ends[:, 0])
        later, begun = np.flatnonzero(follows), np.flatnonzero(~follows)
        seen = turns.take(earlier[later])
        last = turns.take(np.flatnonzero(np.diff(owner, append=-1)))
        at_once, idle = np.flatnonzero(messages.round == 0), np.setdiff1d(np.arange(n + 1), owner)
        return cls(
            np.concatenate([seen.values, last.values]).astype(np.int64),
            np.concatenate([later[seen.owner], np.full(len(last.values), end)]),
            np.concatenate([ends[begun, 0], ends[at_once, 1], idle]),
            np.concatenate([begun, at_once, np.full(len(idle), end)]),
        )
