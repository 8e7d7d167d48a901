"""One rank's ops and dependencies as arrays: all that is inferred without the other ranks."""

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
    events : the recorded events that the ops were made of
    kind, lane, period : (n,) iteration is the position of the op's step in `steps`
    start, end : (n,) ticks on the rank's own clock; an op lasts from its readiness to ``end``
    event : (n,) row of the op's event in `events`; -1 for none
    release : (n,) earliest start, ticks; NEVER where an op waits for other ops only
    source, target : (e,) dependencies: op ``target`` waits for op ``source``
    collectives : those that this rank takes part in; ``work`` is the op's number here
    facts : how many waits and launches were recorded, inferred, or left unresolved
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
