"""Adapter of a device that replaces a component: turns samples into timings.

How ops share the device depends on the driver. ``exclusive``: one op at a time, others queue.
``solo``: an op is measured alone, and a model shares the device evenly among ops in flight.
``concurrent``: every set of ops in flight is measured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ...sim.facts.signature import Operand, Signature, parse_signature
from ...sim.facts.system import Component
from ...sim.units import ByteRate, Seconds
from ..driver import Sharing
from ..sample import AFTER, WARM, Request
from .coverage import SampleCoverage
from .journal import OpTimer
from .per_flow_rates import NANOSECOND, OpInFlight, PerFlowRates

SWEEP = tuple(4**k for k in range(3, 12))  # B: 64 B to 4 MiB, alone, for what does not grow
MOST = 8  # ops in flight that a concurrent device takes unless it says otherwise
SHARED = 1e12  # B/s of the component that solo ops share: weights are 1 to 10^6 at 1 MB/s to 1 TB/s
SLOWEST = 1e6
QUEUE = 256  # ops that may wait for a device besides


@dataclass(frozen=True)
class DeviceAnswer:
    """Timing of one op on a device, like one row of ``Timing``; usage is by component name.

    ``modelled`` is True if the model timed the op and not the device.
    """

    fixed: Seconds
    work: float = 0.0
    usage: dict[str, float] = field(default_factory=dict)
    modelled: bool = False


@dataclass(frozen=True)
class ResidualPath:
    """Part of an op's path outside the device; it stays modelled.

    Parameters
    ----------
    latency : latency of the modelled components minus the time subtracted from the sample, in s
    usage : load on each shared component that stays modelled, by name: the component's rate used
        per unit of the op's rate
    """

    latency: Seconds = 0.0
    usage: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Swap:
    """Component of the scenario and the device that replaces it.

    Parameters
    ----------
    component : name of the component in the scenario
    timer : source of measured times: the device, or a journal of earlier measurements
    sharing : ``exclusive``, ``solo`` or ``concurrent``
    covers : devices whose time a sample includes
    max_in_flight : maximum number of ops in flight on a concurrent device
    context : state before each op: ``warm``, ``cold``, or ``after`` (the device's previous ops)
    preceding : number of previous ops that run before each op if the context is ``after``
    answers : function from a signature to True if the device can execute the op; None if it
        executes all ops
    others : what to do with ops that the device cannot execute: ``fail``, or ``model`` to use the
        model
    sizes : message sizes in B of the sweep that separates latency from bandwidth
    recorded : True if the timings come from a recording
    """

    component: str
    timer: OpTimer
    sharing: Sharing
    covers: SampleCoverage
    max_in_flight: int = MOST
    context: str = WARM
    preceding: int = 1
    answers: object = None
    others: Literal["fail", "model"] = "fail"
    sizes: tuple[int, ...] = SWEEP
    recorded: bool = False

    def can_execute(self, signature: str) -> bool:
        """True if the device can execute an op of this signature."""
        return not callable(self.answers) or bool(self.answers(signature))


class DeviceAdapter:
    """Adapter between the simulation's ops and one device.

    Parameters
    ----------
    swap : Swap
        Component and the device that replaces it.
    slots : int or None
        Number of slots of the component that the device replaces; None if it has no slots.
    bytes : bool
        True if the amount of work of an op is its bytes, False if it is 1 per op.
    """

    def __init__(self, swap: Swap, slots: int | None, bytes: bool):
        self.swap, self.slots, self.unit = swap, slots, "B" if bytes else "1"
        self.name = swap.component
        self.lanes = self._make_flow_rates()
        self.shared = f"{self.name}.shared"
        self.answered, self.others = 0, 0

    def _make_flow_rates(self) -> PerFlowRates | None:
        if self.swap.sharing == "solo" or (self.swap.sharing == "exclusive" and self.slots):
            return None
        most = 1 if self.swap.sharing == "exclusive" else self.swap.max_in_flight
        waiting = 0 if self.slots else QUEUE
        return PerFlowRates(self.name, 2 * (most + waiting), most, self.unit)

    @property
    def slots_needed(self) -> int | None:
        """Number of slots that the component must have; None to leave it unchanged."""
        if self.slots is None or self.swap.sharing == "solo":
            return None
        return 1 if self.swap.sharing == "exclusive" else self.swap.max_in_flight

    def components(self) -> tuple[Component, ...]:
        """Components to add to the system, used by the ops that share or queue for this device.

        Empty if the component that the device replaces queues the ops itself.
        """
        if self.lanes is not None:
            return self.lanes.components()
        if self.swap.sharing == "solo":
            rate = SHARED if self.unit == "B" else 1.0
            return (Component(self.shared, "lane", rate=rate, unit=self.unit),)
        return ()

    def reset(self) -> None:
        """Forget all earlier ops; called at the start of a run."""
        self.answered, self.others = 0, 0
        self.before: deque[str] = deque(maxlen=self.swap.preceding)
        self._fits: dict[str, tuple[float, ByteRate]] = {}
        if self.lanes is not None:
            self.lanes.reset(self.swap.timer)

    def answer(self, signature: str, bytes: float, residual: ResidualPath) -> DeviceAnswer:
        """Timing of an op that starts now.

        ``bytes`` is the size of the op; ``residual`` is the part of its path that stays modelled.
        """
        self.answered += 1
        request = self._request_of(signature)
        if self.lanes is not None:
            work = max(bytes, 1.0) if self.unit == "B" else 1.0
            lane = self.lanes.take_lane(OpInFlight(request, work, residual.latency))
            return DeviceAnswer(0.0, work, {self.lanes.names[lane]: 1.0, **residual.usage})
        seconds = self.swap.timer.alone(request) * NANOSECOND + residual.latency
        if self.swap.sharing == "exclusive":
            return DeviceAnswer(max(seconds, 0.0))
        return self._shared_answer(signature, bytes, max(seconds, 0.0), residual)

    def _shared_answer(
        self, signature: str, bytes: float, seconds: Seconds, residual: ResidualPath
    ) -> DeviceAnswer:
        """Timing of an op that takes ``seconds`` alone, if concurrent ops share the device evenly.

        It has a fixed time for the latency; the rest is work at the shared rate.
        """
        fixed = min(self._fitted_latency(signature) + max(residual.latency, 0.0), seconds)
        rest = seconds - fixed
        if rest == 0 or (self.unit == "B" and not bytes > 0):
            return DeviceAnswer(seconds)
        if self.unit == "1":
            return DeviceAnswer(fixed, rest, {self.shared: 1.0})
        if bytes < SLOWEST * rest:  # so slow that concurrent ops do not matter
            return DeviceAnswer(fixed, SLOWEST * rest, {self.shared: SHARED / SLOWEST})
        weight = SHARED * rest / bytes  # alone it takes `rest` seconds
        return DeviceAnswer(fixed, bytes, {self.shared: weight, **residual.usage})

    def _fitted_latency(self, signature: str) -> Seconds:
        """Latency of this kind of op in s, fitted once to a sweep over message sizes."""
        parts = parse_signature(signature)
        if self.unit != "B" or len(parts.operands) != 1:
            return 0.0
        name = f"{parts.kind}:{parts.name}"
        if name not in self._fits:
            self._fits[name] = fit_sweep(self.swap, parts)
        return self._fits[name][0]

    def _request_of(self, signature: str) -> Request:
        before = tuple(self.before)
        self.before.append(signature)
        if self.swap.context != AFTER:
            return Request(signature, 1, self.swap.context)
        return Request(signature, 1, AFTER if before else WARM, before)


def fit_sweep(swap: Swap, parts: Signature) -> tuple[Seconds, ByteRate]:
    """Fit latency in s and bandwidth in B/s of one kind of op to a sweep over message sizes.

    The ops of ``swap.sizes`` are measured alone, and relative errors are minimised. Sizes that a
    recording does not contain are left out. With fewer than two sizes the result is (0, inf).
    """
    rows = []
    for size in swap.sizes:
        operand = Operand("uint8", (size,))
        text = str(Signature(parts.kind, parts.name, (operand,)))
        if swap.can_execute(text):
            rows.append((size, swap.timer.alone(Request(text, 1, WARM)) * NANOSECOND))
    if len(rows) < 2:
        return 0.0, float("inf")
    return fit_latency_bandwidth(*zip(*rows, strict=True))


def fit_latency_bandwidth(
    sizes: Sequence[float], seconds: Sequence[float]
) -> tuple[Seconds, ByteRate]:
    """Fit time = latency + size / bandwidth by least relative squares, with latency >= 0.

    Returns the latency in s and the bandwidth in B/s.

    >>> latency, bandwidth = fit_latency_bandwidth([100, 1000, 10000], [1.1e-6, 2e-6, 11e-6])
    >>> round(latency, 9), round(bandwidth)
    (1e-06, 1000000000)
    """
    size, spent = np.asarray(sizes, float), np.asarray(seconds, float)
    columns = np.stack([1 / spent, size / spent], axis=1)
    (latency, slope), *_ = np.linalg.lstsq(columns, np.ones(len(size)), rcond=None)
    if latency < 0:
        latency, slope = 0.0, float((size / spent).sum() / ((size / spent) ** 2).sum())
    return float(latency), 1 / float(slope) if slope > 0 else float("inf")
