"""Interface of worker pools: run tasks and yield their outcomes as they finish."""

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
    """Description of the pool for users, such as ``4 processes``."""

    def run(self, work: Work, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome | None]]:
        """Yield each task with its outcome, in the order in which they finish.

        A task whose worker dies is retried; after several deaths its outcome is None.
        """
        ...

    def close(self, *, kill: bool = False) -> None:
        """Stop the workers; with ``kill``, without waiting for their tasks."""
        ...


@contextmanager
def closing_pool(crew: WorkerPool) -> Iterator[WorkerPool]:
    """Context manager that closes a worker pool at its end; after an error it kills the workers."""
    try:
        yield crew
    except BaseException:
        crew.close(kill=True)
        raise
    crew.close()
