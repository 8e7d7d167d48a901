"""Tree of errors; every message is ``<place>: <what is wrong>; <what to do>``.

::

    ForetraceError
    ├─ ScenarioError            the scenario asks for something we cannot build
    │  └─ PlanError              a parallel plan breaks a rule, or does not fit into memory
    ├─ TraceError               a trace file is malformed
    ├─ GraphError               ops cannot be scheduled (cycle, unknown place, bad weight)
    ├─ BackendError             a backend gave an impossible answer
    │  ├─ HardwareUnavailable   device absent, busy, or not permitted
    │  │  └─ DriverFault        a driver or its agent failed, or gave an impossible answer
    │  └─ RecordingError        a recording is damaged, foreign, or has not seen the op
    ├─ SimulationError          the run cannot go on (deadlock, starvation, time overflow)
    ├─ NotKeptError             a result was asked what was not kept of its run
    └─ RangeError               a time that no tick can hold
"""

from __future__ import annotations

from collections.abc import Sequence

UNBOUNDED = (
    "work, but neither usage nor limit bounds its rate; if two ranks on one GPU send to each "
    "other, "
    "place them on different GPUs, or let the backend return a limit"
)
"""What is wrong with work that could be done at once, and its cure."""


class ForetraceError(Exception):
    """Base of all errors that a user can cause and cure."""


class ScenarioError(ForetraceError):
    """The scenario asks for something that cannot be built."""


class PlanError(ScenarioError):
    """A parallel plan breaks a rule or does not fit into memory; says the nearest that works."""


class TraceError(ForetraceError):
    """A trace file is malformed, or cannot be used for what was asked."""


class GraphError(ForetraceError):
    """Ops cannot be scheduled; ``ops`` are the rows at fault.

    Examples
    --------
    >>> GraphError("cycle", "op 0 -> op 1 -> op 0; remove one of these dependencies", (0, 1)).ops
    (0, 1)
    """

    def __init__(self, kind: str, message: str, ops: Sequence[int] = ()):
        super().__init__(kind, message, tuple(ops))  # SimPy re-creates errors from `args`
        self.kind, self.message, self.ops = kind, message, tuple(ops)

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class BackendError(ForetraceError):
    """A backend gave an impossible answer, or was asked what it cannot know."""


class HardwareUnavailable(BackendError):  # noqa: N818  reads better in a message
    """A device is absent, busy or not permitted; says what to bind instead."""


class DriverFault(HardwareUnavailable):
    """A driver or its agent failed or answered the impossible; ``kind`` is the name of the fault.

    ``missing denied unsupported broken busy`` say that a device cannot be used; ``died hung
    protocol oversized`` that its agent failed; ``not-a-number negative absurd unrequested clock``
    that an answer cannot be true.

    Examples
    --------
    >>> str(DriverFault("busy", "node 0: measured by process 7; wait for it, or end it"))
    'busy: node 0: measured by process 7; wait for it, or end it'
    """

    def __init__(self, kind: str, message: str):
        super().__init__(kind, message)
        self.kind, self.message = kind, message

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class RecordingError(BackendError):
    """A recording is damaged, of something else, or was asked what it has not seen."""


class SimulationError(ForetraceError):
    """The run cannot go on; ``ops`` are the root, ``open_ops`` all that did not end.

    ``submitted`` are the ops and graphs that processes handed in by then, by process.

    Examples
    --------
    >>> str(SimulationError("deadlock", "op 1 waits for op 2", (1, 2), (1, 2, 3)))
    'deadlock: op 1 waits for op 2'
    """

    def __init__(
        self, kind: str, message: str, ops: Sequence[int] = (), open_ops: Sequence[int] = ()
    ):
        super().__init__(kind, message, tuple(ops), tuple(open_ops))
        self.kind, self.message = kind, message
        self.ops, self.open_ops = tuple(ops), tuple(open_ops)
        self.submitted: dict[str, tuple[int, int]] = {}

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class RangeError(ForetraceError, OverflowError):
    """A time is not a number, or beyond what ticks hold."""


class NotKeptError(ForetraceError):
    """Result that was asked for one row per op, which was not kept of its run."""
