"""Reader of a real switch over gNMI: port counters, ECN and PFC settings.

It only reads; nothing here can change the switch. The address of the switch comes from the agent's
environment, never from a scenario: ``FORETRACE_GNMI=host:port``,
``FORETRACE_GNMI_CERTIFICATE=FILE``, ``FORETRACE_GNMI_USER`` and ``FORETRACE_GNMI_PASSWORD_FILE``.

References
----------
SONiC, sonic-gnmi, doc/grpc_telemetry.md: targets, tables and counters.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....sim.errors import DriverFault
from ...driver import Missing
from ...private_file import read_private

ADDRESS, CERTIFICATE = "FORETRACE_GNMI", "FORETRACE_GNMI_CERTIFICATE"
USER, PASSWORD = "FORETRACE_GNMI_USER", "FORETRACE_GNMI_PASSWORD_FILE"
COUNTER_PATHS = ("COUNTERS/{port}", "COUNTERS/{port}/Queues")  # PFC frames; watermarks by queue
SETTING_PATHS = (
    "WRED_PROFILE",
    "PORT_QOS_MAP/{port}",
)  # when ECN marks; which priorities are lossless
WAIT = 10  # s for an answer
CURE = f"pip install pygnmi, and set {ADDRESS}=host:port for the agent"


class GnmiReader:
    """Read-only gNMI client of one switch.

    Parameters
    ----------
    ports : port names on the switch, such as ``Ethernet0``
    environment : environment variables with address and credentials

    Raises
    ------
    DriverFault
        ``missing``: pygnmi or the address is missing, or the switch does not reply.
        ``denied``: a user name is given without a certificate, or the password file is not
        private.
    """

    def __init__(self, ports: Sequence[str], environment: Mapping[str, str] = os.environ):
        try:
            from pygnmi.client import gNMIclient
        except ImportError as error:
            raise Missing("missing", f"pygnmi: {error}", CURE).fault() from error
        host, _, port = environment.get(ADDRESS, "").rpartition(":")
        if not host or not port.isdigit():
            raise Missing("missing", f"{ADDRESS} is not set", CURE).fault()
        self.where, self.ports = f"{host}:{port}", tuple(ports)
        self.client = gNMIclient((host, port), gnmi_timeout=WAIT, **_credentials(environment))
        try:
            self.client.connect()
        except Exception as error:  # of gRPC and pygnmi, each its own
            raise DriverFault("missing", f"switch {self.where}: no answer ({error!r}); "
                              "look at its telemetry service") from error  # fmt: skip

    def counters(self) -> dict[str, int]:
        """All counters of the ports, by names such as ``Ethernet0.SAI_PORT_STAT_PFC_3_RX_PKTS``."""
        counters: dict[str, int] = {}
        for port in self.ports:
            reply = self._get_paths("COUNTERS_DB", [p.format(port=port) for p in COUNTER_PATHS])
            counters |= {f"{port}.{k}": int(v) for k, v in reply if v.isdigit()}
        return counters

    def settings(self) -> dict[str, str]:
        """Current ECN and PFC settings of the switch; keys are ``TABLE.ENTRY.FIELD``."""
        paths = dict.fromkeys(p.format(port=port) for p in SETTING_PATHS for port in self.ports)
        reply = (self._get_paths("CONFIG_DB", [path], path.replace("/", ".")) for path in paths)
        return {key: value for pairs in reply for key, value in pairs}

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def _get_paths(
        self, target: str, paths: Sequence[str], head: str = ""
    ) -> list[tuple[str, str]]:
        try:
            reply = self.client.get(path=list(paths), target=target, encoding="json_ietf")
        except Exception as error:
            raise DriverFault("broken", f"switch {self.where}: {target} {paths[0]}: {error}; "
                              "look at the names of its ports") from error  # fmt: skip
        updates = (u for n in reply.get("notification", ()) for u in n.get("update", ()))
        return [pair for u in updates for pair in flatten_reply(u.get("val"), head)]


def flatten_reply(value: Any, head: str = "") -> Iterator[tuple[str, str]]:
    """Yield each leaf of a nested reply as (dotted name, text).

    >>> list(flatten_reply({"Q:0": {"DROPPED": "4"}, "ecn": "ecn_all"}))
    [('Q:0.DROPPED', '4'), ('ecn', 'ecn_all')]
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flatten_reply(inner, f"{head}.{key}" if head else str(key))
    else:
        yield head, str(value)


def _credentials(environment: Mapping[str, str]) -> dict[str, Any]:
    """Credentials of the gNMI client.

    A password requires a certificate that verifies the switch.
    """
    certificate, user = environment.get(CERTIFICATE, ""), environment.get(USER, "")
    if not certificate and user:
        raise DriverFault("denied", f"{USER} is set, but {CERTIFICATE} is not, so another host "
                          f"could get the password; set {CERTIFICATE} to the switch's certificate "
                          "file")  # fmt: skip
    if not certificate:
        return {"insecure": True}
    password = read_private(Path(environment[PASSWORD])) if environment.get(PASSWORD) else ""
    return {"path_cert": certificate, "username": user, "password": password}
