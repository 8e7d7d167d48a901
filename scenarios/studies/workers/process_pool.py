"""Worker pool of local processes; each has its own executor, to know which task a dead one had."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from .worker_pool import RETRIES, Outcome, Task, Work


class ProcessPool:
    """Pool of local processes, forked from a server that has imported foretrace.

    Parameters
    ----------
    count : int
        Number of processes.

    Examples
    --------
    >>> pool = ProcessPool(2)
    >>> pool.name, pool.close()
    ('2 processes', None)
    """

    def __init__(self, count: int):
        self.name = f"{count} process{'es' * (count != 1)}"
        self._free: list[ProcessPoolExecutor] = []
        self._count, self._made = count, 0
        self._busy: dict[Future[Outcome], tuple[ProcessPoolExecutor, Task, int]] = {}

    def run(self, work: Work, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome | None]]:
        """Yield each task with its outcome as tasks finish; None if the workers died."""
        waiting = ((task, RETRIES) for task in tasks)
        while True:
            for task, left in itertools.islice(waiting, self._count - len(self._busy)):
                self._submit_task(work, task, left)
            if not self._busy:
                return
            done, _ = wait(self._busy, return_when=FIRST_COMPLETED)
            for future in done:
                executor, task, left = self._busy.pop(future)
                outcome: Outcome | None = None
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    self._shut_down(executor)
                    if left:
                        self._submit_task(work, task, left - 1)
                        continue
                else:
                    self._free.append(executor)
                yield task, outcome

    def close(self, *, kill: bool = False) -> None:
        """Stop the processes."""
        executors = [*self._free, *(e for e, _, _ in self._busy.values())]
        if kill:
            for process in (p for e in executors for p in _worker_processes(e)):
                process.kill()
        for executor in executors:
            executor.shutdown(wait=True, cancel_futures=True)
        self._free.clear()
        self._busy.clear()

    def _submit_task(self, work: Work, task: Task, left: int) -> None:
        executor = self._free.pop() if self._free else _make_executor()
        self._busy[executor.submit(work, task)] = (executor, task, left)

    def _shut_down(self, executor: ProcessPoolExecutor) -> None:
        executor.shutdown(wait=True)


def _make_executor() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["foretrace.scenarios.studies.sweep.preload"])
    return ProcessPoolExecutor(1, mp_context=context, initializer=_begin_worker)


def _worker_processes(executor: ProcessPoolExecutor) -> list[Any]:
    return list((getattr(executor, "_processes", None) or {}).values())


def _begin_worker() -> None:
    """Set up a new worker, which ignores interrupts and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when its parent ends; otherwise it would wait forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
