"""Hook in the training process that times every optimizer step and profiles some of them.

It is loaded by path into every Python process that `capture` starts, so it needs only the standard
library, and the training environment does not need foretrace. It waits until torch's optimizers are
imported. From then on an iteration lasts from the end of one ``optimizer.step()`` to the next.
"""

from __future__ import annotations

import gzip
import importlib.abc
import importlib.util
import json
import os
import shutil
import sys
import time
import weakref
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

HEADER = "step,phase,start_ns,duration_ns,cpu_ns\n"
PREPARE = 1  # steps torch's profiler asks for before it records: its own start-up cost
TORCH_MISSING = "torch-missing"  # marker file, beside the hook's sitecustomize


def step_phase(step: int, settings: dict[str, Any]) -> str:
    """Phase of an iteration: ``warm-up``, ``untraced``, ``prepare``, ``traced`` or ``export``.

    `step` is the number of the iteration, from 0. Only ``untraced`` and ``traced`` iterations are
    free of start-up work.

    >>> plan = {"warm_up": 1, "untraced": 1, "steps": 2}
    >>> [step_phase(step, plan) for step in range(7)]
    ['warm-up', 'untraced', 'prepare', 'traced', 'traced', 'export', 'untraced']
    """
    spans = (
        ("warm-up", settings["warm_up"]),
        ("untraced", settings["untraced"]),
        ("prepare", PREPARE),
        ("traced", settings["steps"]),
        ("export", 1),  # the other ranks may still be writing their traces
    )
    for name, length in spans:
        if step < length:
            return name
        step -= length
    return "untraced"


class StepRecorder:
    """Recorder that times all steps of one process and profiles some of them.

    Iterations are those of the first optimizer that steps; a second one (as in a GAN) is ignored.
    """

    def __init__(self, settings: dict[str, Any]):
        self.settings = settings
        self.done = -1  # the first step only starts the clock
        self.rows: list[tuple[int, str, int, int, int]] = []
        self.profiler: Any = None

    def attach(self, optimizers: Any) -> None:
        """Make torch call the recorder after every step of every optimizer.

        `optimizers` is the module ``torch.optim.optimizer``.
        """
        optimizers.register_optimizer_step_post_hook(self.after_step)

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """End the current iteration and begin the next."""
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        if self.done < 0:
            self._begin_step(optimizer)
        elif self.marks() is not optimizer:
            return
        else:
            self._close_step(wall, cpu)
        self.done += 1
        self.began = time.time_ns()
        self.wall, self.cpu = time.perf_counter_ns(), time.process_time_ns()

    def _begin_step(self, optimizer: Any) -> None:
        self.marks = weakref.ref(optimizer)
        self.rank, self.ranks = _rank_and_world()
        stem = Path(self.settings["out"]) / f"rank{self.rank}"
        self.trace = stem.with_suffix(".json.gz")
        # Mode x: two processes of one rank would write over each other.
        self.table = stem.with_suffix(".steps.csv").open("x", encoding="ascii")
        self.table.write(HEADER)
        self.profiler = _make_profiler(self.settings, self._export)
        self.profiler.start()

    def _close_step(self, wall: int, cpu: int) -> None:
        name = step_phase(self.done, self.settings)
        self.rows.append((self.done, name, self.began, wall - self.wall, cpu - self.cpu))
        if name != "traced":  # writing would show in the trace
            self._write_steps()
        if self.profiler is None:
            return
        if name == "traced" != step_phase(self.done + 1, self.settings):
            self.profiler.add_metadata_json("foretrace", json.dumps(self._recording_facts()))
        self.profiler.step()
        if self.trace.exists():
            self.profiler.stop()
            self.profiler = None

    def _write_steps(self) -> None:
        self.table.writelines(",".join(map(str, row)) + "\n" for row in self.rows)
        self.table.flush()  # a script that is killed later loses nothing
        self.rows.clear()

    def _recording_facts(self) -> dict[str, Any]:
        import torch

        return {
            "rank": self.rank,
            "world_size": self.ranks,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "settings": {k: v for k, v in self.settings.items() if k != "out"},
        }

    def _export(self, profiler: Any) -> None:
        """Write the trace atomically: the complete file or none."""
        self._write_steps()
        part = self.trace.with_suffix(".part")
        profiler.export_chrome_trace(str(part))
        packed = self.trace.with_suffix(".part.gz")
        with part.open("rb") as plain, gzip.open(packed, "wb", compresslevel=6) as out:
            shutil.copyfileobj(plain, out)
        part.unlink()
        packed.replace(self.trace)


def _make_profiler(settings: dict[str, Any], ready: Any) -> Any:
    import torch
    from torch import profiler as tp

    activities = [tp.ProfilerActivity.CPU]
    extra = {}
    if torch.cuda.is_available():
        activities.append(tp.ProfilerActivity.CUDA)
        config = torch._C._profiler._ExperimentalConfig
        extra["experimental_config"] = config(enable_cuda_sync_events=True)
    wait = settings["warm_up"] + settings["untraced"]
    return tp.profile(
        activities=activities,
        schedule=tp.schedule(wait=wait, warmup=PREPARE, active=settings["steps"], repeat=1),
        on_trace_ready=ready,
        record_shapes=True,
        profile_memory=settings["memory"],
        with_stack=settings["stack"],
        **extra,
    )


def _rank_and_world() -> tuple[int, int]:
    """Rank and number of ranks, from the process group or the launcher's environment."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class TorchImportHook(importlib.abc.MetaPathFinder):
    """Import finder that starts a StepRecorder when torch's optimizers are imported."""

    TARGET = "torch.optim.optimizer"

    def __init__(self, settings: dict[str, Any], notes: Path):
        self.settings, self.notes = settings, notes

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Wrap the loader of ``torch.optim.optimizer``; other modules are left to other finders."""
        if name not in ("torch", self.TARGET):
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None:
            (self.notes / TORCH_MISSING).touch()
        elif name == self.TARGET:
            self._wrap_loader(spec.loader)
            return spec
        sys.meta_path.insert(0, self)
        return spec

    def _wrap_loader(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            StepRecorder(self.settings).attach(module)

        loader.exec_module = exec_module


def install(settings: dict[str, Any], notes: str) -> None:
    """Start recording once torch is imported in this process.

    `notes` is a folder for marker files.
    """
    sys.meta_path.insert(0, TorchImportHook(settings, Path(notes)))
