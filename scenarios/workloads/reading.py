"""How the events of a recording are read, for ``workload.reading``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ..config.schema import Section

if TYPE_CHECKING:
    from ...traces.trace import Trace

CategoryKind = Literal["kernel", "copy", "runtime", "operator", "ignore"]


class Reading(Section):
    """How the events of a recording are read."""

    categories: Mapping[str, CategoryKind] = Field(default_factory=dict)
    """Kind of each category of events that foretrace does not know (``mtia_insight: kernel``)."""
    allow_lost: bool = False
    """True to accept a recording that lost GPU work or steps, and a job on the CPU of a machine
    that has a GPU."""

    def apply(self, trace: Trace) -> Trace:
        """Trace whose events have the kinds of :attr:`categories`."""
        return trace.with_categories(self.categories)


PLAIN = Reading()
