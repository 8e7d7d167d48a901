"""Several ops of one core in flight: a thread each, one core for all, told by when each is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Barrier, Thread

from .timer import Call


def finished(calls: Sequence[Call], read: Callable[[], int]) -> list[int]:
    """Do all calls at once; what the clock says has passed when each is done, ns.

    The CPU clock of a process counts what all its threads do.  On one core it moves as a wall
    would if nobody else ran there, so the load of others is not in these times.

    Parameters
    ----------
    calls : that release the interpreter's lock while they work
    read : the clock

    Examples
    --------
    >>> ticks = iter((100, 350))
    >>> finished([lambda: None], lambda: next(ticks))
    [250]
    """
    found = [0] * len(calls)
    began: list[int] = []
    ready = Barrier(len(calls), action=lambda: began.append(read()))  # by the last who comes

    def work(i: int) -> None:
        ready.wait()
        calls[i]()
        found[i] = read()

    threads = [Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [end - began[0] for end in found]
