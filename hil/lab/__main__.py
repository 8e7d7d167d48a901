"""``python -m foretrace.hil.lab MACHINE [KEY=VALUE …]``: a machine's agent on stdin and stdout.

``booted_agent`` runs this command. It supports ``--die-with-parent``, as the agent does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ...sim.errors import DriverFault, HardwareUnavailable
from ..agent.command import die_with_parent
from . import host_kernel, qemu, uml, vm, wire

MACHINES = {"uml": uml.command, "qemu": qemu.command, "host": host_kernel.command}


def main(arguments: Sequence[str]) -> int:
    """Boot a machine and connect its serial line to stdin and stdout; returns the exit code.

    If a signal ended the machine, this process ends by the same signal.
    """
    words = list(arguments)
    if "--die-with-parent" in words:
        words.remove("--die-with-parent")
        die_with_parent()
    name, *rest = words or [""]
    try:
        if name not in MACHINES:
            raise DriverFault("missing", f"lab: no machine {name!r}; one of {', '.join(MACHINES)}")
        settings = dict(word.split("=", 1) for word in rest)
        with wire.lock_wire_end(settings):
            code = vm.run_machine(MACHINES[name](settings), emulated=name != "host")
    except HardwareUnavailable as error:
        sys.stderr.write(f"error {error}\n")
        return 4
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
