"""The plan of a collective: one algorithm with one protocol among certain GPUs, and its time."""

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
    """One algorithm with one protocol among certain GPUs.

    Parameters
    ----------
    protocol : its name
    step_costs : how it moves bytes
    launch : start, the host's part included
    copied : bytes that a member copies besides, per byte that it sends; not over wires
    rounds, filling : of a switch that reduces, and of sends
    segment : B of S that a pipeline passes on at once, at most; None for as little as you like
    network : messages between machines; None within one
    paced : whether steps of a ring over machines have a least time
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
        """Algorithm and protocol, as one pins them."""
        return f"{self.load.algorithm.name}/{self.protocol}"

    @property
    def waiting(self) -> Seconds:
        """Latency of all its steps, with what the library adds to each."""
        within = self.load.steps - self.load.network_steps
        across = self.load.network_steps * self.step_costs.network_step
        return self.load.latency + within * self.step_costs.step + across

    @cached_property
    def beta(self) -> float:
        """Seconds a byte when alone."""
        return max(self.load.parts.seconds_per_byte(*self._stretch), 1 / self.limit)

    @property
    def limit(self) -> float:
        """B/s of S that bounds of single senders, and of pairs of members, allow."""
        share = self.load.pair_share
        return min(self.load.limit, self.step_costs.pair_rate / share if share else np.inf)

    @property
    def component(self) -> NDArray[np.int32]:
        """(parts,) components that it uses."""
        return self.load.parts.component

    @cached_property
    def weight(self) -> Floats:
        """(parts,) bytes for which a byte of S occupies each, flags and what is not reached too."""
        return self.load.parts.stretch(*self._stretch)

    @property
    def _stretch(self) -> tuple[float, float]:
        costs = self.step_costs
        return (1 + self.copied) / costs.efficiency, 1 / costs.network_efficiency

    def start(self, size: Floats) -> Floats:
        """(n,) seconds before and beside the bytes of S, of collectives of such sizes."""
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
        """(n,) seconds of latencies; of those of a paced ring, what its bytes do not hide."""
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
        """(n,) seconds of the bytes of S; nothing takes no time, on a link that is down either."""
        return np.multiply(size, self.beta, where=size > 0, out=np.zeros(len(size)))

    def seconds_alone(self, size: Floats) -> Floats:
        """(n,) seconds when nothing else runs."""
        return self.start(size) + self._transfer_seconds(size)
