"""Our side of an agent: a driver like any other, whose work is done in another process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...sim.errors import DriverFault
from .. import sample_checks
from ..driver import Driver, Missing, Ready, Spec
from ..sample import Request, Sample
from .protocol import VERSION, Message, decode_error, decode_samples, decode_state, encode_requests
from .transport import LIMIT, Channel

HELLO = 60.0  # s for a Python to start, over ssh too
CLOSING = 20.0  # s to give a device back


class Remote(Driver):
    """A driver in an agent.

    Parameters
    ----------
    channel : Channel
        To an agent that has not said anything yet.
    driver : str
        Its name there.
    limit : s
        For one question.
    """

    patience = HELLO

    def __init__(self, channel: Channel, driver: str, limit: float = LIMIT):
        self.channel, self.remote, self.limit = channel, driver, limit
        self.hello = self._greeted()

    def probe(self) -> Ready | Missing:
        """Ask the driver to do one op there."""
        told = self._ask("probe", driver=self.remote)[0]
        self._become(told["what"])
        return decode_state(told["state"])

    def open(self, spec: Spec) -> None:
        """Take the device there."""
        self._become(self._ask("open", driver=self.remote, spec=dict(spec))[0]["what"])

    def describe(self) -> dict[str, str]:
        """Of the driver, and of the Python that runs it."""
        told = self._ask("describe")[0]["describe"]
        return {str(k): str(v) for k, v in told.items()} | {
            "python": str(self.hello["python"]),
            "host": str(told.get("host", self.hello["host"])),
        }

    def timing(self, requests: Sequence[Request]) -> list[Sample]:
        """Have each op done there; the answers are checked on this side too."""
        return self._timed(requests, together=False)

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """Have all ops done at once there."""
        return self._timed(requests, together=True)

    def close(self) -> None:
        """Close the driver and end its agent."""
        try:
            if not self.channel.broken:
                self.limit = min(self.limit, CLOSING)
                self._ask("close")
        finally:
            self.channel.close()

    def answers(self, signature: str) -> bool:
        """What the agent said it does; it enforces that itself."""
        return not self.ops or super().answers(signature)

    def _greeted(self) -> Message:
        hello, _ = self.channel.receive(self.patience)
        if "fault" in hello:
            raise decode_error(hello)
        if hello.get("protocol") != VERSION:
            self.channel.close()
            raise DriverFault(
                "protocol",
                f"the agent speaks version {hello.get('protocol')}, we speak {VERSION}; "
                "give both the same foretrace ('foretrace hil agent --bundle')",
            )
        return hello

    def _ask(self, verb: str, **rest: Any) -> tuple[Message, list[Any]]:
        message, arrays = self.channel.ask({"verb": verb, **rest}, self.limit)
        if "fault" in message:
            raise decode_error(message)
        return message, arrays

    def _timed(self, requests: Sequence[Request], together: bool) -> list[Sample]:
        told, arrays = self._ask("timing", requests=encode_requests(requests), together=together)
        samples = decode_samples(told["samples"], arrays)
        sample_checks.check(requests, samples, self.remote, self.clock)
        return samples

    def _become(self, what: Message) -> None:
        """Take on what the driver there is."""
        try:
            self.clock, self.metric = str(what["clock"]), str(what["metric"])
            self.sharing, self.realtime = what["sharing"], bool(what["realtime"])
            self.ops = tuple(map(str, what["ops"]))
        except (KeyError, TypeError) as error:
            raise DriverFault("protocol", f"the agent says of its driver {what!r}") from error
