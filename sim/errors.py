"""Error classes; every message has the form ``<place>: <what is wrong>; <what to do>``.

::

    ForetraceError
    ├─ ScenarioError            the scenario cannot be built
    │  └─ PlanError              a parallel plan breaks a rule, or does not fit into memory
    ├─ TraceError               a trace file is malformed
    ├─ GraphError               ops cannot be scheduled (cycle, unknown place, bad weight)
    ├─ BackendError             a backend returned an impossible timing
    │  ├─ HardwareUnavailable   device absent, busy, or not permitted
    │  │  └─ DriverFault        a driver or its agent failed, or returned an impossible value
    │  └─ RecordingError        a recording is damaged, of other hardware, or lacks the op
    ├─ SimulationError          the run cannot go on (deadlock, starvation, time overflow)
    ├─ NotKeptError             a result was read for data that its run did not keep
    └─ RangeError               a time does not fit into 64-bit ticks
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
    """Base class of all errors that a user can cause and fix."""


class ScenarioError(ForetraceError):
    """The scenario asks for something that cannot be built."""


class PlanError(ScenarioError):
    """A parallel plan breaks a rule or does not fit into memory; names the nearest valid one."""


class TraceError(ForetraceError):
    """A trace file is malformed, or lacks what the request needs."""


class GraphError(ForetraceError):
    """Ops of a graph cannot be scheduled; ``ops`` are the rows that cause it.

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
    """A backend returned an impossible timing, or cannot time an op."""


class HardwareUnavailable(BackendError):  # noqa: N818  reads better in a message
    """A device is absent, busy or not permitted; the message says what to bind instead."""


class DriverFault(HardwareUnavailable):
    """A driver or its agent failed, or returned an impossible value; ``kind`` names the fault.

    ``missing denied unsupported broken busy`` mean that a device cannot be used; ``died hung
    protocol oversized`` that its agent failed; ``not-a-number negative absurd unrequested clock``
    that a measured value cannot be true.

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
    """A recording is damaged, of other hardware, or does not contain the op."""


class SimulationError(ForetraceError):
    """The run cannot go on; ``ops`` are the cause, ``open_ops`` all ops that did not end.

    ``submitted`` gives, for each process, the number of ops and of graphs that it submitted so far.

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
    """A time is not a number, or does not fit into 64-bit ticks."""


class NotKeptError(ForetraceError):
    """A result was read for rows of ops or aggregates that its run did not keep."""
