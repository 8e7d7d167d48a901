"""Graph of one rank as arrays: the ops and dependencies that follow without the other ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...column_table import Ints
from ..events.rank_trace import RankTrace
from ..events.steps import Steps
from .collective import RecordedCollective
from .op_provenance import OpProvenance

NEVER = np.iinfo(np.int64).min
"""Release of an op that waits for other ops only."""


@dataclass(frozen=True)
class RankGraph:
    """Ops of one rank and their dependencies.

    CPU segments come first, then launched work, then the delays, gaps and returns between them.

    Parameters
    ----------
    events : recorded events that the ops were made from
    steps : steps that were kept
    provenance : origin of each event
    kind, lane, period : kind, lane (thread or stream) and index of the step in `steps`, shape (n,)
    start, end : times in ticks of the rank's own clock, shape (n,); no op starts before the ops
        that it waits for have ended
    event : row of the op's event in `events`, shape (n,); -1 if there is none
    release : earliest start in ticks, shape (n,); NEVER if an op waits only for other ops
    source, target : dependencies, shape (e,): op ``target`` waits for op ``source``
    collectives : collectives of this rank; their ``work`` is the index of the op
    facts : numbers of waits and launches that were recorded, inferred or unresolved
    """

    events: RankTrace
    steps: Steps
    provenance: OpProvenance
    kind: NDArray[np.uint8]
    lane: Ints
    period: Ints
    start: Ints
    end: Ints
    event: Ints
    release: Ints
    source: Ints
    target: Ints
    collectives: list[RecordedCollective]
    facts: dict[str, int]
