"""Where the lab keeps what it built: outside the repository, in the user's cache."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ...sim.errors import HardwareUnavailable

UML_KERNEL, ROOT, GUEST_KERNEL, GUEST_INITRD, GUEST_DISK, VERSIONS = (
    "linux.uml", "root", "vmlinuz", "initrd.img", "root.ext4", "versions.json",
)  # fmt: skip


def home() -> Path:
    """The folder of the lab: ``$FORETRACE_LAB``, else in the user's cache.

    Root's lab lies where an unprivileged user may read it, because that is who runs its kernels.
    """
    if named := os.environ.get("FORETRACE_LAB"):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/cache/foretrace/lab")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "foretrace" / "lab"


def part(name: str) -> Path:
    """One part that was built.

    Raises
    ------
    HardwareUnavailable
        It was not.
    """
    found = home() / name
    if not found.exists():
        raise HardwareUnavailable(f"lab: {found} is not there; build it with foretrace lab up")
    return found


def versions() -> dict[str, str]:
    """Name and version of everything that the lab was built from; empty where it is not."""
    file = home() / VERSIONS
    return dict(json.loads(file.read_text())) if file.exists() else {}


def note(found: dict[str, str]) -> None:
    """Add to the versions."""
    home().mkdir(parents=True, exist_ok=True)
    merged = {**versions(), **found}
    (home() / VERSIONS).write_text(json.dumps(merged, indent=1, sort_keys=True) + "\n")
