"""Request dispatcher of the agent: executes the protocol's verbs on the allowed drivers."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Sequence
from typing import Any

from ...sim.errors import DriverFault, RecordingError
from .. import driver_registry, sample_checks
from ..driver import Driver
from ..measuring import conditions
from ..peer_link import Exchange
from . import protocol

log = logging.getLogger(__name__)
Frame = tuple[protocol.Message, list[protocol.Vector]]
FIELDS: dict[str, dict[str, type]] = {  # of each verb
    "probe": {"driver": str},
    "open": {"driver": str, "spec": dict},
    "timing": {"requests": list},
    "peer": {"message": dict},
}


class Agent:
    """Agent: executes the requests of one client on one open driver.

    Parameters
    ----------
    allow : names of drivers
        Drivers that may be used; empty allows all.
    exchange : sends a message to the client, which passes it to the driver at the other end; None
        without a client

    Examples
    --------
    >>> Agent(("host",)).reply({"verb": "probe", "driver": "torch"})[0]["fault"]
    'denied'
    """

    def __init__(self, allow: Sequence[str] = (), exchange: Exchange | None = None):
        self.allow, self.exchange = tuple(allow), exchange
        self.driver: Driver | None = None
        self.verbs: dict[str, Callable[[protocol.Message], Frame]] = {
            "probe": self._probe,
            "describe": self._describe,
            "open": self._open,
            "timing": self._timing,
            "peer": self._peer,
            "close": self._close,
        }

    def hello(self) -> protocol.Message:
        """First message to a client: protocol version, drivers, Python version and host name."""
        names = [n for n in driver_registry.known_drivers() if not self.allow or n in self.allow]
        facts = {"python": platform.python_version(), "host": platform.node()}
        return {"protocol": protocol.VERSION, "drivers": names, **facts}

    def reply(self, message: protocol.Message) -> Frame:
        """Execute a request and return the reply; any exception becomes an error reply."""
        try:
            verb = self.verbs.get(str(message.get("verb")))
            if verb is None:
                raise DriverFault("protocol", f"unknown verb {str(message.get('verb'))[:80]!r}; "
                                  f"send one of {', '.join(self.verbs)}")  # fmt: skip
            _check_fields(message)
            return verb(message)
        except (DriverFault, RecordingError) as error:
            return protocol.encode_error(error), []
        except Exception as error:  # of a driver's library: reported to the client
            log.exception("driver failed")
            return protocol.encode_error(error), []

    def end(self) -> None:
        """Close the open driver, if any."""
        driver, self.driver = self.driver, None
        if driver is not None:
            driver.close()

    def _make_driver(self, name: str) -> Driver:
        if self.allow and name not in self.allow:
            raise DriverFault(
                "denied",
                f"this agent serves {', '.join(self.allow)}, not {name!r}; start it with "
                f"--allow {name} too",
            )
        return driver_registry.make_driver(name)

    def _open_driver(self) -> Driver:
        if self.driver is None:
            raise DriverFault("protocol", "no driver is open; send open first")
        return self.driver

    def _probe(self, message: protocol.Message) -> Frame:
        driver = self._make_driver(message["driver"])
        return {
            "state": protocol.encode_probe_result(driver.probe()),
            "what": _driver_traits(driver),
        }, []

    def _open(self, message: protocol.Message) -> Frame:
        if self.driver is not None:
            raise DriverFault("busy", f"this agent has {self.driver.name} open; close it first")
        driver = self._make_driver(message["driver"])
        driver.exchange = self.exchange
        driver.open(message["spec"])
        self.driver = driver
        return {"what": _driver_traits(driver)}, []

    def _describe(self, message: protocol.Message) -> Frame:
        return {"describe": self._open_driver().describe()}, []

    def _timing(self, message: protocol.Message) -> Frame:
        driver = self._open_driver()
        try:
            requests = protocol.decode_requests(message["requests"])
        except (TypeError, ValueError, KeyError) as error:
            raise DriverFault("protocol", f"requests are malformed ({error})") from error
        for request in requests:
            _check_allowed(driver, request.signature, *request.preceding)
        ask = driver.together if message.get("together") else driver.timing
        with conditions.record_conditions() as facts:
            samples = ask(requests)
        sample_checks.check_samples(requests, samples, driver.name, driver.clock)
        fields, arrays = protocol.encode_samples(
            [conditions.with_conditions(s, facts) for s in samples]
        )
        return {"samples": fields}, arrays

    def _peer(self, message: protocol.Message) -> Frame:
        return {"reply": self._open_driver().peer(message["message"])}, []

    def _close(self, message: protocol.Message) -> Frame:
        self.end()
        return {}, []


def _check_fields(message: protocol.Message) -> None:
    """Refuse a request that lacks a field of its verb or has a field of the wrong type."""
    for name, kind in FIELDS.get(message["verb"], {}).items():
        if not isinstance(message.get(name), kind):
            raise DriverFault(
                "protocol", f"{message['verb']} needs {name!r}, a {kind.__name__}; got "
                f"{str(message.get(name))[:80]!r}"
            )  # fmt: skip


def _check_allowed(driver: Driver, *signatures: str) -> None:
    """Refuse signatures that are not on the driver's allow-list."""
    for signature in signatures:
        try:
            known = driver.answers(signature)
        except ValueError as error:
            raise DriverFault("unsupported", str(error)) from error
        if not known:
            raise DriverFault(
                "unsupported",
                f"{driver.name} cannot time {signature!r}; request one of {', '.join(driver.ops)}",
            )


def _driver_traits(driver: Driver) -> dict[str, Any]:
    return {
        "name": driver.name,
        "clock": driver.clock,
        "metric": driver.metric,
        "sharing": driver.sharing,
        "realtime": driver.realtime,
        "ops": list(driver.ops),
    }
