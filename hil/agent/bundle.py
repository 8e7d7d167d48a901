"""Bundle of the agent as a single zip file, which any Python 3.11 or later with NumPy can run.

``python foretrace-agent.pyz`` needs no installation. The file can also be unpacked into a folder.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

from .import_closure import import_closure

ROOT = Path(__file__).resolve().parents[2]
START = b'''"""Start of the agent: any Python can read this file, and is told what it lacks."""

import sys


def refuse(text):
    """Say why, as a frame to a client and in words to everybody else; exit code 4."""
    if "--stdio" in sys.argv:
        import json
        import struct

        told = json.dumps({"fault": "unsupported", "text": text, "arrays": []}).encode()
        sys.stdout.buffer.write(struct.pack(">4sIQ", b"FTH1", len(told), 0) + told)
        sys.stdout.buffer.flush()
    sys.stderr.write("error unsupported: " + text + "\\n")
    sys.exit(4)


if sys.version_info < (3, 11):
    refuse(
        "%s is Python %d.%d, the agent needs 3.11 or later; name one (python: in agents.yaml): "
        "dnf install python3.11 python3.11-numpy, or apt install python3.11 and NumPy in a venv of "
        "it; there pyverbs is missing, so take the driver perftest instead of verbs"
        % ((sys.executable,) + tuple(sys.version_info[:2]))
    )
try:
    import numpy.typing  # noqa: F401  an empty folder of that name is a package too
except ImportError as error:
    refuse("%s has no NumPy (%s); apt install python3-numpy, or dnf install python3-numpy"
           % (sys.executable, error))
from foretrace.hil.agent.command import main

sys.exit(main())
'''
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same bytes on every day


def bundled_files() -> dict[str, Path]:
    """Files of the bundle: path on disk, by name in the archive.

    These are the agent, all drivers, and every file that they import.

    >>> "foretrace/hil/agent/command.py" in bundled_files()
    True
    """
    roots = (file for room in ("agent", "drivers") for file in (ROOT / "hil" / room).rglob("*.py"))
    return {f"foretrace/{file.relative_to(ROOT)}": file for file in import_closure(roots, ROOT)}


def bundle_bytes(extra: dict[str, bytes] | None = None) -> bytes:
    """Content of the bundle; equal code gives equal bytes.

    Parameters
    ----------
    extra : content of additional files, by name, such as a work list
    """
    content = {name: file.read_bytes() for name, file in bundled_files().items()}
    content |= {"foretrace/__init__.py": b"", "__main__.py": START, **(extra or {})}
    out = io.BytesIO(b"#!/usr/bin/env python3\n")
    out.seek(0, io.SEEK_END)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(content):
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), content[name], zipfile.ZIP_DEFLATED)
    return out.getvalue()


def write_bundle(path: Path, extra: dict[str, bytes] | None = None) -> None:
    """Write the bundle to a file and make it executable."""
    path.write_bytes(bundle_bytes(extra))
    path.chmod(0o755)


def cached_bundle() -> Path:
    """Path of the bundle in the user's cache.

    If the cache does not contain the bundle of this version of the code, it is written first.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foretrace"
    content = bundle_bytes()
    path = cache / f"agent-{hashlib.sha256(content).hexdigest()[:12]}.pyz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(content)
        partial.replace(path)
    return path
