"""Link with packet loss: lost packets are sent again, and senders slow down."""

from __future__ import annotations

from ....sim.errors import BackendError
from ....sim.facts.backend import backend
from ....sim.units import ByteRate, Packet, Ratio, Seconds
from .link import Link


@backend("lossy-link")
class LossyLink(Link):
    """One direction of a link that loses every packet with the same probability.

    A packet crosses the link ``1 / (1 - loss)`` times on average, which reduces the rate for all. A
    sender that halves its window on each loss also has a limit of its own, which applies to sends
    and collectives between every two ranks. In a scenario, bind this model to one direction
    (``node*.nic*.tx``); bound to both directions, packets are lost twice.

    Parameters
    ----------
    loss : Ratio
        Fraction of packets that are lost, above 0 and below 1.
    round_trip : Seconds
        Time from sending a packet to receiving its acknowledgement.
    mtu : Packet
        Payload of a full packet.

    Examples
    --------
    >>> from ....sim.facts.ops import Ops
    >>> link = LossyLink(bandwidth=1e9, latency=1e-6, loss=0.015, round_trip=1e-5, mtu=1000)
    >>> link.rate, link.timing(Ops.of(bytes=1e6)).limit.round().tolist()
    (985000000.0, [1000000000.0])

    References
    ----------
    Mathis, Semke, Mahdavi, Ott 1997, doi:10.1145/263932.264023: window of ``sqrt(3 / (2 loss))``.
    """

    def __init__(
        self,
        *,
        bandwidth: ByteRate,
        latency: Seconds,
        loss: Ratio,
        round_trip: Seconds,
        mtu: Packet = 1460,
    ):
        if not 0 < loss < 1:
            raise BackendError(f"lossy-link: loss is {loss}; give a share above 0, below 1")
        super().__init__(bandwidth=bandwidth, latency=latency, efficiency=1 - loss)
        self.limit = float(mtu / round_trip * (1.5 / loss) ** 0.5)
