"""Protocols of a communication library: cost of one step, within machines and between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....sim.units import ByteRate, Bytes, Ratio, Seconds
from .library import Protocol

Floats = NDArray[np.float64]

PAYLOAD = {"simple": 1.0, "ll128": 120 / 128, "ll": 1 / 2}
"""Fraction of the bytes on the wire that are payload: ``ll`` sends a flag with every 4 bytes,
``ll128`` 8 bytes of flags in 128 (NCCL's protocols: Hu et al. 2025, arXiv:2507.04786, table I)."""

MOVED_BY_SENDS = ("all-to-all", "scatter", "gather")
"""Collectives that a library writes as grouped sends and receives."""


class StepCosts(NamedTuple):
    """Costs of a protocol after defaults are filled in.

    Parameters
    ----------
    launch : start-up time of a collective, in s
    step, network_step : time that the library adds to a step within a machine, and to a step
        between machines, in s
    efficiency, network_efficiency : fraction of the link rate, and of the NIC and network rate,
        that is reached
    pair_rate : largest rate from one member to another, in B/s
    """

    launch: Seconds
    step: Seconds
    efficiency: Ratio
    network_step: Seconds
    network_efficiency: Ratio
    pair_rate: ByteRate = np.inf


class SwitchRounds(NamedTuple):
    """Rounds of chunks to a reducing switch: one chunk per channel and member in a round.

    Every round takes the time of a full one, and one extra round fills the pipeline. As in NCCL
    (NVIDIA/nccl, src/enqueue.cc, ``NCCL_ALGO_NVLS``) chunks grow with the size: 16, 32, 64 and 128
    KiB, each used below 2, 8 and 64 rounds of the next larger chunk.

    Parameters
    ----------
    slots : chunks per round: channels x members
    cost : time in s that a round adds to the time of its bytes
    """

    slots: int
    cost: Seconds

    def chunk(self, size: Floats) -> Floats:
        """Chunk size in bytes for collectives of these sizes, shape (n,).

        >>> SwitchRounds(128, 0.0).chunk(np.array([1, 8, 64, 1024]) * 2.0**20) / 2**10
        array([ 16.,  32.,  64., 128.])
        """
        chunk = np.full(np.shape(size), CHUNKS[-1])
        for rounds, smaller in zip(reversed(FEWEST), reversed(CHUNKS[:-1]), strict=True):
            chunk[(size < rounds * self.slots * chunk) & (chunk > smaller)] = smaller
        return chunk

    def overhead(self, size: Floats) -> tuple[Floats, Floats]:
        """Extra time of the rounds in s, and unused bytes of partly filled rounds, each (n,).

        >>> cost, more = SwitchRounds(128, 1e-6).overhead(np.array([2.0**20, 2.0**21]))
        >>> cost.tolist(), (more / 2**20).tolist()
        ([2e-06, 2e-06], [3.0, 2.0])
        """
        whole = self.slots * self.chunk(size)
        rounds = np.ceil(size / whole) + 1
        return rounds * self.cost, rounds * whole - size


CHUNKS = (16384.0, 32768.0, 65536.0, 131072.0)
FEWEST = (2, 8, 64)
"""With fewer rounds than these, the next smaller chunk is used."""


class LastPieceCopy(NamedTuple):
    """Time of a receiver to copy the last piece out of its buffer after all data arrived.

    Parameters
    ----------
    piece : bytes of the collective that fit into the buffers of all channels
    share : time to copy a byte relative to the time to send one
    """

    piece: Bytes
    share: Ratio


def step_costs(simple: Protocol, **others: Protocol) -> dict[str, StepCosts]:
    """Step costs of ``simple``, and of each other protocol that the library has.

    Costs that a protocol does not set follow from ``simple``: the same step time, and its rate
    minus the share of the protocol's flags. A step between machines defaults to a step within one.

    >>> made = step_costs(Protocol(1e-5, 2e-6, 0.8), ll=Protocol(1e-6))
    >>> launch, step, *others, pair_rate = made["ll"]
    >>> launch, step, others, pair_rate
    (1e-06, 2e-06, [0.4, 2e-06, 0.4], inf)
    """
    found = {"simple": _costs("simple", simple, simple, simple.launch or 0.0)}
    for name, own in others.items():
        if own.launch is not None:
            found[name] = _costs(name, own, simple, own.launch)
    return found


def _costs(name: str, own: Protocol, simple: Protocol, launch: Seconds) -> StepCosts:
    step = _first_set(own.step, simple.step, 0.0)
    efficiency = _first_set(own.efficiency, _less_flags(simple.efficiency, name), PAYLOAD[name])
    wire = _less_flags(simple.network.efficiency, name)
    return StepCosts(
        launch,
        step,
        efficiency,
        _first_set(own.network.step, simple.network.step, step),
        _first_set(own.network.efficiency, wire, efficiency),
    )


def _less_flags(share: Ratio | None, protocol: str) -> Ratio | None:
    return None if share is None else share * PAYLOAD[protocol]


def _first_set(*values: float | None) -> float:
    return next(v for v in values if v is not None)
