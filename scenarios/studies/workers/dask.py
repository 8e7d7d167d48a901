"""Worker pool on a Dask cluster: a local one that is created, or an existing one."""

from __future__ import annotations

import itertools
import logging
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from ....sim.errors import ScenarioError
from .worker_pool import RETRIES, Outcome, Task, Work

AHEAD = 2  # tasks in flight per thread of the cluster
PATIENCE = 20  # s, timeout to reach a scheduler


class DaskCluster:
    """Worker pool on a Dask cluster.

    Parameters
    ----------
    address : str or None
        ``HOST:PORT`` of a scheduler; None creates a local cluster.
    count : int
        Number of processes of a local cluster.

    Raises
    ------
    ScenarioError
        Dask is not installed, no scheduler answers, or the workers run another version.
    """

    def __init__(self, address: str | None, count: int):
        distributed = _import_distributed()
        self._own = None
        if address is None:
            self._own = distributed.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                silence_logs=logging.ERROR,
            )
        self._client = _make_client(distributed, self._own or address)
        if address is not None:
            _refuse_other_versions(self._client, address)
        threads = sum(w["nthreads"] for w in self._client.scheduler_info(-1)["workers"].values())
        self._ahead = AHEAD * threads
        where = f"dask at {address}" if address else "dask on this machine"
        self.name = f"{where}, {threads} worker{'s' * (threads != 1)}"
        self._killed = distributed.KilledWorker
        self._completed = distributed.as_completed

    def run(self, work: Work, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome | None]]:
        """Yield each task with its outcome as tasks finish; None if the workers died."""
        todo = iter(tasks)
        given = {self._submit_task(work, t): t for t in itertools.islice(todo, self._ahead)}
        coming = self._completed(list(given), loop=self._client.loop)
        for future in coming:
            task = given.pop(future)
            for more in itertools.islice(todo, 1):
                new = self._submit_task(work, more)
                given[new] = more
                coming.add(new)
            yield task, self._outcome_of(future)

    def _submit_task(self, work: Work, task: Task) -> Any:
        return self._client.submit(work, task, pure=False)

    def _outcome_of(self, future: Any) -> Outcome | None:
        """Outcome of a task; None if its workers died more often than Dask retries."""
        try:
            outcome: Outcome = future.result()
        except self._killed:
            return None
        return outcome

    def close(self, *, kill: bool = False) -> None:
        """Release the workers; those of an existing cluster only drop the tasks."""
        patience = 1 if kill else 10
        with suppress(TimeoutError):  # all outcomes are received; late workers end with us
            self._client.close(timeout=patience)
        if self._own is not None:
            with suppress(TimeoutError):
                self._own.close(timeout=patience)


def _import_distributed() -> Any:
    try:
        import dask
        import distributed
    except ImportError as error:
        raise ScenarioError(
            "run.workers: dask:// needs Dask; run pip install distributed, or write local"
        ) from error
    logging.getLogger("distributed").setLevel(logging.ERROR)
    dask.config.set({"distributed.scheduler.allowed-failures": RETRIES})
    return distributed


def _make_client(distributed: Any, where: Any) -> Any:
    address = f"tcp://{where}" if isinstance(where, str) else where
    try:
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise ScenarioError(
            f"run.workers: no Dask scheduler answers at {where} ({error}); start 'dask scheduler' "
            "there, and 'dask worker' on each machine that runs points"
        ) from error


def code_identity() -> dict[str, str]:
    """Versions that must be equal on every worker."""
    from ..folders.digests import code_digest

    names = ("foretrace", "numpy", "numba", "simpy")
    versions = {name: version(name) for name in names}
    return {**versions, "code": code_digest()[:12], "python": platform.python_version()}


def _refuse_other_versions(client: Any, address: str) -> None:
    """Raise an error if a worker runs another version."""
    try:
        found: dict[str, dict[str, str]] = client.run(code_identity)
    except Exception as error:
        raise ScenarioError(
            f"run.workers: workers at {address} cannot run foretrace ({error}); install this "
            "version of foretrace there"
        ) from error
    if not found:
        raise ScenarioError(
            f"run.workers: the scheduler at {address} has no workers; start 'dask worker {address}'"
        )
    here = code_identity()
    for who, there in found.items():
        differing = [f"{k} {there.get(k)} there, {v} here" for k, v in here.items()
                     if there.get(k) != v]  # fmt: skip
        if differing:
            raise ScenarioError(
                f"run.workers: {who} has {'; '.join(differing)}; install the same versions there"
            )
