"""Client of an agent: a driver whose ops are executed in another process.

For a transfer to another host, a second agent runs there. The client opens the driver in both
agents and passes messages between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, get_args

from ...sim.errors import DriverFault
from .. import sample_checks
from ..driver import Driver, Missing, Ready, Sharing, Spec
from ..peer_link import ASK, FAR, HEAR, TELL, far_peers
from ..sample import Request, Sample
from .protocol import (
    VERSION,
    Message,
    decode_error,
    decode_probe_result,
    decode_samples,
    encode_error,
    encode_requests,
    reply_field,
)
from .transport import LIMIT, Channel

HELLO = 60.0  # s for a Python to start, over ssh too
CLOSING = 20.0  # s to give a device back


class RemoteDriver(Driver):
    """Driver that forwards every call to an agent.

    Parameters
    ----------
    channel : Channel
        Channel to an agent whose hello message has not been read yet.
    driver : str
        Name of the driver in the agent.
    limit : s
        Time limit of one request.
    connect_peer : callable
        Connects to the same driver in the agent of the given name, for a peer on another host.
    """

    patience = HELLO

    def __init__(
        self,
        channel: Channel,
        driver: str,
        limit: float = LIMIT,
        connect_peer: Callable[[str], RemoteDriver] | None = None,
    ):
        self.channel, self.remote, self.limit = channel, driver, limit
        self.connect_peer = connect_peer
        self.peers: list[tuple[str, RemoteDriver]] = []
        self.reply_pending = False  # the reply to a relayed message was not received yet
        try:
            self.hello = self._read_hello()
        except BaseException:
            self.channel.close()
            raise

    def probe(self) -> Ready | Missing:
        """Probe result of the driver in the agent."""
        reply = self._send_request("probe", driver=self.remote)[0]
        self._copy_traits(reply_field(reply, "what", dict))
        return decode_probe_result(reply_field(reply, "state", dict))

    def open(self, spec: Spec) -> None:
        """Open the driver in the agent, after opening the drivers of its peers."""
        for peer in far_peers(spec.get("peer")):
            self._open_peer(peer["agent"], peer["device"])
        reply = self._send_request("open", driver=self.remote, spec=dict(spec))[0]
        self._copy_traits(reply_field(reply, "what", dict))

    def describe(self) -> dict[str, str]:
        """Provenance of the driver, and Python version and host of the agent."""
        reply = reply_field(self._send_request("describe")[0], "describe", dict)
        return {str(k): str(v) for k, v in reply.items()} | {
            "python": str(self.hello["python"]),
            "host": str(reply.get("host", self.hello["host"])),
        }

    def timing(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples of ops timed one by one in the agent; they are checked again on this side."""
        return self._time_requests(requests, together=False)

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples of ops timed concurrently in the agent."""
        return self._time_requests(requests, together=True)

    def close(self) -> None:
        """Close the driver and end its agent, then close the peers."""
        with ExitStack() as stack:
            for _, peer in self.peers:
                stack.callback(peer.close)
            stack.callback(self.channel.close)
            if not self.channel.broken:
                self.limit = min(self.limit, CLOSING)
                self._send_request("close")

    def answers(self, signature: str) -> bool:
        """True if the op is on the agent's allow-list, or if the list is not known yet."""
        return not self.ops or super().answers(signature)

    def relay_to_driver(self, do: str, message: Message, limit: float, end: float) -> Message:
        """Pass a message from the peer's driver to this agent's driver and return the reply.

        ``do`` is ``ask`` (wait for the reply), ``tell`` (do not wait) or ``hear`` (return the reply
        to the last ``tell``). A new message discards the reply to an earlier ``tell`` that was not
        fetched.
        """
        if do not in (ASK, TELL, HEAR) or (do == HEAR and not self.reply_pending):
            raise DriverFault("protocol", f"no message was sent before {do[:80]!r}")
        if self.reply_pending and do != HEAR:
            self.channel.receive(limit, end)
        if do != HEAR:
            self.channel.send({"verb": "peer", "message": message}, limit, end)
        self.reply_pending = do == TELL
        if do == TELL:
            return {}
        reply, _ = self.channel.receive(limit, end)
        if "fault" in reply:
            raise decode_error(reply)
        return dict(reply_field(reply, "reply", dict))

    def _read_hello(self) -> Message:
        hello, _ = self.channel.receive(self.patience)
        if "fault" in hello:
            raise decode_error(hello)
        if hello.get("protocol") != VERSION:
            raise DriverFault(
                "protocol",
                f"the agent speaks version {hello.get('protocol')}, we speak {VERSION}; "
                "give both the same foretrace ('foretrace hil agent --bundle')",
            )
        for name in ("python", "host"):
            reply_field(hello, name, str)
        return hello

    def _send_request(self, verb: str, **rest: Any) -> tuple[Message, list[Any]]:
        end = time.monotonic() + self.limit
        message, arrays = self.channel.ask({"verb": verb, **rest}, self.limit, end)
        while "peer" in message:
            reply = self._reply_of_peer(message, end)
            message, arrays = self.channel.ask(reply, self.limit, end)
        if "fault" in message:
            raise decode_error(message)
        return message, arrays

    def _open_peer(self, name: str, device: str) -> None:
        if self.connect_peer is None:
            raise DriverFault(
                "unsupported", f"peer {name}: this client cannot connect to a second agent"
            )
        with _named(name):
            peer = self.connect_peer(name)
            self.peers.append((name, peer))
            peer.open({"device": device, "end": FAR})

    def _reply_of_peer(self, asked: Message, end: float) -> Message:
        """Reply to the agent's message to its peer: the peer driver's reply, or its fault.

        Raises
        ------
        DriverFault
            The peer's agent is gone or hangs. This agent is then ended too, because it waits for
            the peer.
        """
        number, message = asked["peer"], asked.get("message")
        if number not in range(len(self.peers)) or not isinstance(message, dict):
            return encode_error(DriverFault("protocol", f"there is no peer {str(number)[:80]}"))
        name, peer = self.peers[int(number)]
        try:
            with _named(name):
                reply = peer.relay_to_driver(str(asked.get("do")), message, self.limit, end)
        except DriverFault as fault:
            if peer.channel.broken:
                self.channel.kill_agent()
                raise
            return encode_error(fault)
        return {"reply": reply}

    def _time_requests(self, requests: Sequence[Request], together: bool) -> list[Sample]:
        reply, arrays = self._send_request(
            "timing", requests=encode_requests(requests), together=together
        )
        samples = decode_samples(reply_field(reply, "samples", list), arrays)
        sample_checks.check_samples(requests, samples, self.remote, self.clock)
        return samples

    def _copy_traits(self, what: Message) -> None:
        """Copy clock, metric, sharing and allow-list from the agent's driver to this one."""
        try:
            self.clock, self.metric = str(what["clock"]), str(what["metric"])
            self.sharing, self.realtime = what["sharing"], bool(what["realtime"])
            self.ops = tuple(map(str, what["ops"]))
            if self.sharing not in get_args(Sharing):
                raise ValueError(f"sharing {self.sharing!r}")
        except (KeyError, TypeError, ValueError) as error:
            raise DriverFault("protocol", f"the agent described its driver as {what!r}") from error


@contextmanager
def _named(peer: str) -> Iterator[None]:
    """Context manager that adds the name of a peer's agent to faults raised inside it."""
    try:
        yield
    except DriverFault as fault:
        raise DriverFault(fault.kind, f"peer {peer}: {fault.message}") from fault
