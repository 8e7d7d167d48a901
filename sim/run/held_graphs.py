"""Memory of submitted graphs: its size, its limit, and aggregates of graphs that were freed."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import proxy

import numpy as np
from numpy.typing import NDArray

from ..analysis.streaming_sums import StreamingSums
from ..engine_api.engine_control import EngineControl
from ..engine_api.interface import Submitted
from ..errors import SimulationError
from ..record.aggregates import MOST_OPS
from ..record.bound_system import BoundSystem
from ..record.schedule import SubmittedRun
from .relocation import Relocations
from .row_window import RowWindow
from .run_interface import JobState, RunInterface

# Memory of a submitted graph, measured on Linux: 20,000 graphs of 1 op, 5,000 of 100.
BYTES_PER_GRAPH, BYTES_PER_OP = 3_900.0, 130.0
GRAPH_AS_OPS = 30  # memory of a graph, in ops
AT_ONCE = 1 << 15  # size in ops above which ended graphs are freed
AT_ONCE_PER_WAY, MOST_AT_ONCE = 1 << 9, 1 << 18  # ways are summed one by one, so rather many each


def ops_in_memory(machine: EngineControl) -> int:
    """Memory in use by graphs, as a number of ops; each graph counts as some ops more."""
    return machine.held_ops + GRAPH_AS_OPS * machine.held_graphs


class HeldGraphs:
    """Account of the graphs that a run holds in memory; it frees those that have ended.

    Parameters
    ----------
    run : Run in progress.
    bound : Machine of the run, with its memory limit.
    relocations : Ops that were moved to other components.
    keep : str or None
        Detail to keep of ended ops; None decides by their number.
    window : RowWindow or None
        Window whose rows are kept, and no aggregates; None for a complete run.
    """

    def __init__(
        self,
        run: RunInterface,
        bound: BoundSystem,
        relocations: Relocations,
        keep: str | None,
        window: RowWindow | None = None,
    ):
        self._run: RunInterface = proxy(run)
        self._relocations, self._memory = relocations, bound.memory
        self._compiled = bound.engine == "core"
        self.keep, self.window = keep, window
        self.rows_since = 0 if window is None else window.first  # tick; earlier rows may be freed
        self.submitted: dict[str, tuple[int, int]] = {}  # ops and graphs, by process
        self.given: dict[int, int] = {}  # ops of the jobs' own graphs in memory, by first id
        self.sums: dict[int, StreamingSums] = {}  # aggregates of freed graphs, by job
        self._ways = 0
        self._fold_at = AT_ONCE

    def note_way(self) -> None:
        """Record that a graph was prepared for another way."""
        self._ways += 1
        self._fold_at = max(self._fold_at, self._at_once)

    @property
    def _at_once(self) -> int:
        """Size in ops of the graphs that are freed together."""
        return max(AT_ONCE, min(AT_ONCE_PER_WAY * self._ways, MOST_AT_ONCE))

    def note_job_graph(self, graph: Submitted) -> None:
        """Record that a graph is a job's own workload, not a submission of a process."""
        self.given[graph.first] = graph.count

    def most_held(self, largest: int) -> float:
        """Size in ops up to which `make_room` needs to do nothing for graphs of up to a size."""
        most = float("inf")
        if self.window is not None or self.keep in ("none", "ranks"):
            most = self._fold_at
        elif self.keep is None:
            most = max(self._fold_at, MOST_OPS + 1)
        if self._memory is not None:
            given = sum(ops + GRAPH_AS_OPS for ops in self.given.values())
            most = min(most, self._memory / BYTES_PER_OP + given - largest - GRAPH_AS_OPS - 1)
        return most

    def note_submitted(self, who: str, graphs: int, ops: int) -> None:
        """Count submissions of a process for which there was room."""
        before = self.submitted.get(who, (0, 0))
        self.submitted[who] = before[0] + ops, before[1] + graphs

    def free_if_due(self, more: Sequence[SubmittedRun]) -> NDArray[np.int64] | None:
        """Free ended graphs if it is time, some of which have no record of their own.

        Parameters
        ----------
        more : record of a submission of the same prepared graph, for each of those

        Returns
        -------
        array or None
            Positions in ``more`` of the graphs that are not over; None if nothing was freed.
        """
        held = ops_in_memory(self._run.machine)
        if held < self._fold_at or not self._drops_ended_rows(held):
            return None
        known = len(self._run.runs)
        self._run.runs = [*self._run.runs, *more]
        over = self._release_ended()
        self._run.runs = self._run.runs[: known - int(np.count_nonzero(over[:known]))]
        return np.flatnonzero(~over[known:])

    def make_room(self, who: str, count: int) -> None:
        """Account for a submission of ``count`` ops; free ended graphs, or raise an error."""
        machine = self._run.machine
        held, most = ops_in_memory(machine), self._memory
        if held >= self._fold_at and self._drops_ended_rows(held):
            self.release_ended()
        if not who:
            return
        if most is not None and self._submitted_bytes(machine, count) > most:
            if self.keep in ("none", "ranks"):
                self.release_ended()
            if self._submitted_bytes(machine, count) > most:
                raise self._memory_error(who, *self.submitted.get(who, (0, 0)), most)
        self.note_submitted(who, 1, count)

    def _submitted_bytes(self, machine: EngineControl, more: int) -> float:
        """Memory of all submissions of processes plus a graph of ``more`` ops, in bytes."""
        given = sum(ops + GRAPH_AS_OPS for ops in self.given.values())
        return BYTES_PER_OP * (ops_in_memory(machine) - given + more + GRAPH_AS_OPS)

    def _memory_error(self, who: str, ops: int, graphs: int, most: float) -> SimulationError:
        kept, machine = self.keep in (None, "ops"), self._run.machine
        why = "rows of ended ops are kept" if kept else "they have not ended"
        cure = ", keep fewer rows (keep='ranks')" if kept else ""
        return SimulationError(
            "memory",
            f"{who}: has submitted {ops:,} ops in {graphs:,} graphs, and the next does not fit "
            f"into "
            f"{most / 1e6:,.0f} MB: {machine.held_ops:,} ops of {machine.held_graphs:,} graphs are "
            f"in memory, because {why}; wait for them to end{cure}, or allow more memory",
        )

    def _drops_ended_rows(self, held: int) -> bool:
        """True if rows of ended ops are not kept; decided by size if ``keep`` is None.

        Of a window they are kept, unless its graphs become too large.
        """
        if self.window is not None:
            return self._run.machine.env.now < self.window.first or held > self.window.most
        return self.keep in ("none", "ranks") or (self.keep is None and held > MOST_OPS)

    def release_ended(self) -> None:
        """Aggregate and free all ended graphs."""
        self._release_ended()

    def _release_ended(self) -> NDArray[np.bool_]:
        """Aggregate and free all ended graphs; True for each of them."""
        run, machine = self._run, self._run.machine
        self.keep = self.keep or "ranks"
        held = machine.collect_ended()
        runs = self._relocations.with_final_places(run.runs)
        now = int(machine.env.now)
        if self.window is None:
            rows: list[list[int]] = [[] for _ in run.jobs]
            for k, one in enumerate(runs):
                rows[one.job].append(k)
            for job, own in zip(run.jobs, rows, strict=True):
                self.sums_of(job).add(held, own, runs, now)
        self.rows_since = max(self.rows_since, now)
        runs = [r for r, over in zip(runs, held.over.tolist(), strict=True) if not over]
        run.runs = runs
        self._relocations.forget_freed(runs)
        held_yet = {one.first for one in runs}
        self.given = {first: n for first, n in self.given.items() if first in held_yet}
        left = ops_in_memory(machine)
        self._fold_at = left + max(left, self._at_once)
        return held.over

    def sums_of(self, job: JobState) -> StreamingSums:
        """Running aggregates of a job's ops that were freed."""
        if job.number not in self.sums:
            run = self._run
            self.sums[job.number] = StreamingSums(
                run.system,
                run.parts,
                run.tick,
                job.arrived,
                job.opening if job.periodic else None,
                str(self.keep),
                compiled=self._compiled,
            )
        return self.sums[job.number]
