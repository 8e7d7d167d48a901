"""The agent as one file that any Python >= 3.11 with NumPy runs: ``python foretrace-agent.pyz``.

A zip of the files of this package that an agent needs, as they are; no installation, nothing from
elsewhere.  Where a folder suits better (a virtual machine), unpack it there.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIM = (
    "__init__",
    "errors",
    "registry",
    "signature",
    "units",
)  # what this folder needs of the engine
START = b"import sys\nfrom foretrace.hil.agent.command import main\nsys.exit(main())\n"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same bytes on every day


def files() -> dict[str, Path]:
    """What goes in, by its name there.

    >>> "foretrace/hil/agent/command.py" in files()
    True
    """
    sim = [ROOT / "sim" / f"{name}.py" for name in SIM]
    hil = sorted(f for f in (ROOT / "hil").rglob("*.py") if f.parent.name != "lab")
    return {f"foretrace/{f.relative_to(ROOT)}": f for f in (*sim, *hil)}


def bundle(extra: dict[str, bytes] | None = None) -> bytes:
    """The file itself.

    Parameters
    ----------
    extra : files to carry along, such as a work list
    """
    content = {name: file.read_bytes() for name, file in files().items()}
    content |= {"foretrace/__init__.py": b"", "__main__.py": START, **(extra or {})}
    out = io.BytesIO(b"#!/usr/bin/env python3\n")
    out.seek(0, io.SEEK_END)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(content):
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), content[name], zipfile.ZIP_DEFLATED)
    return out.getvalue()


def write(path: Path, extra: dict[str, bytes] | None = None) -> None:
    """Write it where it can be carried away from."""
    path.write_bytes(bundle(extra))
    path.chmod(0o755)


def kept() -> Path:
    """The file in the user's cache, made when the code has changed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foretrace"
    content = bundle()
    path = cache / f"agent-{hashlib.sha256(content).hexdigest()[:12]}.pyz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(content)
        fresh.replace(path)
    return path
