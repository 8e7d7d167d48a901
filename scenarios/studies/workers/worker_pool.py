"""The protocol of workers: run tasks, yield their outcomes as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

RETRIES = 2  # retries of a task whose worker died; after that the task fails

Task = dict[str, Any]
Outcome = dict[str, Any]
Work = Callable[[Task], Outcome]


class WorkerPool(Protocol):
    """Interface of a pool of worker processes that run tasks in any order."""

    name: str
    """For people."""

    def run(self, work: Work, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome | None]]:
        """Each task with its outcome, in the order in which they end.

        A task whose worker dies is tried again; one that kills worker after worker is poisonous
        and has no outcome: None.
        """
        ...

    def close(self, *, kill: bool = False) -> None:
        """Let the workers go; at once if ``kill``, whatever they do."""
        ...


@contextmanager
def working(crew: WorkerPool) -> Iterator[WorkerPool]:
    """Context of workers, which go at its end; at once where it is broken off."""
    try:
        yield crew
    except BaseException:
        crew.close(kill=True)
        raise
    crew.close()
