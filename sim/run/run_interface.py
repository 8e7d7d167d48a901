"""Interfaces between a run in progress and its processes, jobs and relocations.

The modules of this folder use these protocols instead of importing each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..engine_api.driven_policy import FixedShape, GridShapes
from ..engine_api.engine_control import EngineControl
from ..engine_api.interface import ComponentTable, Submitted, TimingElsewhere
from ..facts.graph import Graph
from ..facts.system import System
from ..facts.way import Way
from ..record.counters import Counters
from ..record.emitted_values import EmissionRecorder
from ..record.item_table import ItemTable
from ..record.prepared import Prepared, SomeSubmission, Values
from ..record.prepared_grid import At
from ..record.schedule import SubmittedRun
from ..record.step_grid import StepGrid
from ..record.time_series import SeriesRecorder
from ..units import Seconds
from .ranks import Ranks


class JobState(Protocol):
    """Interface of a job in progress, for its run."""

    number: int
    arrived: int
    opening: int | None
    ranks: Ranks
    stopped: bool

    @property
    def name(self) -> str:
        """Name of the job."""

    @property
    def placement(self) -> tuple[str, ...] | None:
        """GPU names of the job's ranks; None for the graph's own placement."""

    @property
    def periodic(self) -> bool:
        """True if the job's ops belong to periods."""

    @property
    def edit(self) -> Callable[[Graph], Graph] | None:
        """Function that changes each graph before the job submits or prepares it; None for none."""

    def next_submission(self, name: str, key: int | None = None) -> int:
        """Number of earlier submissions of a graph name in this job, or ``key`` if given."""

    def note_submitted(self, graph: Submitted) -> None:
        """Record a submitted graph as open until all its ops have ended."""

    def note_over(self, ops: int) -> None:
        """Count the ops of submitted graphs that are over already."""

    @property
    def watches_losses(self) -> bool:
        """True if a process waits for losses of any of its graphs."""


class AllocatorInterface(Protocol):
    """Interface of an allocator of components, which has its own queue."""

    def check(self) -> None:
        """Raise an error if a request still waits at the end of the run."""

    def serve(self, _: object = None) -> None:
        """Grant waiting requests as far as possible."""


class RelocationInterface(Protocol):
    """Interface for moving ops to other components and routes."""

    @property
    def down(self) -> frozenset[int]:
        """Components that routes avoid."""

    def set_avoided(self, down: frozenset[int]) -> None:
        """Route data around exactly these components from now on."""

    def move(
        self,
        ops: Sequence[int],
        slots: Sequence[int] | None,
        instead: Mapping[int, int] | None,
    ) -> dict[int, tuple[Sequence[int], TimingElsewhere | None]]:
        """Move ops to other slots or GPUs; returns the new slots and timing of each."""


class RunInterface(Protocol):
    """Interface of a run in progress: its engine, its graphs, and methods to submit more."""

    system: System
    tick: Seconds
    runs: list[SubmittedRun]
    emissions: EmissionRecorder
    series: SeriesRecorder
    counters: Counters
    allocators: list[AllocatorInterface]
    rate_log: list[tuple[int, int, int]]
    engine: str
    closing: list[Callable[[], None]]
    items: list[ItemTable]

    @property
    def machine(self) -> EngineControl:
        """Engine of the run."""

    @property
    def parts(self) -> ComponentTable:
        """Component table in the engine's integer units."""

    @property
    def scale(self) -> Mapping[str, int]:
        """Scale exponent K of each unit: rates in that unit are integers in 2^-K."""

    @property
    def seeds(self) -> tuple[int, int]:
        """Seed of the run, and replica number + 1 (0 for typical durations)."""

    @property
    def jobs(self) -> Sequence[JobState]:
        """Jobs of the run, in the order in which they were added."""

    @property
    def relocations(self) -> RelocationInterface:
        """Relocations of ops in this run."""

    def ticks(self, at: Seconds) -> int:
        """Convert a time in s to ticks."""

    def prepare(
        self,
        graph: Graph | StepGrid,
        job: JobState | None = None,
        gpus: Sequence[str] | None = None,
        rank: int | None = None,
        ways: Sequence[Way] = (),
    ) -> Prepared:
        """Place, time and check a graph for repeated submission."""

    def submit(
        self,
        graph: Graph | Prepared,
        job: JobState | None = None,
        who: str = "",
        *,
        rank: int | None = None,
        key: int | None = None,
        flop: Values | None = None,
        bytes: Values | None = None,
        way: int | None = None,
        at: At | None = None,
    ) -> Submitted:
        """Place, time and submit a graph of a process."""

    def fixed_shape(self, graph: Prepared, job: JobState) -> FixedShape | GridShapes | None:
        """What an engine may submit of a prepared graph without Python; None for nothing."""

    def most_held(self, largest: int) -> float:
        """Size of the graphs in memory, in ops, up to which graphs need no check."""

    def driven_run(
        self, made: SomeSubmission, first: int, job: JobState, by: str, at: int, key: int
    ) -> SubmittedRun:
        """Record of a submission of a prepared graph that the engine makes for a process."""

    def note_driven_graphs(self, who: str, graphs: int, ops: int) -> None:
        """Count graphs and ops that the engine submitted for a process."""

    def free_driven(self, more: Sequence[SubmittedRun]) -> NDArray[np.int64] | None:
        """Free graphs that are over; see ``DrivenPolicy.free_ended_graphs``."""

    def note_job_graph(self, graph: Submitted) -> None:
        """Record that a graph is a job's own workload, not a submission of a process."""
