"""Measure one core and two ranks of this machine: GEMM, streaming, all-reduce over gloo.

Writes raw repeats as CSV without averaging: `training_steps.py` runs this, a fit reads it.
    RANK=0 WORLD_SIZE=1 python calibration/record/host_rates.py compute FOLDER START
    RANK=r WORLD_SIZE=2 ... python calibration/record/host_rates.py all-reduce FOLDER START
    RANK=r WORLD_SIZE=2 ... python calibration/record/host_rates.py all-reduce-beside FOLDER START
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import torch
from torch import distributed as dist

COMPUTE = "start,cores,rank,op,m,n,k,bytes,flop,repeat,duration_ns\n"
ALL_REDUCE = "start,rank,bytes,repeat,duration_ns,cpu_ns\n"
BESIDE = "start,rank,bytes,threads,busy,repeat,calls,duration_ns,cpu_ns,loop_ns\n"
SQUARES = [(n, n, n) for n in (64, 128, 256, 512, 1024, 2048)]
# tokens, outputs and inputs of the recorded GPT's linear layers
LINEAR = [(256, 768, 256), (256, 1024, 256), (256, 256, 1024), (256, 2048, 256)]
STREAM = [4, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 128 << 20]  # bytes an array
MESSAGES = [1 << power for power in range(10, 27, 2)]  # 1 KiB to 64 MiB
CALLS = 6  # all-reduces under way one behind the other, as those of a step are
SETTLE = 3  # untimed calls before the timed ones


def timed(call: Callable[[], object], repeats: int) -> Iterator[int]:
    """Duration in ns of each of `repeats` calls."""
    for _ in range(SETTLE):
        call()
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        call()
        yield time.perf_counter_ns() - begin


def gemms() -> Iterator[str]:
    """GEMMs, (m, k) x (k, n), single precision."""
    for m, n, k in SQUARES + LINEAR:
        a, b, c = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
        moved, flop = 4 * (m * k + k * n + m * n), 2 * m * n * k
        for repeat, spent in enumerate(timed(lambda: torch.mm(a, b, out=c), 20)):  # noqa: B023
            yield f"gemm,{m},{n},{k},{moved},{flop},{repeat},{spent}\n"


def streams() -> Iterator[str]:
    """Elementwise ops in single precision; bytes are read plus written."""
    for size in STREAM:
        a, b = torch.zeros(size // 4), torch.ones(size // 4)
        calls = {
            "copy": (2, lambda: b.copy_(a)),  # noqa: B023
            "add": (3, lambda: b.add_(a)),  # noqa: B023
            "sum": (1, lambda: a.sum()),  # noqa: B023
        }
        for name, (passes, call) in calls.items():
            flop = 0 if name == "copy" else size // 4
            for repeat, spent in enumerate(timed(call, 20)):
                yield f"{name},,,,{passes * size},{flop},{repeat},{spent}\n"


def all_reduces() -> Iterator[str]:
    """Blocking all-reduces of one tensor over all ranks, each after a barrier."""
    dist.init_process_group("gloo")
    for size in MESSAGES:
        tensor = torch.zeros(size // 4)
        repeats = 40 if size <= 1 << 20 else 12
        for repeat in range(-SETTLE, repeats):
            dist.barrier()
            wall, cpu = time.perf_counter_ns(), time.process_time_ns()
            dist.all_reduce(tensor)
            wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
            if repeat >= 0:
                yield f"{size},{repeat},{wall},{cpu}\n"
    dist.destroy_process_group()


class Loop:
    """Thread that computes on its rank's core while it is switched on."""

    def __init__(self) -> None:
        self.go, self.idle = Event(), Event()
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()
        self.clock = time.pthread_getcpuclockid(self.thread.ident or 0)

    def _run(self) -> None:
        a, b = torch.randn(2, 192, 192)
        out = torch.empty_like(a)
        while self.go.wait():
            torch.mm(a, b, out=out)
            if not self.go.is_set():
                self.idle.set()

    def turn(self, on: bool) -> None:
        """Start the thread, or stop it and wait for its end."""
        if on == self.go.is_set():
            return
        self.idle.clear()
        if on:
            self.go.set()
        else:
            self.go.clear()
            self.idle.wait()


def all_reduces_under_load() -> Iterator[str]:
    """Several concurrent all-reduces, with and without a computing thread on each core."""
    dist.init_process_group("gloo")
    groups = {threads: _group(threads) for threads in (1, 2)}
    loop = Loop()
    for size in MESSAGES[:-1]:
        tensors = [[torch.zeros(size // 4)] for _ in range(CALLS)]
        repeats = 10 if size <= 1 << 20 else 5
        for repeat in range(-1, repeats):
            for threads, group in groups.items():
                for busy in (False, True):
                    loop.turn(busy)
                    dist.barrier()
                    begin = _clocks(loop)
                    for work in [group.allreduce(t) for t in tensors]:
                        work.wait()
                    wall, cpu, own = (b - a for a, b in zip(begin, _clocks(loop), strict=True))
                    loop.turn(False)
                    if repeat >= 0:
                        told = f"{size},{threads},{busy:d},{repeat},{CALLS}"
                        yield f"{told},{wall},{cpu - own},{own}\n"
    dist.barrier()
    dist.destroy_process_group()


def _group(threads: int) -> dist.ProcessGroupGloo:
    """Process group whose all-reduces use this number of threads; torch uses two."""
    store = dist.PrefixStore(f"threads{threads}", dist.distributed_c10d._get_default_store())
    told = dist.ProcessGroupGloo._Options()
    told._devices, told._threads = [dist.ProcessGroupGloo.create_device(interface="lo")], threads
    told._timeout = timedelta(minutes=5)
    return dist.ProcessGroupGloo(store, dist.get_rank(), dist.get_world_size(), told)


def _clocks(loop: Loop) -> tuple[int, int, int]:
    """Wall time, CPU time of the process, and CPU time of the loop's thread, in ns."""
    return time.perf_counter_ns(), time.process_time_ns(), time.clock_gettime_ns(loop.clock)


def main(what: str, folder: str, start: str) -> None:
    """Write one rank's table of one process start."""
    torch.manual_seed(0)
    rank, cores = os.environ["RANK"], os.environ["WORLD_SIZE"]
    if what.startswith("all-reduce-beside"):
        rows = [BESIDE, *(f"{start},{rank},{row}" for row in all_reduces_under_load())]
    elif what.startswith("all-reduce"):
        rows = [ALL_REDUCE, *(f"{start},{rank},{row}" for row in all_reduces())]
    else:
        rows = [f"{start},{cores},{rank},{row}" for row in (*gemms(), *streams())]
        rows.insert(0, COMPUTE)
    (Path(folder) / f"{what}.rank{rank}.csv").write_text("".join(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
