"""Concurrent ops on one core: one thread per op, and the time at which each completes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Barrier, Thread

from .timer import Call


def completion_times(calls: Sequence[Call], read: Callable[[], int]) -> list[int]:
    """Nanoseconds from the common start until each of several concurrent calls is done.

    The CPU clock of a process counts what all its threads do.  On one core it moves as a wall
    would if nobody else ran there, so the load of others is not in these times.

    Parameters
    ----------
    calls : they should release the interpreter's lock while they work
    read : reads the clock, ns

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
