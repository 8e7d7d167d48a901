"""What an agent does when it is asked: the verbs of the protocol, for drivers that are allowed."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Sequence
from typing import Any

from ...sim.errors import DriverFault, RecordingError
from .. import driver_registry, sample_checks
from ..driver import Driver
from ..measuring import conditions
from . import protocol

log = logging.getLogger(__name__)
Frame = tuple[protocol.Message, list[protocol.Vector]]


class Agent:
    """Answers the verbs of the protocol for the drivers that are allowed.

    Parameters
    ----------
    allow : names
        Empty for all.

    Examples
    --------
    >>> Agent(("host",)).reply({"verb": "probe", "driver": "torch"})[0]["fault"]
    'denied'
    """

    def __init__(self, allow: Sequence[str] = ()):
        self.allow = tuple(allow)
        self.driver: Driver | None = None
        self.verbs: dict[str, Callable[[protocol.Message], Frame]] = {
            "probe": self._probe,
            "describe": self._describe,
            "open": self._open,
            "timing": self._timing,
            "close": self._close,
        }

    def hello(self) -> protocol.Message:
        """Said first, so that two versions part before they misunderstand each other."""
        names = [n for n in driver_registry.known() if not self.allow or n in self.allow]
        facts = {"python": platform.python_version(), "host": platform.node()}
        return {"protocol": protocol.VERSION, "drivers": names, **facts}

    def reply(self, message: protocol.Message) -> Frame:
        """Do what a message asks; any error becomes a reply."""
        try:
            verb = self.verbs.get(str(message.get("verb")))
            if verb is None:
                raise DriverFault("protocol", f"no verb {message.get('verb')!r}")
            return verb(message)
        except (DriverFault, RecordingError) as error:
            return protocol.encode_error(error), []
        except Exception as error:  # of a driver's library: told to who asked
            log.exception("driver failed")
            return protocol.encode_error(error), []

    def end(self) -> None:
        """Close what is open; a driver that fails at it has the last word in the log."""
        driver, self.driver = self.driver, None
        if driver is not None:
            driver.close()

    def _made(self, name: str) -> Driver:
        if self.allow and name not in self.allow:
            raise DriverFault("denied", f"this agent serves {', '.join(self.allow)}, not {name!r}")
        return driver_registry.make(name)

    def _opened(self) -> Driver:
        if self.driver is None:
            raise DriverFault("protocol", "no driver is open; say open first")
        return self.driver

    def _probe(self, message: protocol.Message) -> Frame:
        made = self._made(message["driver"])
        return {"state": protocol.encode_state(made.probe()), "what": _traits(made)}, []

    def _open(self, message: protocol.Message) -> Frame:
        if self.driver is not None:
            raise DriverFault("busy", f"this agent has {self.driver.name} open; close it first")
        made = self._made(message["driver"])
        made.open(message["spec"])
        self.driver = made
        return {"what": _traits(made)}, []

    def _describe(self, message: protocol.Message) -> Frame:
        return {"describe": self._opened().describe()}, []

    def _timing(self, message: protocol.Message) -> Frame:
        driver = self._opened()
        requests = protocol.decode_requests(message["requests"])
        for request in requests:
            _allowed(driver, request.signature, *request.preceding)
        ask = driver.together if message.get("together") else driver.timing
        with conditions.watched() as facts:
            samples = ask(requests)
        sample_checks.check(requests, samples, driver.name, driver.clock)
        told, arrays = protocol.encode_samples([conditions.noted(s, facts) for s in samples])
        return {"samples": told}, arrays

    def _close(self, message: protocol.Message) -> Frame:
        self.end()
        return {}, []


def _allowed(driver: Driver, *signatures: str) -> None:
    """The allow-list, enforced for every driver alike."""
    for signature in signatures:
        try:
            known = driver.answers(signature)
        except ValueError as error:
            raise DriverFault("unsupported", str(error)) from error
        if not known:
            raise DriverFault(
                "unsupported",
                f"{driver.name} does not do {signature!r}; it does: {', '.join(driver.ops)}",
            )


def _traits(driver: Driver) -> dict[str, Any]:
    return {
        "name": driver.name,
        "clock": driver.clock,
        "metric": driver.metric,
        "sharing": driver.sharing,
        "realtime": driver.realtime,
        "ops": list(driver.ops),
    }
