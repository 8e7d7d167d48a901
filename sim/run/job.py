"""Job: a workload with a name, components and an arrival time.

The same :class:`Job` describes what is to run and, in a run, is what its processes hold of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol

import numpy as np
import simpy

from ..errors import SimulationError
from ..facts.system import System
from ..units import Seconds
from .workload import Workload


class JobProgress(Protocol):
    """What of a job goes on in a run."""

    parent: Job | None

    @property
    def seed(self) -> tuple[int, int]:
        """Seed of the run, and its replica + 1 (0 for the typical run)."""

    @property
    def done(self) -> simpy.Event:
        """Event that fires when all its processes and graphs are over."""

    @property
    def lost(self) -> simpy.Event:
        """Event that fires with the losses not yet reported."""

    def stop(self) -> None:
        """End its processes and cancel what it handed in."""


class Job:
    """A workload with a name, its components, and when it arrives.

    Given to ``Simulation.run``, which may run it many times, it describes; the jobs that a process
    sees (``sim.job``, ``sim.launch``) and a workload is started with are under way as well.

    Parameters
    ----------
    name : str
        Of its results, metrics and draws.
    workload : Workload
    on : mapping or None
        Names of components by pool; its ranks are placed on the first pool.  None: every pool that
        the workload needs has all components of its kind.
    arrives : Seconds
        When it starts.

    Examples
    --------
    >>> from foretrace.sim.run.periodic import Periodic
    >>> Job("a", Periodic(), on={"gpu": ["node0.gpu0", "node0.gpu1"]})
    <Job 'a' Periodic on gpu: 2>
    """

    def __init__(
        self,
        name: str,
        workload: Workload,
        on: Mapping[str, Sequence[str]] | None = None,
        arrives: Seconds = 0.0,
    ):
        if not 0 <= arrives < float("inf"):
            raise ValueError(f"job {name!r}: arrives is {arrives}; give 0 s or a later time")
        self.name, self.workload, self.arrives = name, workload, arrives
        self.on = {pool: tuple(names) for pool, names in (on or {}).items()}
        self._life: JobProgress | None = None

    def __repr__(self) -> str:
        on = ", ".join(f"{pool}: {len(names)}" for pool, names in self.on.items())
        return f"<Job {self.name!r} {type(self.workload).__name__} on {on or 'what it needs'}>"

    def as_started(self, progress: JobProgress, system: System) -> Job:
        """Job under way, with its pools resolved.

        Raises
        ------
        GraphError
            A component that does not exist.
        SimulationError
            Pools that are not what the workload needs.
        """
        found = Job(self.name, self.workload, _pools_of_job(self, system), self.arrives)
        found._life = progress
        return found

    # While the job is running.

    @property
    def parent(self) -> Job | None:
        """Job that launched it; None for one that the run was given."""
        return self._under_way.parent

    @property
    def done(self) -> simpy.Event:
        """Event that fires when its process has returned and all its graphs have ended."""
        return self._under_way.done

    @property
    def lost(self) -> simpy.Event:
        """Event that fires with a list of :class:`~.process.Lost`: ops that a failure stopped."""
        return self._under_way.lost

    def stop(self) -> None:
        """End it: its processes are over, what it handed in is cancelled in the next turn.

        Jobs that it launched go on.
        """
        self._under_way.stop()

    def random(self, name: str) -> np.random.Generator:
        """New generator for one purpose, by seed, replica, job and that name: each begins anew."""
        seed, replica = self._under_way.seed
        key = zlib.crc32(self.name.encode()), zlib.crc32(name.encode())
        return np.random.default_rng([seed, replica, *key])

    @property
    def _under_way(self) -> JobProgress:
        if self._life is None:
            self._refuse_launch("it is not running; use the job object that start() receives")
        return self._life

    def _refuse_launch(self, why: str) -> NoReturn:
        raise SimulationError("action", f"job {self.name}: {why}")


def _pools_of_job(job: Job, system: System) -> dict[str, tuple[str, ...]]:
    """Components of every pool that the workload needs: as given, or all of its kind."""
    needs = job.workload.needs.pools
    unknown = [pool for pool in job.on if pool not in needs]
    if unknown:
        job._refuse_launch(
            f"pool {unknown[0]!r} is unknown; its workload needs {', '.join(needs) or 'none'}"
        )
    found = {}
    for pool, need in needs.items():
        names = tuple(job.on.get(pool, ()))
        if pool not in job.on:
            every = system.gpus if need.kind == "gpu" else system.select(kind=need.kind)
            names = tuple(every[: need.count])
        for name in names if pool in job.on else ():
            system.number(name)
        if len(names) < (need.count or 0):
            job._refuse_launch(
                f"pool {pool!r} has {len(names)} {need.kind}, but its workload needs {need.count}; "
                "give it more"
            )
        found[pool] = names
    return found
