"""Where the lab keeps what it built: outside the repository, in the user's cache."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...sim.errors import HardwareUnavailable

UML_KERNEL, ROOT, GUEST_KERNEL, GUEST_INITRD, GUEST_DISK, VERSIONS, RECIPES = (
    "linux.uml", "root", "vmlinuz", "initrd.img", "root.ext4", "versions.json", "recipes.json",
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


@contextmanager
def fresh(name: str) -> Iterator[Path]:
    """A path to build a part at; when all of it is there it takes its name from the old one."""
    made, place = home() / f"{name}.new", home() / name
    _remove(made)
    yield made
    _remove(place)
    made.rename(place)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def versions() -> dict[str, str]:
    """Name and version of everything that the lab was built from; empty where it is not."""
    return _read(VERSIONS)


def note(found: dict[str, str]) -> None:
    """Add to the versions."""
    _write(VERSIONS, {**versions(), **found})


def recipes() -> dict[str, str]:
    """What each part was made of."""
    return _read(RECIPES)


def stamp(name: str, recipe: str) -> None:
    """Say what a part was made of."""
    _write(RECIPES, {**recipes(), name: recipe})


def _read(name: str) -> dict[str, str]:
    file = home() / name
    return dict(json.loads(file.read_text())) if file.exists() else {}


def _write(name: str, told: dict[str, str]) -> None:
    home().mkdir(parents=True, exist_ok=True)
    (home() / name).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
