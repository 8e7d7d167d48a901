"""Section on stragglers: each rank's own time, its waiting, and how long others wait for it."""

from __future__ import annotations

from collections.abc import Iterable

from ..blocks import Block
from ..section import section
from ..texts.study import StudyShown
from ..texts.waiting import waiting_blocks


@section("stragglers", title="Who waits for whom", order=25)
def stragglers(study: StudyShown) -> Iterable[Block]:
    """Section on own time, waiting and lateness of ranks and collectives in the base scenario."""
    late = study.base.get("late")
    return () if late is None else waiting_blocks(late)
