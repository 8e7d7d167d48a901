"""Command line of the agent: serves drivers to a client, or runs a work list offline.

It needs only the standard library and NumPy. So it runs under the Python that has the driver's
libraries, in a virtual machine, or on the machine with the devices: ``python -m
foretrace.hil.agent --stdio``, or ``python foretrace-agent.pyz --stdio`` (see ``bundle.py``).
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from ...sim.errors import DriverFault, RecordingError, SimulationError
from ..private_file import read_token
from .server import frame_streams_of_stdio, reply_until_end, serve_unix_socket

EXIT_CODES: dict[type[Exception], int] = {DriverFault: 4, RecordingError: 2, SimulationError: 3}


def die_with_parent() -> None:
    """Ask the Linux kernel to kill this process when its parent process ends."""
    parent = os.getppid()
    libc = ctypes.CDLL(None)
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG, prctl(2)
    if os.getppid() != parent:
        os._exit(1)


def load_driver_file(path: Path) -> None:
    """Load a Python file that registers one of the user's own drivers."""
    spec = spec_from_file_location(f"foretrace_driver_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise DriverFault("missing", f"{path}: is not a Python file; name the file of a driver")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of the agent; see ``--help`` for its options. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="foretrace-agent", description=__doc__)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--stdio", action="store_true", help="speak over stdin and stdout")
    how.add_argument(
        "--listen",
        type=Path,
        metavar="SOCKET",
        help="Unix socket to create for this user; {rank} becomes the rank of torchrun or srun",
    )
    how.add_argument("--record", type=Path, metavar="WORK", help="measure a work list, offline")
    how.add_argument(
        "--plan",
        type=Path,
        help="measure the remaining pieces of a plan; run it again after any interruption",
    )
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the recordings")
    parser.add_argument(
        "--token-file", type=Path, help="file of the token; required to listen; mode 0600"
    )
    parser.add_argument("--allow", action="append", default=[], metavar="DRIVER")
    parser.add_argument("--load", action="append", default=[], type=Path, metavar="FILE")
    parser.add_argument("--die-with-parent", action="store_true")
    options = parser.parse_args(arguments)
    if options.die_with_parent:
        die_with_parent()
    try:
        for path in options.load:
            load_driver_file(path)
        return _run_command(options)
    except (DriverFault, RecordingError, SimulationError) as error:
        sys.stderr.write(f"error {error}\n")
        return next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
    except KeyboardInterrupt:
        sys.stderr.write("stopped; samples measured so far are kept\n")
        return 130


def _run_command(options: argparse.Namespace) -> int:
    if options.stdio:
        source, sink = frame_streams_of_stdio()
        reply_until_end(options.allow, source, sink)
    elif options.listen is not None:
        if options.token_file is None:
            raise DriverFault("denied", "--listen needs --token-file; write one with mode 0600")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the socket is taken away
        serve_unix_socket(options.listen, read_token(options.token_file), options.allow)
    elif options.plan is not None:
        from .offline import record_plan

        record_plan(options.plan, options.out, options.allow, options.load)
    else:
        from .offline import record_work_list

        record_work_list(options.record, options.out, options.allow, options.load)
    return 0
