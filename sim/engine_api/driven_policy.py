"""Interface of a compiled process to an engine that calls its kernel without SimPy's events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from .interface import Numbers, PreparedShape, Submitted
from .mailbox import Mailbox, Receipt

Ints = NDArray[np.int64]


class FixedShape(NamedTuple):
    """Prepared graph whose submissions all have the same numbers.

    Parameters
    ----------
    shape, numbers : as for ``submit_prepared``
    name : name of the graph, by which its submissions are counted
    """

    shape: PreparedShape
    numbers: Numbers
    name: str


class GridShapes(NamedTuple):
    """Prepared grid: each submission has the numbers of a point between those of the grid.

    Parameters
    ----------
    arrays : answers at the points of the grid
    cell : room for the cell around a point
    variants : what was prepared for each structure so far, by its number; the numbers of each are
        room for those of a submission, except for amounts
    name : name of the graph, by which its submissions are counted
    """

    arrays: Any
    cell: Any
    variants: Mapping[int, FixedShape]
    name: str


class DrivenPolicy(Protocol):
    """Compiled process that an engine may drive.

    Parameters
    ----------
    kernel, state, event, turn : kernel and the arrays of its arguments
    part_numbers : components that it observes or changes
    metrics : names of its metrics
    arrival_columns : (n, 3) integers of its arrivals
    job : number of its job
    boxes, inbox : mailboxes to which it sends, and the one that it reads
    receipt : event of its next message, for which it waits
    """

    kernel: Any
    state: Any
    event: Ints
    turn: Any
    part_numbers: list[int]
    metrics: tuple[str, ...]
    arrival_columns: Ints
    job: int
    boxes: list[Mailbox]
    inbox: Mailbox | None
    receipt: Receipt | None

    @property
    def arrival_ticks(self) -> Ints:
        """Tick of each arrival."""

    @property
    def owner(self) -> int:
        """Number of the owner of what it takes."""

    @property
    def name(self) -> str:
        """Name of the process."""

    @property
    def is_alive(self) -> bool:
        """True until it is over."""

    @property
    def wait_count(self) -> int:
        """Number of events that it waits for."""

    def may_change(self, part: int) -> bool:
        """True if it may change one of its parts, by its number."""

    def shapes(self) -> list[FixedShape | GridShapes | None]:
        """Its graphs in order; None for one that only Python can submit."""

    def way_shapes(self) -> list[list[FixedShape | None]]:
        """For each of its graphs, the shape of each way; None for one of only Python."""

    def most_held(self) -> float:
        """Size of the graphs in memory, in ops, from which on only Python may submit."""

    def submission_counts(self) -> dict[str, int]:
        """Number of submissions of its job so far, by name of the graph."""

    def open_submissions(self) -> list[tuple[Any, int, int]]:
        """Handle, tag and number of graph of each submission that it waits for."""

    def timer(self, event: simpy.Event) -> tuple[int, int] | None:
        """Kind and tag of a timer or arrival that it waits for; None for another event."""

    def forget_timer(self, event: simpy.Event) -> None:
        """Wait for a timer no more."""

    def add_timer(self, event: simpy.Event, kind: int, tag: int) -> None:
        """Wait for a timer or arrival."""

    def end_receipt(self) -> None:
        """Wait for its receipt no more, as its kernel was called with the message."""

    def end_submission(self, handle: Submitted) -> None:
        """Note that a submission has ended, and that the kernel was called for its end."""

    def add_submission(
        self,
        handle: Submitted,
        graph: int,
        tag: int,
        at: int,
        key: int,
        is_over: bool,
        is_freed: bool,
        submission: Any,
    ) -> None:
        """Record a submission that its kernel made, and wait for its end unless it is over.

        Parameters
        ----------
        submission : what `submission` returned
        """

    def submission(
        self, graph: int, way: int | None, point: tuple[int, tuple[int, ...]] | None
    ) -> Any:
        """What was submitted: a graph, on a way or at a point; ``numbers`` are for the engine.

        Parameters
        ----------
        point : number of the structure of a grid, and the number on each axis
        """

    def representative(self, graph: int, way: int | None) -> Any:
        """Record of a submission that stands for all of one of its graphs on one way."""

    def representative_of_points(self, graph: int, structure: int, points: Ints) -> Any:
        """Record that stands for submissions of a grid, with the (k, axes) point of each."""

    def free_ended_graphs(self, more: Sequence[Any]) -> Ints | None:
        """Let the run sum up and free the graphs that are over, if it is time.

        Parameters
        ----------
        more : representative of each graph in memory that Python does not know

        Returns
        -------
        array or None
            Positions in ``more`` of the graphs that are not over; None if nothing was freed.
        """

    def note_freed(self, graphs: int, ops: int) -> None:
        """Count submissions of its kernel that ended and were freed."""

    def record_samples(
        self, metrics: Sequence[tuple[int, str]], which: Ints, ticks: Ints, values: NDArray[Any]
    ) -> None:
        """Record emitted samples: job and name of each metric; then its index, tick and value."""

    def go_on(self, row: int, code: int | None, error: Exception | None) -> None:
        """Go on with the call in progress: apply its actions from a row on, and its code.

        Parameters
        ----------
        code : that its kernel returned; None if it was not called yet
        error : that it raised, or None
        """
