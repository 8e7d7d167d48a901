"""Protocols of a library: how it moves the bytes of one step, in machines and between them."""

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
    """Costs of a protocol, each known: what a plan of a collective is computed from.

    Parameters
    ----------
    launch : start of a collective
    step, network_step : what the library adds to a step within a machine, and to one between two
    efficiency, network_efficiency : shares of the rates of links, and of NICs and what joins them
    pair_rate : B/s from one member to another at most, whatever joins them
    """

    launch: Seconds
    step: Seconds
    efficiency: Ratio
    network_step: Seconds
    network_efficiency: Ratio
    pair_rate: ByteRate = np.inf


class SwitchRounds(NamedTuple):
    """Rounds in which a switch that reduces is fed: every channel of every member a chunk.

    A round is whole whatever is left for it, and one more fills the pipeline.  Chunks grow with
    the size as NCCL's do (NVIDIA/nccl, src/enqueue.cc, ``NCCL_ALGO_NVLS``): 16, 32, 64 and 128 KiB
    below 2, 8 and 64 rounds of the next larger ones.

    Parameters
    ----------
    slots : chunks of a round: channels x members
    cost : what a round takes beside its bytes
    """

    slots: int
    cost: Seconds

    def chunk(self, size: Floats) -> Floats:
        """(n,) bytes of a chunk of collectives of such sizes.

        >>> SwitchRounds(128, 0.0).chunk(np.array([1, 8, 64, 1024]) * 2.0**20) / 2**10
        array([ 16.,  32.,  64., 128.])
        """
        chunk = np.full(np.shape(size), CHUNKS[-1])
        for rounds, smaller in zip(reversed(FEWEST), reversed(CHUNKS[:-1]), strict=True):
            chunk[(size < rounds * self.slots * chunk) & (chunk > smaller)] = smaller
        return chunk

    def overhead(self, size: Floats) -> tuple[Floats, Floats]:
        """(n,) seconds that rounds cost, and (n,) bytes that are waited for but not there.

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
    """What a receiver takes to copy the last piece out of a buffer, when all has arrived.

    Parameters
    ----------
    piece : B of S that the buffers of all channels hold
    share : what copying a byte takes, of what sending one takes
    """

    piece: Bytes
    share: Ratio


def step_costs(simple: Protocol, **others: Protocol) -> dict[str, StepCosts]:
    """Costs of ``simple`` and of the other protocols that the library has.

    What a protocol leaves out follows from ``simple``: a step takes as long, a rate is its rate
    less the flags.  A step between machines is like one within, the share of the NICs' rate that
    of the links'.

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
