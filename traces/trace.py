"""Recorded trace, with its dependency graph and its description."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..sim.facts.graph import Graph
from .event_category import with_categories
from .infer import dependencies, trace_info
from .recorded_events import RecordedEvents


@dataclass(frozen=True, repr=False)
class Trace(RecordedEvents):
    """Recorded events of one or several ranks; ``graph()`` infers their dependencies.

    Examples
    --------
    >>> Trace.of(strings=("aten::mm",), name=[0, 0], ts=[0, 1500], dur=[1000, 500])
    <Trace: 2 events, rank 0>
    """

    def graph(
        self,
        *,
        missing_ranks: str = "refuse",
        serialise: bool = False,
        periods: Iterable[int] | None = None,
        communication: Iterable[str] = (),
        allow_lost: bool = False,
    ) -> Graph:
        """Infer the dependency graph: the ops of the trace, and the ops that each waits for.

        Parameters
        ----------
        missing_ranks : ``refuse``, ``like_recorded`` or ``recorded_waits``: ranks of the job that
            were not recorded are an error, or are replaced by copies of recorded ranks, or by the
            times that recorded ranks spent waiting for them
        serialise : bool
            True runs ranks without dependency information in recorded order (False refuses them).
            It also allows overlapping ops on a stream: each then lasts from the end of the one
            before it.
        periods : numbers of recorded steps to keep; all by default
        communication : patterns of the names of further kernels (``my_kernel*``) that exchange data
            with other GPUs, besides those of known libraries
        allow_lost : True to accept a recording that lost GPU work or steps

        Raises
        ------
        TraceError
            The trace lacks information that is needed; the message names file and event.
        """
        return dependencies.infer_graph(
            self,
            missing_ranks=missing_ranks,
            serialise=serialise,
            periods=periods,
            communication=tuple(communication),
            allow_lost=allow_lost,
        )

    def with_categories(self, kinds: Mapping[str, str]) -> Trace:
        """Copy of the trace in which categories of events stand for the given kinds.

        Parameters
        ----------
        kinds : kind of each category: ``kernel``, ``copy``, ``runtime``, ``operator`` or ``ignore``

        Raises
        ------
        TraceError
            No event has such a category, or there is no such kind.
        """
        return with_categories(self, kinds)

    def info(self) -> trace_info.TraceInfo:
        """Describe the trace: what was recorded, and what it can be used for."""
        return trace_info.info(self)

    def info_and_graph(self) -> tuple[trace_info.TraceInfo, Graph | None]:
        """Description of the trace, and its graph in recorded order.

        None if no graph can be inferred.
        """
        return trace_info.info_and_graph(self)
