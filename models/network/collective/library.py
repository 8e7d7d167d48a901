"""Settings of a communication library, in groups: its costs on top of those of the links."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import BackendError
from ....sim.units import ByteRate, Bytes, Ratio, Seconds

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NetworkSteps:
    """Costs of a protocol's steps between machines.

    Parameters
    ----------
    step : Seconds or None
        Time that the library adds to each step (proxy thread, doorbell, completion). Default: as
        within a machine.
    efficiency : Ratio or None
        Fraction of the NIC and network rate that large transfers reach. Default: as within a
        machine.
    """

    step: Seconds | None = None
    efficiency: Ratio | None = None


@dataclass(frozen=True)
class Protocol:
    """Costs of one protocol of the library: how it moves the bytes of one step.

    Parameters
    ----------
    launch : Seconds or None
        Start-up time of a collective. Default: 0 s for ``simple``. The library has ``ll128`` or
        ``ll`` only if this is set for it.
    step : Seconds or None
        Time that the library adds to the latency of each step. Default: that of ``simple``.
    efficiency : Ratio or None
        Fraction of the line rate that large transfers reach. Default: that of ``simple``, minus the
        share of the protocol's flags.
    network : NetworkSteps
        Costs of steps between machines.
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
        Fraction of the line rate that large transfers reach. Default: the switch does not reduce.
    launch : Seconds or None
        Start-up time of a collective. Default: that of ``simple``.
    channels : int or None
        Number of chunks that each member sends to the switch at a time. Default: arbitrarily small
        chunks.
    round : Seconds
        Time that each round of these chunks adds to the time of its bytes.
    """

    efficiency: Ratio | None = None
    launch: Seconds | None = None
    channels: int | None = None
    round: Seconds = 0.0


@dataclass(frozen=True)
class LowLatencySends:
    """Costs of grouped sends with protocol ``ll``.

    Parameters
    ----------
    launch : Seconds or None
        Start-up time of grouped sends with ``ll``. Default: grouped sends do not use ``ll``.
    rate : ByteRate or None
        Largest rate from one member to another; each pair of members has only a few threads.
    """

    launch: Seconds | None = None
    rate: ByteRate | None = None


@dataclass(frozen=True)
class DirectWrites:
    """Low-latency all-to-all: each GPU writes directly into the memory of each other GPU.

    No data is copied out of buffers, and no proxy thread is involved.

    Parameters
    ----------
    launch : Seconds or None
        Start-up time of the all-to-all. Default: the library has no such all-to-all and refuses it.
    efficiency : Ratio
        Fraction of the rate of NICs and links that it reaches.
    """

    launch: Seconds | None = None
    efficiency: Ratio = 1.0


@dataclass(frozen=True)
class Sends:
    """Costs of collectives made of grouped sends and receives: all-to-all, scatter, gather.

    Parameters
    ----------
    launch : Seconds or None
        Start-up time of grouped sends. Default: launch, efficiency and protocols are those of other
        collectives.
    efficiency : Ratio or None
        Fraction of the line rate that grouped sends reach. Default: that of ``simple``.
    lateness : Seconds
        Mean of the exponential delay with which a member starts its sends. The last of n members is
        late by the n-th harmonic number times this mean.
    copying : Ratio or None
        ``buffers.copying`` for grouped sends. Default: the same value.
    own_part : Ratio
        Time to copy a byte of the part that a member keeps, relative to the time to send a byte.
        The same threads do both.
    piece : Bytes or None
        Bytes of the collective that fit into the buffers of all channels. Receivers copy the last
        piece after all data arrived. Default: arbitrarily small pieces.
    ll : LowLatencySends
        Costs of grouped sends with protocol ``ll``.
    low_latency : DirectWrites
        Costs of an all-to-all that writes directly into the memory of other GPUs.
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
    """Library buffers through which GPUs forward data.

    Parameters
    ----------
    copying : Ratio
        Time to copy a received byte that is not forwarded, relative to the time to send a byte. A
        channel is one thread block, which either copies or sends.
    segment : Bytes or None
        Bytes of the collective in one segment of a pipeline (tree, chain), over all channels; at
        most 1/16 of the collective. Default: arbitrarily small segments.
    """

    copying: Ratio = 0.0
    segment: Bytes | None = None


@dataclass(frozen=True)
class NetworkMessages:
    """Costs of messages between machines: eager limit, rendezvous, and the pace of a ring.

    Parameters
    ----------
    eager_limit : Bytes or None
        Eager limit: largest message on the wire that is sent without a rendezvous. Default: all
        messages are sent eagerly.
    rendezvous : Seconds
        Time that a rendezvous adds to a step between machines.
    pace : Seconds or None
        Minimum time of a step of a ``simple`` ring over several machines, because all members wait
        for those that send to another machine. Bytes move during this time. Default: no minimum;
        the latencies of the steps add to the time of the bytes.
    copied : Bytes or None
        Largest message of a paced ring that the host copies out of the NIC's buffers.
    copy_rate : ByteRate or None
        Rate of these host copies; requires ``copied``.
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
        """True if each step of a ring over several machines has a minimum time."""
        return self.pace is not None or self.copied is not None

    def rendezvous_seconds(self, message: Floats) -> Floats:
        """Time in s that a rendezvous adds to messages of these sizes, shape (n,).

        >>> messages = NetworkMessages(eager_limit=2048.0, rendezvous=1e-6)
        >>> messages.rendezvous_seconds(np.array([2048.0, 4096.0])).tolist()
        [0.0, 1e-06]
        """
        limit = np.inf if self.eager_limit is None else self.eager_limit
        return np.where(message > limit, self.rendezvous, 0.0)

    def ring_step_seconds(self, message: Floats) -> Floats:
        """Minimum time in s of a ring step with messages of these sizes, shape (n,).

        >>> messages = NetworkMessages(pace=4e-5, copied=1e6, copy_rate=2e10)
        >>> messages.ring_step_seconds(np.array([5e5, 1e6, 2e6])).tolist()
        [4e-05, 5e-05, 4e-05]
        """
        copied = message <= (self.copied or 0.0)
        time = np.where(copied, message / (self.copy_rate or np.inf), 0.0)
        return np.maximum(self.pace or 0.0, time)


@dataclass(frozen=True)
class CoreCosts:
    """Use of processor cores by collectives: CPU cores, or multiprocessors of GPUs.

    It matters only for components that have a core (``gpu: {core: true}``), at both fidelities.
    While another thread or kernel computes on the same core, the collective slows down in
    proportion to its share of the core, and the other op gets the rest.

    Parameters
    ----------
    dispatch : Seconds
        Host time from the call to the start of a collective on idle GPUs. 0 s if the host runs
        ahead of the GPUs, or if host ops are in the graph.
    step : Seconds
        Core time of each step.
    rate : ByteRate or None
        Rate at which a core processes the bytes of the busiest link. Default: collectives use no
        core time.
    share : Ratio or None
        Fraction of the core that a collective uses at full speed. A collective that uses less waits
        for the network, and keeps its pace until other ops leave it less core time than it needs.
        Default: every collective is limited by the core.
    """

    dispatch: Seconds = 0.0
    step: Seconds = 0.0
    rate: ByteRate | None = None
    share: Ratio | None = None

    def scaled_core_use(self, factor: float) -> CoreCosts:
        """Copy of the costs in which collectives use ``factor`` times as much of their cores.

        >>> CoreCosts(rate=1e9, share=0.5).scaled_core_use(1.5).share
        0.75
        """
        return replace(
            self,
            step=self.step * factor,
            rate=None if self.rate is None else self.rate / factor,
            share=None if self.share is None else self.share * factor,
        )
