"""A recorded trace, and what is asked of it: its dependency graph, and a description."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..sim.facts.graph import Graph
from .infer import dependencies, trace_info
from .recorded_events import RecordedEvents


@dataclass(frozen=True, repr=False)
class Trace(RecordedEvents):
    """Recorded events of one or several ranks; ``graph()`` infers what waits for what.

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
    ) -> Graph:
        """Infer the dependency graph: the ops of the trace, and what each waits for.

        Parameters
        ----------
        missing_ranks : ``refuse``, ``like_recorded`` or ``recorded_waits``
            What stands for ranks of the job that were not recorded: an error, copies of the
            recorded ones, or the times that the recorded ones spent waiting for them.
        serialise : bool
            Whether ranks without dependency information may be run in recorded order, those with
            it are not; and whether ops of a stream may overlap: each lasts from the end of the one
            before it.
        periods : numbers of recorded steps to keep; all by default
        communication : patterns of the names of kernels (``my_kernel*``) that exchange data with
            other GPUs, beside those of the known libraries

        Raises
        ------
        TraceError
            The trace does not hold what is needed; the message names file and event.
        """
        return dependencies.infer_graph(
            self,
            missing_ranks=missing_ranks,
            serialise=serialise,
            periods=periods,
            communication=tuple(communication),
        )

    def info(self) -> trace_info.TraceInfo:
        """Describe the trace: what was recorded, and what it can be used for."""
        return trace_info.info(self)

    def info_and_graph(self) -> tuple[trace_info.TraceInfo, Graph | None]:
        """Its description, and its graph in recorded order; None where it has none."""
        return trace_info.info_and_graph(self)
