"""Cache of built files of the lab, with versions and input hashes; outside the repository."""

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


def lab_folder() -> Path:
    """Folder of the lab: ``$FORETRACE_LAB``, or a folder in the user's cache.

    Root's lab is in a folder that unprivileged users can read, because they run its kernels.
    """
    if named := os.environ.get("FORETRACE_LAB"):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/cache/foretrace/lab")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "foretrace" / "lab"


def built_file_path(name: str) -> Path:
    """Path of a file that the lab has built, by its name.

    Raises
    ------
    HardwareUnavailable
        It is not built.
    """
    found = lab_folder() / name
    if not found.exists():
        raise HardwareUnavailable(f"lab: {found} is not there; build it with foretrace lab up")
    return found


@contextmanager
def replacing_part(name: str) -> Iterator[Path]:
    """Context manager that yields a temporary path.

    The file there replaces the old part on success.
    """
    partial, place = lab_folder() / f"{name}.new", lab_folder() / name
    _remove(partial)
    yield partial
    _remove(place)
    partial.rename(place)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def built_versions() -> dict[str, str]:
    """Version of each package the lab was built from, by name; empty if the lab is not built."""
    return _read_json(VERSIONS)


def add_versions(found: dict[str, str]) -> None:
    """Record the versions of packages that were just used to build."""
    _write_json(VERSIONS, {**built_versions(), **found})


def built_recipes() -> dict[str, str]:
    """Hash of the inputs that each part was built from, by name."""
    return _read_json(RECIPES)


def record_recipe(name: str, recipe: str) -> None:
    """Record the hash of the inputs that a part was built from."""
    _write_json(RECIPES, {**built_recipes(), name: recipe})


def _read_json(name: str) -> dict[str, str]:
    file = lab_folder() / name
    return dict(json.loads(file.read_text())) if file.exists() else {}


def _write_json(name: str, fields: dict[str, str]) -> None:
    lab_folder().mkdir(parents=True, exist_ok=True)
    (lab_folder() / name).write_text(json.dumps(fields, indent=1, sort_keys=True) + "\n")
