"""Settings of a communication library, in groups: what it adds to the links that it uses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import BackendError
from ....sim.units import ByteRate, Bytes, Ratio, Seconds

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NetworkSteps:
    """Steps of a protocol between machines.

    Parameters
    ----------
    step : Seconds or None
        Time that the library adds to a step (proxy thread, doorbell, completion).  Unless said, as
        within a machine.
    efficiency : Ratio or None
        Share that large transfers reach of the rate of NICs and what joins them.  Unless said, as
        within a machine.
    """

    step: Seconds | None = None
    efficiency: Ratio | None = None


@dataclass(frozen=True)
class Protocol:
    """A protocol of a library: how it moves the bytes of one step.

    Parameters
    ----------
    launch : Seconds or None
        Start of a collective.  Unless said, 0 s for ``simple``; the library lacks the others.
    step : Seconds or None
        Time that the library adds to the latency of each step.  Unless said, that of ``simple``.
    efficiency : Ratio or None
        Share of the line rate that large transfers reach.  Unless said, that of ``simple``, less
        the flags.
    network : NetworkSteps
        Steps between machines.
    """

    launch: Seconds | None = None
    step: Seconds | None = None
    efficiency: Ratio | None = None
    network: NetworkSteps = NetworkSteps()


@dataclass(frozen=True)
class InSwitch:
    """Reduction in the switch (NVLS).

    Parameters
    ----------
    efficiency : Ratio or None
        Share of the line rate that large transfers reach.  Unless said, the switch reduces nothing.
    launch : Seconds or None
        Start of a collective.  Unless said, that of ``simple``.
    channels : int or None
        Chunks that each member sends to the switch at a time.  Unless said, chunks are as small as
        needed.
    round : Seconds
        Time that a round of these chunks takes in addition to its bytes.
    """

    efficiency: Ratio | None = None
    launch: Seconds | None = None
    channels: int | None = None
    round: Seconds = 0.0


@dataclass(frozen=True)
class LowLatencySends:
    """Sends by protocol ``ll``.

    Parameters
    ----------
    launch : Seconds or None
        Start of grouped sends.  Unless said, they have no ``ll``.
    rate : ByteRate or None
        Largest rate from one member to another: each pair has few threads of its own.
    """

    launch: Seconds | None = None
    rate: ByteRate | None = None


@dataclass(frozen=True)
class DirectWrites:
    """Low-latency all-to-all: each GPU writes straight into the memory of each other.

    Nobody copies out of buffers, and no proxy takes steps.

    Parameters
    ----------
    launch : Seconds or None
        Start of the all-to-all.  Unless said, the library has none and refuses it.
    efficiency : Ratio
        Share that it reaches of the rate of NICs and links.
    """

    launch: Seconds | None = None
    efficiency: Ratio = 1.0


@dataclass(frozen=True)
class Sends:
    """Collectives written as grouped sends and receives: all-to-all, scatter, gather.

    Parameters
    ----------
    launch : Seconds or None
        Start of grouped sends.  Unless said, launch, efficiency and protocols are those of other
        collectives.
    efficiency : Ratio or None
        Share of the line rate that they reach.  Unless said, that of ``simple``.
    lateness : Seconds
        Mean delay with which a member starts its sends.  It is exponential: the last of n members
        is late by the n-th harmonic number times this.
    copying : Ratio or None
        As ``buffers.copying``, of grouped sends.  Unless said, the same.
    own_part : Ratio
        Time to copy a byte of a member's part to itself, relative to sending a byte: the same
        threads do both.
    piece : Bytes or None
        Bytes of the collective that the buffers of all channels hold.  Receivers copy the last
        piece after all has arrived.  Unless said, pieces are as small as needed.
    ll : LowLatencySends
        The same by protocol ``ll``.
    low_latency : DirectWrites
        An all-to-all that writes straight into the memory of others.
    """

    launch: Seconds | None = None
    efficiency: Ratio | None = None
    lateness: Seconds = 0.0
    copying: Ratio | None = None
    own_part: Ratio = 0.0
    piece: Bytes | None = None
    ll: LowLatencySends = LowLatencySends()
    low_latency: DirectWrites = DirectWrites()


@dataclass(frozen=True)
class Buffers:
    """Buffers that members pass bytes on through.

    Parameters
    ----------
    copying : Ratio
        Time to copy a byte that a member does not pass on, relative to sending a byte: a channel is
        one block of threads, which does one or the other.
    segment : Bytes or None
        Bytes of the collective that a pipeline (tree, chain) passes on at once, on all channels; at
        most 1/16 of the collective.  Unless said, segments are as small as needed.
    """

    copying: Ratio = 0.0
    segment: Bytes | None = None


@dataclass(frozen=True)
class NetworkMessages:
    """Messages between machines: eager or by rendezvous, and the pace of a ring.

    Parameters
    ----------
    eager_limit : Bytes or None
        Largest message on the wire that is sent at once.  The receiver fetches larger ones
        (rendezvous).  Unless said, all are sent at once.
    rendezvous : Seconds
        Time that a rendezvous adds to a step between machines.
    pace : Seconds or None
        Least time of a step of a ``simple`` ring over machines: all members wait for those that
        send to another machine.  Bytes move meanwhile, and their time is not added where it is
        longer.  Unless said, latencies of steps add to the bytes.
    copied : Bytes or None
        Largest message of such a ring that the host copies out of the NIC's buffers.
    copy_rate : ByteRate or None
        Rate of these copies; given with ``copied`` or not at all.
    """

    eager_limit: Bytes | None = None
    rendezvous: Seconds = 0.0
    pace: Seconds | None = None
    copied: Bytes | None = None
    copy_rate: ByteRate | None = None

    def __post_init__(self) -> None:
        if (self.copied is None) != (self.copy_rate is None):
            given, other = ("copied", "copy_rate")[:: 1 if self.copy_rate is None else -1]
            raise BackendError(
                f"fabric: network.{given} needs network.{other}; give both, or neither"
            )

    @property
    def has_min_step(self) -> bool:
        """Whether the steps of a ring have a least time."""
        return self.pace is not None or self.copied is not None

    def rendezvous_seconds(self, message: Floats) -> Floats:
        """(n,) seconds that a rendezvous adds to messages of so many bytes.

        >>> messages = NetworkMessages(eager_limit=2048.0, rendezvous=1e-6)
        >>> messages.rendezvous_seconds(np.array([2048.0, 4096.0])).tolist()
        [0.0, 1e-06]
        """
        limit = np.inf if self.eager_limit is None else self.eager_limit
        return np.where(message > limit, self.rendezvous, 0.0)

    def ring_step_seconds(self, message: Floats) -> Floats:
        """(n,) seconds from one step of a ring to the next, of messages of so many bytes.

        >>> messages = NetworkMessages(pace=4e-5, copied=1e6, copy_rate=2e10)
        >>> messages.ring_step_seconds(np.array([5e5, 1e6, 2e6])).tolist()
        [4e-05, 5e-05, 4e-05]
        """
        copied = message <= (self.copied or 0.0)
        time = np.where(copied, message / (self.copy_rate or np.inf), 0.0)
        return np.maximum(self.pace or 0.0, time)


@dataclass(frozen=True)
class CoreCosts:
    """Processors that collectives take: of the host, or multiprocessors of GPUs.

    They matter where components have a core (``gpu: {core: true}``), at either fidelity.  While a
    thread or kernel computes all the time on the same core, a collective takes as much longer as it
    takes of the core, and the other gets what the collective takes alone.

    Parameters
    ----------
    dispatch : Seconds
        Host time from the call to the start of each collective where nothing hides it, the GPUs
        being idle.  0 s where the host runs ahead, or where its ops are in the graph.
    step : Seconds
        Time of a core that each step takes.
    rate : ByteRate or None
        Rate at which a core handles the bytes of the busiest link.  Unless said, collectives take
        nothing of cores.
    share : Ratio or None
        Share of the core that a collective takes when nothing else holds it back.  One that takes
        less waits for the network: it keeps its pace next to what computes until the core holds it
        back more.  Unless said, the core holds back all of them.
    """

    dispatch: Seconds = 0.0
    step: Seconds = 0.0
    rate: ByteRate | None = None
    share: Ratio | None = None

    def scaled_core_use(self, factor: float) -> CoreCosts:
        """The same, of which collectives take so many times as much.

        >>> CoreCosts(rate=1e9, share=0.5).scaled_core_use(1.5).share
        0.75
        """
        return replace(
            self,
            step=self.step * factor,
            rate=None if self.rate is None else self.rate / factor,
            share=None if self.share is None else self.share * factor,
        )
