"""Tokens and passwords in files that only their owner can read."""

from __future__ import annotations

import os
from pathlib import Path

from ..sim.errors import DriverFault

SHORTEST = 16  # characters of a token


def read_token(path: Path) -> str:
    """Read a token from a file that only this user can read.

    Raises
    ------
    DriverFault
        ``denied``: the file does not exist, others may read it, or the token is shorter than 16
        characters.
    """
    token = read_private(path)
    if len(token) < SHORTEST:
        raise DriverFault(
            "denied", f"{path}: the token has {len(token)} characters; write at least {SHORTEST}"
        )
    return token


def read_private(path: Path) -> str:
    """Text of a file that only this user can read, stripped of surrounding white space.

    Raises
    ------
    DriverFault
        ``denied``: the file does not exist, or others may read it.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise DriverFault("denied", f"{path}: {error.strerror}; write it there") from error
    if status.st_mode & 0o077 or status.st_uid != os.getuid():
        raise DriverFault("denied", f"{path}: others may read it; chmod 600 it")
    return path.read_text().strip()
