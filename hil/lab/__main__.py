"""``python -m foretrace.hil.lab MACHINE [KEY=VALUE …]``: a machine as an agent on stdin and stdout.

This is the command that an agent's address names; the words that a parent adds are understood.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ...sim.errors import DriverFault, HardwareUnavailable
from ..agent.command import die_with_parent
from . import host_kernel, qemu, uml, vm

MACHINES = {"uml": uml.command, "qemu": qemu.command, "host": host_kernel.command}


def main(arguments: Sequence[str]) -> int:
    """Start a machine and be its serial line."""
    words = list(arguments)
    if "--die-with-parent" in words:
        words.remove("--die-with-parent")
        die_with_parent()
    name, *rest = words or [""]
    try:
        if name not in MACHINES:
            raise DriverFault("missing", f"lab: no machine {name!r}; one of {', '.join(MACHINES)}")
        settings = dict(word.split("=", 1) for word in rest)
        return vm.serve(MACHINES[name](settings), emulated=name != "host")
    except HardwareUnavailable as error:
        sys.stderr.write(f"error {error}\n")
        return 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
