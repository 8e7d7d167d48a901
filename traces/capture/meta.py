"""Record the ops of a training step without running it: no GPU, no memory, no times."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...sim.errors import TraceError
from .launcher import make_recording_folder

log = logging.getLogger(__name__)
HOOK = Path(__file__).with_name("meta_hook.py")


class CaptureTarget(NamedTuple):
    """What to record: a Python interpreter, and a script with arguments or a function."""

    python: str
    words: list[str]
    function: bool


def parse_target(command: Sequence[str]) -> CaptureTarget:
    """Parse a command line into the target to record.

    Raises
    ------
    TraceError
        The command neither starts a script nor names a function.

    Examples
    --------
    >>> parse_target(["python3", "-m", "zoo.gpt", "--steps", "3"]).words
    ['-m', 'zoo.gpt', '--steps', '3']
    >>> parse_target(["net.py:make"]).function, parse_target(["train.py", "--steps", "3"]).function
    (True, False)
    """
    first, *rest = command or [""]
    if Path(first).name.startswith("python") and not first.endswith(".py"):
        return CaptureTarget(first, rest, False)
    if first.endswith(".py"):
        return CaptureTarget(sys.executable, [first, *rest], False)
    module, _, name = first.rpartition(":")
    if module and name.isidentifier() and not rest:
        return CaptureTarget(sys.executable, [first], True)
    raise TraceError(
        f"{' '.join(command)}: is neither a script nor a function; with --meta write "
        "'python train.py …', 'train.py …', or 'net.py:function' of a function that returns a step "
        "(of several ranks record one, and scale it by workload.scale_to)"
    )


def capture_meta(
    command: Sequence[str], out: Path, *, steps: int = 1, warm_up: int = 1
) -> tuple[Path, dict[str, Any]]:
    """Record the ops of a training step without running it.

    The ops are written as ``rank0.json.gz``. Sizes of parameters and memory are returned as facts.

    Parameters
    ----------
    command : (n,)
        A script as typed in a shell, or ``net.py:function``. The function returns a step (called
        without arguments), or a module and a tuple of its inputs.
    out : folder to write to; it must not contain a recording
    steps : number of recorded steps
    warm_up : number of first steps that are not recorded; an optimizer creates its states in the
        first

    Returns
    -------
    path, facts
        Facts are ``parameters``, ``parameter_bytes``, ``kept_bytes`` (kept from forward to
        backward), ``peak_bytes``, and ``guessed``: how often each place in the script read a value
        and got 0.

    Raises
    ------
    TraceError
        The script failed, torch is missing, or the computation depends on values.
    """
    target = parse_target(command)
    make_recording_folder(out)
    path = out / "rank0.json.gz"
    with tempfile.TemporaryDirectory(prefix="foretrace-") as folder:
        failed, made = Path(folder) / "failed", Path(folder) / "made.json.gz"
        settings = {
            "target": target.words, "function": target.function, "steps": steps,
            "warm_up": warm_up, "out": str(made), "failed": str(failed),
        }  # fmt: skip
        _run(target, settings, failed)
        path.write_bytes(made.read_bytes())
    import gzip

    facts: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))["foretrace"]["meta"]
    for place, times in facts["guessed"].items():
        log.warning(
            "%s: read %d values that were not computed, and got 0; its decisions may "
            "not be what a real step does", place, times,
        )  # fmt: skip
    return path, facts


def _run(target: CaptureTarget, settings: dict[str, Any], failed: Path) -> None:
    command = [target.python, str(HOOK), json.dumps(settings)]
    try:
        ended = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise TraceError(
            f"{target.python}: cannot be run ({error.strerror}); check the command"
        ) from error
    if ended.returncode == 0:
        return
    if failed.exists():
        raise TraceError(f"{' '.join(target.words)}: {failed.read_text()}")
    if "No module named 'torch'" in ended.stderr:
        raise TraceError(
            f"{target.python}: has no torch; pip install torch there, or name the Python that "
            "trains ('/path/to/python train.py')"
        )
    last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
    raise TraceError(
        f"{' '.join(target.words)}: ended with exit code {ended.returncode} ({last}); it must run "
        "by itself before it can be recorded"
    )
