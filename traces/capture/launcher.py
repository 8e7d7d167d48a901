"""Launcher that records an unchanged training script with torch.profiler.

A start-up hook on ``PYTHONPATH`` is loaded by every Python process that the command starts,
including torchrun's workers. It loads `training_hook` there.
"""

from __future__ import annotations

import csv
import json
import logging
import math
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ...sim.errors import TraceError
from . import training_hook

log = logging.getLogger(__name__)

SLOW = 1.1  # traced over untraced step time; above it the trace misleads about proportions

_START_UP = """\
import importlib.util, sys
sys.path.remove({folder!r})
ours = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # the user's own, which ours hides
except ModuleNotFoundError:
    sys.modules["sitecustomize"] = ours  # the import system insists on finding it
spec = importlib.util.spec_from_file_location("_foretrace_capture", {hook!r})
hook = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hook)
hook.install({settings!r}, {folder!r})
"""


def capture(
    command: Sequence[str],
    out: Path,
    *,
    steps: int = 10,
    warm_up: int = 3,
    untraced: int = 10,
    stack: bool = False,
    memory: bool = False,
) -> list[Path]:
    """Run `command` under the profiler and return its traces, one Kineto file per rank.

    Next to each ``rankK.json.gz`` is ``rankK.steps.csv``, the time of *every* step, traced or not.
    Tracing slows a step down (by up to half), so predictions are compared with untraced steps.

    Parameters
    ----------
    command : (n,)
        Command as typed in a shell, such as ``["torchrun", "--nproc-per-node=2", "train.py"]``.
    out :
        Folder to write to; it must not contain a recording.
    steps :
        Number of traced steps.
    warm_up :
        Number of first steps that are neither traced nor used.
    untraced :
        Number of steps timed without the profiler before the traced ones. Steps after the traced
        ones are timed as well.
    stack :
        True to record Python stacks (for module names; slower).
    memory :
        True to record memory allocations.

    Raises
    ------
    TraceError
        The command failed, torch is missing, or too few steps were made.

    Examples
    --------
    >>> capture(["python", "train.py"], Path("run"), steps=0)
    Traceback (most recent call last):
    ValueError: steps: 0; record at least 1
    """
    settings = _capture_settings(out, steps, warm_up, untraced, stack, memory)
    if not command:
        raise ValueError("command: empty; give the training command, e.g. python train.py")
    make_recording_folder(out)
    with tempfile.TemporaryDirectory(prefix="foretrace-") as folder:
        _write_start_up_hook(Path(folder), settings)
        code = _run_with_hook(command, folder)
        _check_exit(command, code, Path(folder))
    traces = _check_recorded_files(command, out, settings)
    manifest = {"command": list(command), "settings": settings | {"out": "."}}
    (out / "capture.json").write_text(json.dumps(manifest, indent=1) + "\n")
    log.info("%s: %d ranks, %d traced steps each", out, len(traces), steps)
    _warn_if_tracing_slows(out / f"rank{_rank_of_file(traces[0])}.steps.csv")
    return traces


def profiler_slowdown(table: Path) -> float:
    r"""Median traced step time over median untraced step time, from a ``rankK.steps.csv``.

    NaN if either kind of step is missing.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "rank0.steps.csv"
    ...     rows = ["step,phase,duration_ns", "0,warm-up,9", "1,untraced,4", "2,traced,5"]
    ...     _ = table.write_text("\n".join(rows))
    ...     profiler_slowdown(table)
    1.25
    """
    times: dict[str, list[int]] = {"traced": [], "untraced": []}
    with table.open(newline="", encoding="ascii") as text:
        for row in csv.DictReader(text):
            times.get(row["phase"], []).append(int(row["duration_ns"]))
    if not all(times.values()):
        return math.nan
    return median(times["traced"]) / median(times["untraced"])


def _warn_if_tracing_slows(table: Path) -> None:
    ratio = profiler_slowdown(table)
    if ratio > SLOW:
        log.warning(
            "%s: a traced step takes %.2f times an untraced one; on CPUs an allocator that keeps "
            "small and large blocks apart (LD_PRELOAD jemalloc) often helps",
            table,
            ratio,
        )


def _capture_settings(
    out: Path, steps: int, warm_up: int, untraced: int, stack: bool, memory: bool
) -> dict[str, Any]:
    least_of = (("steps", steps, 1), ("warm_up", warm_up, 0), ("untraced", untraced, 0))
    for name, value, least in least_of:
        if value < least:
            raise ValueError(f"{name}: {value}; record at least {least}")
    return {
        "out": str(out.resolve()),
        "steps": steps,
        "warm_up": warm_up,
        "untraced": untraced,
        "stack": stack,
        "memory": memory,
    }


def make_recording_folder(out: Path) -> None:
    """Create the output folder of a recording; refuse a folder that already has one."""
    out.mkdir(parents=True, exist_ok=True)
    if any(out.glob("rank*")):
        raise TraceError(f"{out}: already holds a recording; name another folder with --out")


def _write_start_up_hook(folder: Path, settings: dict[str, Any]) -> None:
    hook = str(Path(training_hook.__file__).resolve())
    text = _START_UP.format(folder=str(folder), hook=hook, settings=settings)
    (folder / "sitecustomize.py").write_text(text)


def _run_with_hook(command: Sequence[str], folder: str) -> int:
    paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    try:
        return subprocess.run(list(command), env=env, check=False).returncode
    except OSError as error:
        why = f"cannot be run ({error.strerror}); check the command"
        raise TraceError(f"{command[0]}: {why}") from error


def _check_exit(command: Sequence[str], code: int, folder: Path) -> None:
    if code == 0:
        return
    if (folder / training_hook.TORCH_MISSING).exists():
        raise TraceError(
            f"{command[0]}: its Python has no torch; pip install torch there, "
            "or name the Python that trains"
        )
    raise TraceError(
        f"{' '.join(command)}: failed with exit code {code}; "
        "it must run to its end by itself before it can be recorded"
    )


def _check_recorded_files(
    command: Sequence[str], out: Path, settings: dict[str, Any]
) -> list[Path]:
    tables = sorted(out.glob("rank*.steps.csv"), key=_rank_of_file)
    if not tables:
        raise TraceError(
            f"{' '.join(command)}: made no optimizer step; call step() of a subclass of "
            "torch.optim.Optimizer, and start Python without -I, -E and -S"
        )
    traces = [out / f"rank{_rank_of_file(table)}.json.gz" for table in tables]
    for table, trace in zip(tables, traces, strict=True):
        if not trace.exists():
            raise TraceError(_too_few_steps_message(table, settings))
    return traces


def _rank_of_file(path: Path) -> int:
    return int(path.name.removeprefix("rank").split(".")[0])


def _too_few_steps_message(table: Path, settings: dict[str, Any]) -> str:
    """Error message: the script made fewer steps than tracing needs."""
    # the header stands for the step that starts the clock
    steps = len(table.read_text().splitlines())
    phases = [settings["warm_up"], settings["untraced"], training_hook.PREPARE, settings["steps"]]
    return (
        f"{table.name}: the script made {steps} steps, tracing needs {1 + sum(phases)} "
        f"(1 to start the clock, {phases[0]} warm-up, {phases[1]} untraced, {phases[2]} to start "
        f"the profiler, {phases[3]} traced); train for longer or ask for fewer"
    )
