"""Wire between two machines of the lab: Ethernet frames sent as datagrams between two Unix sockets.

Each machine is a host with its own kernel and agent. The wire connects only these two, and no
network port of this machine is opened for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from ...sim.errors import DriverFault
from ..measuring.device_lock import lock_device
from .build_cache import lab_folder

WIRE, HOST = "wire", "host"  # settings of a machine
PLAIN = re.compile(r"[A-Za-z0-9_-]{1,32}")
OTHER = {"1": "2", "2": "1"}
LONGEST = 100  # characters of a socket's path, unix(7)


def wire_ends(settings: Mapping[str, str], owner: int) -> tuple[Path, Path]:
    """Socket paths of a machine's own end of the wire and of the other end; creates their folder.

    Parameters
    ----------
    settings : settings of the machine: ``wire=NAME``, equal in both machines, and ``host=1`` or
        ``host=2``
    owner : user id that the emulators run as

    Raises
    ------
    DriverFault
        ``unsupported``: ``host`` is missing, or the wire's name has other characters than letters,
        digits, ``-`` and ``_``.
    """
    name, host = settings[WIRE], settings.get(HOST, "")
    if not PLAIN.fullmatch(name) or host not in OTHER:
        raise DriverFault("unsupported", f"lab: wire={name} host={host}; a wire has a plain name "
                          "and connects two machines: set host=1 in one and host=2 in the other"
                          )  # fmt: skip
    folder = lab_folder() / "wires" / name
    if len(str(folder)) > LONGEST:
        raise DriverFault("unsupported", f"lab: {folder} is too long for a socket; take a shorter "
                          "name, or another FORETRACE_LAB")  # fmt: skip
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(folder, owner, owner)
    return folder / host, folder / OTHER[host]


def lock_wire_end(settings: Mapping[str, str]) -> AbstractContextManager[None]:
    """Context manager that locks a machine's end of a wire while it runs.

    Does nothing without a wire.

    Raises
    ------
    DriverFault
        ``busy``: another machine with the same wire and host number runs.
    """
    if WIRE not in settings:
        return nullcontext()
    return lock_device(f"lab-wire-{settings[WIRE]}-host{settings.get(HOST, '')}")
