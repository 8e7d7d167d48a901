"""Concurrent ops on one core: one thread per op, and the completion time of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Barrier, Thread

from .timer import Call


def completion_times(calls: Sequence[Call], read: Callable[[], int]) -> list[int]:
    """Run calls concurrently; returns each completion time, in ns from the common start.

    With the CPU clock of the process, times exclude the time for which other processes use the
    core.

    Parameters
    ----------
    calls : functions to run; they should release the interpreter lock while they work
    read : function that returns the current clock reading, in ns

    Examples
    --------
    >>> ticks = iter((100, 350))
    >>> completion_times([lambda: None], lambda: next(ticks))
    [250]
    """
    ends = [0] * len(calls)
    began: list[int] = []
    ready = Barrier(len(calls), action=lambda: began.append(read()))  # by the last who comes

    def work(i: int) -> None:
        ready.wait()
        calls[i]()
        ends[i] = read()

    threads = [Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [end - began[0] for end in ends]
