"""What a real switch tells over gNMI: counters of its ports, and its settings of ECN and PFC.

Read only: nothing here can set anything.  Where the switch is comes from the environment of the
agent, never from a scenario: ``FORETRACE_GNMI=host:port``, ``FORETRACE_GNMI_CERTIFICATE=FILE``,
``FORETRACE_GNMI_USER`` and ``FORETRACE_GNMI_PASSWORD_FILE``.

References
----------
SONiC, sonic-gnmi, doc/grpc_telemetry.md: targets, tables and counters.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...sim.errors import DriverFault
from ..driver import Missing
from ..private_file import read_private

ADDRESS, CERTIFICATE = "FORETRACE_GNMI", "FORETRACE_GNMI_CERTIFICATE"
USER, PASSWORD = "FORETRACE_GNMI_USER", "FORETRACE_GNMI_PASSWORD_FILE"
COUNTED = ("COUNTERS/{port}", "COUNTERS/{port}/Queues")  # PFC frames; watermarks by queue
SET = ("WRED_PROFILE", "PORT_QOS_MAP/{port}")  # when ECN marks; which priorities are lossless
WAIT = 10  # s for an answer
CURE = f"pip install 'foretrace[gnmi]', and set {ADDRESS}=host:port for the agent"


class GnmiReader:
    """A switch that is asked.

    Parameters
    ----------
    ports : as the switch names them, ``Ethernet0``
    environment : that says where it is

    Raises
    ------
    DriverFault
        ``missing denied``.
    """

    def __init__(self, ports: Sequence[str], environment: Mapping[str, str] = os.environ):
        try:
            from pygnmi.client import gNMIclient
        except ImportError as error:
            raise Missing("missing", f"pygnmi: {error}", CURE).fault() from error
        host, _, port = environment.get(ADDRESS, "").rpartition(":")
        if not host or not port.isdigit():
            raise Missing("missing", f"{ADDRESS} names no switch", CURE).fault()
        self.where, self.ports = f"{host}:{port}", tuple(ports)
        self.client = gNMIclient((host, port), gnmi_timeout=WAIT, **_credentials(environment))
        try:
            self.client.connect()
        except Exception as error:  # of gRPC and pygnmi, each its own
            raise DriverFault("missing", f"switch {self.where}: no answer ({error!r}); "
                              "look at its telemetry service") from error  # fmt: skip

    def counters(self) -> dict[str, int]:
        """Every counter of the ports, ``Ethernet0.SAI_PORT_STAT_PFC_3_RX_PKTS`` and the like."""
        found: dict[str, int] = {}
        for port in self.ports:
            told = self._asked("COUNTERS_DB", [p.format(port=port) for p in COUNTED])
            found |= {f"{port}.{k}": int(v) for k, v in told if v.isdigit()}
        return found

    def settings(self) -> dict[str, str]:
        """Of ECN and PFC, by table, entry and field."""
        paths = dict.fromkeys(p.format(port=port) for p in SET for port in self.ports)
        told = (self._asked("CONFIG_DB", [path], path.replace("/", ".")) for path in paths)
        return {key: value for pairs in told for key, value in pairs}

    def close(self) -> None:
        """Hang up."""
        self.client.close()

    def _asked(self, target: str, paths: Sequence[str], head: str = "") -> list[tuple[str, str]]:
        try:
            told = self.client.get(path=list(paths), target=target, encoding="json_ietf")
        except Exception as error:
            raise DriverFault("broken", f"switch {self.where}: {target} {paths[0]}: {error}; "
                              "look at the names of its ports") from error  # fmt: skip
        updates = (u for n in told.get("notification", ()) for u in n.get("update", ()))
        return [pair for u in updates for pair in leaves(u.get("val"), head)]


def leaves(value: Any, head: str = "") -> Iterator[tuple[str, str]]:
    """Fields of what a switch told, with dotted names.

    >>> list(leaves({"Q:0": {"DROPPED": "4"}, "ecn": "ecn_all"}))
    [('Q:0.DROPPED', '4'), ('ecn', 'ecn_all')]
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{head}.{key}" if head else str(key))
    else:
        yield head, str(value)


def _credentials(environment: Mapping[str, str]) -> dict[str, Any]:
    """How the client says who it is; a password goes to nobody who cannot prove who they are."""
    certificate, user = environment.get(CERTIFICATE, ""), environment.get(USER, "")
    if not certificate and user:
        raise DriverFault("denied", f"{USER} without {CERTIFICATE}: a password would go to "
                          "whoever answers; name the certificate of the switch")  # fmt: skip
    if not certificate:
        return {"insecure": True}
    password = read_private(Path(environment[PASSWORD])) if environment.get(PASSWORD) else ""
    return {"path_cert": certificate, "username": user, "password": password}
