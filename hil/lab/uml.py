"""User-Mode Linux: a Linux kernel as a process, in virtual time.

With ``time-travel=inf-cpu`` computing takes no time, and an idle kernel jumps to its next timer. So
a measurement shows wire, queue and protocol, and does not depend on the load of the host.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...sim.errors import DriverFault
from .build_cache import ROOT, UML_KERNEL, built_file_path
from .staging import stage_agent_files
from .wire import WIRE

MEMORY = "3G"  # pages are taken when they are used


def command(settings: Mapping[str, str]) -> list[str]:
    """Command line that starts the virtual machine as a User-Mode Linux process.

    Parameters
    ----------
    settings : ``lab.*`` words of the kernel's command line: ``ends``, ``mtu``, ``addresses``, and
        ``provider`` (``rxe`` or ``siw``)

    Raises
    ------
    DriverFault
        ``unsupported``: a VLAN, which its kernel lacks, or a wire to another machine, whose time
        differs.
    """
    if "vlan" in settings:
        raise DriverFault("unsupported", "lab: the kernel of uml has no VLANs; take lab: qemu")
    if WIRE in settings:
        raise DriverFault("unsupported", "lab: uml has its own virtual time, so no wire can "
                          "connect it; use lab: qemu clock=wall")  # fmt: skip
    words = [f"lab.{key}={value}" for key, value in settings.items()]
    return [
        str(built_file_path(UML_KERNEL)),
        f"mem={MEMORY}",
        "umid=lab",
        "uml_dir={home}",
        "rootfstype=hostfs",
        f"rootflags={built_file_path(ROOT)}",
        "ro",
        "quiet",
        "init=/usr/sbin/lab-start",
        "con=null",
        "con0=null,fd:5",
        "ssl=null",
        "ssl0=fd:3,fd:4",
        "time-travel=inf-cpu",
        f"lab.share={stage_agent_files()}",
        "lab.run=agent",
        *words,
    ]
