"""Plan of a collective: one algorithm with one protocol for a group of GPUs, and its time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ....sim.units import Bytes, Seconds
from .library import NetworkMessages
from .load import AlgorithmLoad
from .protocols import PAYLOAD, Floats, LastPieceCopy, StepCosts, SwitchRounds
from .steps import SEGMENTS


@dataclass(frozen=True)
class CollectivePlan:
    """One algorithm with one protocol for a group of GPUs.

    Parameters
    ----------
    load : bytes that the algorithm puts on each component, and its latency
    protocol : name of the protocol
    step_costs : cost of one step in this protocol
    launch : start-up time in s, including the host's part
    copied : extra time to copy bytes within a member, relative to the time to send its bytes
    rounds : rounds in which chunks are sent to a reducing switch; None if the switch does not
        reduce
    filling : costs of copying the last piece of grouped sends; None for other algorithms
    segment : largest pipeline segment, in bytes of the collective; None for arbitrarily small
        segments
    network : costs of messages between machines; None within one machine
    paced : True if each step of a ring over several machines has a minimum time
    """

    load: AlgorithmLoad
    protocol: str
    step_costs: StepCosts
    launch: Seconds
    copied: float = 0.0
    rounds: SwitchRounds | None = None
    filling: LastPieceCopy | None = None
    segment: Bytes | None = None
    network: NetworkMessages | None = None
    paced: bool = False

    @property
    def name(self) -> str:
        """Algorithm and protocol in the notation of a pin, such as ``ring/ll128``."""
        return f"{self.load.algorithm.name}/{self.protocol}"

    @property
    def waiting(self) -> Seconds:
        """Sum of the latencies of all steps in s, including what the library adds to each step."""
        within = self.load.steps - self.load.network_steps
        across = self.load.network_steps * self.step_costs.network_step
        return self.load.latency + within * self.step_costs.step + across

    @cached_property
    def beta(self) -> float:
        """Seconds per byte of the collective when nothing else uses the links."""
        return max(self.load.parts.seconds_per_byte(*self._stretch), 1 / self.limit)

    @property
    def limit(self) -> float:
        """Largest rate in B/s at which senders and pairs of members can run the collective."""
        share = self.load.pair_share
        return min(self.load.limit, self.step_costs.pair_rate / share if share else np.inf)

    @property
    def component(self) -> NDArray[np.int32]:
        """Indices of the components that the plan uses, shape (parts,)."""
        return self.load.parts.component

    @cached_property
    def weight(self) -> Floats:
        """Bytes on each used component per byte of the collective, shape (parts,).

        Protocol overhead is included.
        """
        return self.load.parts.stretch(*self._stretch)

    @property
    def _stretch(self) -> tuple[float, float]:
        costs = self.step_costs
        return (1 + self.copied) / costs.efficiency, 1 / costs.network_efficiency

    def start(self, size: Floats) -> Floats:
        """Fixed time in s for each size, shape (n,): all time except moving the bytes."""
        fixed = self.launch + self._latency_seconds(size)
        if self.filling is not None:
            fixed += np.minimum(size, self.filling.piece) * self.filling.share * self.beta
        if self.segment is not None and self.load.algorithm.pipelined:
            behind = np.minimum(size / SEGMENTS, self.segment) * (self.load.steps - 1)
            fixed += behind * self.beta
        if self.rounds is not None:
            cost, overhead = self.rounds.overhead(size)
            fixed += cost + overhead * self.beta
        return fixed

    def _latency_seconds(self, size: Floats) -> Floats:
        """Latency in s for each size, shape (n,).

        For a paced ring, it is only the part that the time of the bytes does not hide.
        """
        waiting = np.full(len(size), self.waiting)
        message = size * self.load.network_share / PAYLOAD.get(self.protocol, 1.0)
        if self.network is None:
            return waiting
        waiting += self.load.network_steps * self.network.rendezvous_seconds(message)
        if not self.paced:
            return waiting
        steps = self.load.steps * self.network.ring_step_seconds(message)
        return np.asarray(
            np.maximum(np.maximum(waiting, steps) - self._transfer_seconds(size), 0.0)
        )

    def _transfer_seconds(self, size: Floats) -> Floats:
        """Time in s to move the bytes of the collective, shape (n,), for each size.

        It is 0 for 0 bytes, even on a failed link.
        """
        return np.multiply(size, self.beta, where=size > 0, out=np.zeros(len(size)))

    def seconds_alone(self, size: Floats) -> Floats:
        """Time in s for each size, shape (n,), when nothing else runs."""
        return self.start(size) + self._transfer_seconds(size)
