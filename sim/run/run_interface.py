"""Interface of a run in progress: what its processes, jobs and moves know of it, and it of them.

The files of this folder that act while a run goes on know these protocols in place of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ..engine_api.engine_control import EngineControl
from ..engine_api.interface import ComponentTable, Submitted, TimingElsewhere
from ..facts.graph import Graph
from ..facts.system import System
from ..record.emitted_values import EmissionRecorder
from ..record.prepared import Prepared, Values
from ..record.schedule import SubmittedRun
from ..units import Seconds
from .ranks import Ranks


class JobState(Protocol):
    """Job in progress, as its run knows it."""

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
        """Components of its ranks."""

    @property
    def periodic(self) -> bool:
        """Whether its ops say in which period they are."""

    @property
    def edit(self) -> Callable[[Graph], Graph] | None:
        """What becomes of each graph that it submits or prepares."""

    def next_submission(self, name: str, key: int | None = None) -> int:
        """Number of earlier graphs of a name in this job, or the key."""

    def note_submitted(self, graph: Submitted) -> None:
        """Count a submitted graph as open until all its ops are over."""


class AllocatorInterface(Protocol):
    """Queue outside the machine: of components that are handed out."""

    def check(self) -> None:
        """Raise an error if the run ends while a request waits."""

    def serve(self, _: object = None) -> None:
        """Grant what can be granted."""


class RelocationInterface(Protocol):
    """Moves of ops to other places and routes."""

    @property
    def down(self) -> frozenset[int]:
        """Components that routes lead around."""

    def set_avoided(self, down: frozenset[int]) -> None:
        """Lead data around these components from now on, and around no others."""

    def move(
        self,
        ops: Sequence[int],
        slots: Sequence[int] | None,
        instead: Mapping[int, int] | None,
    ) -> dict[int, tuple[Sequence[int], TimingElsewhere | None]]:
        """Slots of ops from now on, and what they take there."""


class RunInterface(Protocol):
    """Run in progress: its machine, its graphs, and what may be handed to it."""

    system: System
    tick: Seconds
    runs: list[SubmittedRun]
    emissions: EmissionRecorder
    allocators: list[AllocatorInterface]
    rate_log: list[tuple[int, int, int]]

    @property
    def machine(self) -> EngineControl:
        """Engine of the run."""

    @property
    def parts(self) -> ComponentTable:
        """Components as the engine reads them."""

    @property
    def scale(self) -> Mapping[str, int]:
        """Scale K of each unit: rates of that unit are in 2^-K."""

    @property
    def seeds(self) -> tuple[int, int]:
        """Seed of the run, and its replica + 1 (0 for the typical run)."""

    @property
    def jobs(self) -> Sequence[JobState]:
        """Jobs of the run, in the order in which they were added."""

    @property
    def relocations(self) -> RelocationInterface:
        """Moves of its ops."""

    def ticks(self, at: Seconds) -> int:
        """Ticks of a time in s."""

    def prepare(
        self,
        graph: Graph,
        job: JobState | None = None,
        gpus: Sequence[str] | None = None,
        rank: int | None = None,
    ) -> Prepared:
        """Place, time and check a graph that is submitted often."""

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
    ) -> Submitted:
        """Place, time and hand in a graph of a process."""

    def note_job_graph(self, graph: Submitted) -> None:
        """Count a graph as given to a job, not submitted by a process."""
