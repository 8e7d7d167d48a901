"""Run a machine of the lab without privileges, with its serial line on stdin and stdout."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .build_cache import lab_folder

NOBODY = 65534
SOURCE, SINK, CONSOLE = 3, 4, 5
"""File descriptors in the emulator: serial line in, serial line out, console output."""
FREE = 64
MORTAL = 1  # PR_SET_PDEATHSIG, prctl(2)


def run_machine(command: Sequence[str], emulated: bool = True) -> int:
    """Run a machine until it ends; returns its exit code.

    Parameters
    ----------
    command : command line of the emulator; ``{home}`` is replaced by the path of a scratch folder
    emulated : True for an emulator, which runs as user nobody with an empty environment
    """
    scratch = Path(tempfile.mkdtemp(prefix="foretrace-lab-"))
    if os.geteuid() == 0:
        os.chown(scratch, NOBODY, NOBODY)
    try:
        child = os.fork()
        if child == 0:
            words = [word.replace("{home}", str(scratch)) for word in command]
            _run_emulator(
                words, scratch, _agent_environment(scratch) if emulated else dict(os.environ)
            )
        for end in (0, 1):
            os.close(end)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run_emulator(command: list[str], scratch: Path, environment: dict[str, str]) -> NoReturn:
    """Replace this process by the emulator; it runs as user nobody if this process is root's."""
    try:
        _redirect_streams()
        if os.geteuid() == 0 and environment["HOME"] == str(scratch):
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        ctypes.CDLL(None).prctl(MORTAL, signal.SIGKILL, 0, 0, 0)
        os.execve(command[0], command, environment)
    except OSError as error:
        sys.stderr.write(f"error lab: {command[0]}: {error.strerror}; run foretrace lab up\n")
    os._exit(127)


def _agent_environment(scratch: Path) -> dict[str, str]:
    modules = lab_folder() / "qemu/usr/lib/x86_64-linux-gnu/qemu"
    return {"HOME": str(scratch), "TMPDIR": str(scratch), "PATH": os.defpath,
            "QEMU_MODULE_DIR": str(modules)}  # fmt: skip


def _redirect_streams() -> None:
    """Move stdin, stdout, stderr to descriptors 3, 4, 5; the emulator's own output goes to 5."""
    ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, FREE) for fd in (0, 1, 2)]
    for fd, to in zip(ends, (SOURCE, SINK, CONSOLE), strict=True):
        os.dup2(fd, to)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(CONSOLE, 1)
    os.closerange(CONSOLE + 1, 1024)
