"""Links from a driver to the drivers on other hosts that are its transfer peers.

Each host has its own agent. The two ends of a transfer exchange setup messages through their agents
and the client that is connected to both. No extra network port is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..sim.errors import DriverFault

Message = dict[str, Any]
Exchange = Callable[[Message], Message]
ASK, TELL, HEAR = "ask", "tell", "hear"
FAR = "far"  # value of setting ``end``: this driver serves the requests of another one


@dataclass(frozen=True)
class PeerLink:
    """Message link to the driver at the other end of a transfer.

    Parameters
    ----------
    number : index of the peer, from 0
    name : name of the peer's agent
    exchange : sends a message to the client that is connected to both agents, and returns the reply

    Examples
    --------
    >>> link = PeerLink(0, "gpu-node-02", lambda frame: {"reply": {"did": frame["message"]["do"]}})
    >>> link.request({"do": "listen"})
    {'did': 'listen'}
    """

    number: int
    name: str
    exchange: Exchange

    def request(self, message: Mapping[str, Any]) -> Message:
        """Send a message to the peer's driver and wait for its reply.

        Raises
        ------
        DriverFault
            The peer's driver failed; the message names its agent.
        """
        return self._exchange(ASK, message)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message to the peer's driver without waiting.

        ``receive`` returns the reply later.
        """
        self._exchange(TELL, message)

    def receive(self) -> Message:
        """Wait for the reply to the last message that ``send`` sent."""
        return self._exchange(HEAR, {})

    def _exchange(self, how: str, message: Mapping[str, Any]) -> Message:
        frame = self.exchange({"peer": self.number, "do": how, "message": dict(message)})
        if "fault" in frame:
            raise DriverFault(str(frame["fault"]), str(frame.get("text", "")))
        reply = frame.get("reply")
        if not isinstance(reply, dict):
            raise DriverFault(
                "protocol", f"peer {self.name}: expected a reply, got {str(frame)[:80]}"
            )
        return reply


def answer_by_verb(verbs: Mapping[str, Callable[[Message], Message]], message: Message) -> Message:
    """Execute a message from the near end by the function of its verb, and return the reply.

    Raises
    ------
    DriverFault
        ``protocol``: the message has an unknown verb, or invalid or missing fields.

    Examples
    --------
    >>> answer_by_verb({"echo": lambda message: message}, {"do": "echo", "size": 64})
    {'do': 'echo', 'size': 64}
    """
    verb = verbs.get(str(message.get("do")))
    if verb is None:
        raise DriverFault("protocol", "the far end does not know the message "
                          f"{str(message.get('do'))[:80]!r}; send one of "
                          f"{', '.join(verbs)}")  # fmt: skip
    try:
        return verb(message)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DriverFault(
            "protocol",
            f"the far end got a message with missing or invalid fields: {str(message)[:200]}; use "
            "the same version at both ends",
        ) from error


def far_peers(peer: object) -> list[dict[str, str]]:
    """Peers on other hosts that the setting ``peer`` names; empty if it names a local device.

    Raises
    ------
    DriverFault
        ``unsupported``: a peer without the name of its agent.

    Examples
    --------
    >>> far_peers({"agent": "b", "device": "mlx5_0"}), far_peers("mlx5_1")
    ([{'agent': 'b', 'device': 'mlx5_0'}], [])
    """
    listed: Sequence[object] = peer if isinstance(peer, list | tuple) else [peer]
    far = [p for p in listed if isinstance(p, Mapping)]
    for one in far:
        if not isinstance(one.get("agent"), str) or not isinstance(one.get("device", ""), str):
            raise DriverFault("unsupported", f"peer {dict(one)}: name its agent and its device")
    if far and len(far) != len(listed):
        raise DriverFault(
            "unsupported",
            f"peer {peer}: mixes this host and others; give hosts elsewhere only, or one device "
            "here",
        )
    return [{"agent": one["agent"], "device": one.get("device", "")} for one in far]


def peer_links(peer: object, exchange: Exchange | None) -> list[PeerLink]:
    """Links to the peers that the setting ``peer`` names.

    Raises
    ------
    DriverFault
        ``unsupported``: this driver is not connected to a client that reaches both ends.

    Examples
    --------
    >>> peer_links({"agent": "b"}, None)
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: unsupported: peer b is on another host, and no client ...
    """
    far = far_peers(peer)
    if far and exchange is None:
        raise DriverFault(
            "unsupported", f"peer {far[0]['agent']} is on another host, and no client here reaches "
            "both agents; measure from where both are reached"
        )  # fmt: skip
    return [PeerLink(k, one["agent"], exchange) for k, one in enumerate(far) if exchange]
