"""What building needs from this machine: programs, headers and keys, each with its Debian package.

``python -m foretrace.hil.lab.tools`` prints the packages that are lacking, on one line.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...sim.errors import HardwareUnavailable
from .debian import KEYRING

EVERY = {"dpkg-deb": "dpkg", KEYRING: "debian-archive-keyring"}
NEEDED: dict[str, Mapping[str, str]] = {  # program or file: the package that brings it
    "uml": {
        "make": "make", "gcc": "gcc", "/usr/include/stdio.h": "libc6-dev", "bc": "bc",
        "flex": "flex", "bison": "bison", "perl": "perl-base", "tar": "tar", "xz": "xz-utils",
    },
    "qemu": {"mke2fs": "e2fsprogs"},
}  # fmt: skip


def lacking(machines: Sequence[str]) -> list[str]:
    """Debian packages that building these machines needs and that are not installed.

    >>> lacking(["qemu"]) in ([], ["e2fsprogs"], ["dpkg", "debian-archive-keyring", "e2fsprogs"])
    True
    """
    wanted = {**EVERY} if machines else {}
    for machine in machines:
        wanted |= NEEDED[machine]
    return list(dict.fromkeys(package for what, package in wanted.items() if not _here(what)))


def require(machines: Sequence[str]) -> None:
    """Refuse to begin what cannot end.

    Raises
    ------
    HardwareUnavailable
        Something is lacking; with the command that brings it.
    """
    if machines and shutil.which("apt-get") is None:
        raise HardwareUnavailable(
            "lab: no apt-get here, and it is built from Debian packages; build it on Debian, or "
            "bind what was recorded in it: driver: recorded"
        )
    if absent := lacking(machines):
        raise HardwareUnavailable(
            f"lab: building {' and '.join(machines)} needs packages that are not installed; as "
            f"root: apt-get install {' '.join(absent)}"
        )


def _here(what: str) -> bool:
    return Path(what).exists() if what.startswith("/") else shutil.which(what) is not None


if __name__ == "__main__":
    from .build import absent

    sys.stdout.write(" ".join(lacking(absent())) + "\n")
