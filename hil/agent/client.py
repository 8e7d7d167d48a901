"""Client of an agent: a driver whose ops are executed in another process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...sim.errors import DriverFault
from .. import sample_checks
from ..driver import Driver, Missing, Ready, Spec
from ..sample import Request, Sample
from .protocol import (
    VERSION,
    Message,
    decode_error,
    decode_probe_result,
    decode_samples,
    encode_requests,
)
from .transport import LIMIT, Channel

HELLO = 60.0  # s for a Python to start, over ssh too
CLOSING = 20.0  # s to give a device back


class RemoteDriver(Driver):
    """Driver that forwards every call to an agent.

    Parameters
    ----------
    channel : Channel
        To an agent whose hello has not been read yet.
    driver : str
        Name of the driver in the agent.
    limit : s
        Time limit of one request.
    """

    patience = HELLO

    def __init__(self, channel: Channel, driver: str, limit: float = LIMIT):
        self.channel, self.remote, self.limit = channel, driver, limit
        self.hello = self._read_hello()

    def probe(self) -> Ready | Missing:
        """Probe result of the driver in the agent."""
        reply = self._send_request("probe", driver=self.remote)[0]
        self._copy_traits(reply["what"])
        return decode_probe_result(reply["state"])

    def open(self, spec: Spec) -> None:
        """Open the driver in the agent."""
        self._copy_traits(
            self._send_request("open", driver=self.remote, spec=dict(spec))[0]["what"]
        )

    def describe(self) -> dict[str, str]:
        """Provenance of the driver, and Python version and host of the agent."""
        reply = self._send_request("describe")[0]["describe"]
        return {str(k): str(v) for k, v in reply.items()} | {
            "python": str(self.hello["python"]),
            "host": str(reply.get("host", self.hello["host"])),
        }

    def timing(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples of ops timed one by one in the agent, checked again on this side."""
        return self._time_requests(requests, together=False)

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples of ops timed all at once in the agent."""
        return self._time_requests(requests, together=True)

    def close(self) -> None:
        """Close the driver and end its agent."""
        try:
            if not self.channel.broken:
                self.limit = min(self.limit, CLOSING)
                self._send_request("close")
        finally:
            self.channel.close()

    def answers(self, signature: str) -> bool:
        """Whether the op is on the agent's allow-list; true while the list is unknown."""
        return not self.ops or super().answers(signature)

    def _read_hello(self) -> Message:
        hello, _ = self.channel.receive(self.patience)
        if "fault" in hello:
            self.channel.close()
            raise decode_error(hello)
        if hello.get("protocol") != VERSION:
            self.channel.close()
            raise DriverFault(
                "protocol",
                f"the agent speaks version {hello.get('protocol')}, we speak {VERSION}; "
                "give both the same foretrace ('foretrace hil agent --bundle')",
            )
        return hello

    def _send_request(self, verb: str, **rest: Any) -> tuple[Message, list[Any]]:
        message, arrays = self.channel.ask({"verb": verb, **rest}, self.limit)
        if "fault" in message:
            raise decode_error(message)
        return message, arrays

    def _time_requests(self, requests: Sequence[Request], together: bool) -> list[Sample]:
        reply, arrays = self._send_request(
            "timing", requests=encode_requests(requests), together=together
        )
        samples = decode_samples(reply["samples"], arrays)
        sample_checks.check_samples(requests, samples, self.remote, self.clock)
        return samples

    def _copy_traits(self, what: Message) -> None:
        """Copy clock, metric, sharing and allow-list of the agent's driver."""
        try:
            self.clock, self.metric = str(what["clock"]), str(what["metric"])
            self.sharing, self.realtime = what["sharing"], bool(what["realtime"])
            self.ops = tuple(map(str, what["ops"]))
        except (KeyError, TypeError) as error:
            raise DriverFault("protocol", f"the agent says of its driver {what!r}") from error
