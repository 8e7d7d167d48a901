"""Job: a workload with a name, components and an arrival time.

A :class:`Job` describes what to run. During a run, the same class is also the handle that
processes use.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol

import numpy as np
import simpy

from ..argument import as_finite, as_mapping, as_names, as_text, shown
from ..errors import SimulationError
from ..facts.system import System
from ..units import Seconds
from .workload import Workload


class JobProgress(Protocol):
    """Interface of the state of a job that is running."""

    parent: Job | None

    @property
    def seed(self) -> tuple[int, int]:
        """Seed of the run, and its replica + 1 (0 for the typical run)."""

    @property
    def done(self) -> simpy.Event:
        """Event that fires when all processes and graphs of the job have ended."""

    @property
    def lost(self) -> simpy.Event:
        """Event that fires with the losses that were not reported yet."""

    def stop(self) -> None:
        """End the job's processes and cancel its ops."""


class Job:
    """Job: a workload with a name, its components, and an arrival time.

    A job that is given to ``Simulation.run`` is only a description, and can be run many times. The
    jobs that a process gets (``sim.job``, ``sim.launch``), or ``start`` of a workload, are running.

    Parameters
    ----------
    name : str
        Name in results, metrics and random draws.
    workload : Work of the job.
    on : mapping or None
        Component names by pool; ranks are placed on the first pool. None: each pool that the
        workload needs gets all components of its kind.
    arrives : Seconds
        Arrival time, at which the job starts.

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
        as_text("name of a job", name, ValueError)

        def refuse(why: str) -> ValueError:
            return ValueError(f"job {name!r}: {why}")

        if not isinstance(workload, Workload):
            raise refuse(f"workload is {shown(workload)}; give an object of a subclass of Workload")
        self.name, self.workload = name, workload
        self.arrives = as_finite("arrives", arrives, refuse, 0.0, " s")
        pools = as_mapping("on", {} if on is None else on, refuse, "a pool to names")
        self.on = {pool: as_names(f"pool {pool!r}", given, refuse) for pool, given in pools.items()}
        self._life: JobProgress | None = None

    def __repr__(self) -> str:
        on = ", ".join(f"{pool}: {len(names)}" for pool, names in self.on.items())
        return f"<Job {self.name!r} {type(self.workload).__name__} on {on or 'what it needs'}>"

    def as_started(self, progress: JobProgress, system: System) -> Job:
        """Copy of the job as running, with the components of its pools.

        Raises
        ------
        GraphError
            A component does not exist.
        SimulationError
            The pools are not those that the workload needs.
        """
        found = Job(self.name, self.workload, _pools_of_job(self, system), self.arrives)
        found._life = progress
        return found

    # While the job is running.

    @property
    def parent(self) -> Job | None:
        """Job that launched this one; None if it was given to the run."""
        return self._under_way.parent

    @property
    def done(self) -> simpy.Event:
        """Event that fires when the job's processes have returned and all its graphs have ended."""
        return self._under_way.done

    @property
    def lost(self) -> simpy.Event:
        """Event that fires with a list of :class:`~.process.Lost`: ops that a failure stopped."""
        return self._under_way.lost

    def stop(self) -> None:
        """Stop the job: end its processes, and cancel its ops in the next turn.

        Jobs that it launched continue.
        """
        self._under_way.stop()

    def random(self, name: str) -> np.random.Generator:
        """New random generator, seeded by the run's seed, replica, job and a purpose name.

        Each call starts the same sequence again.
        """
        return np.random.default_rng(self.random_key(name))

    def random_key(self, name: str) -> tuple[int, int, int, int]:
        """Keys of random draws: the run's seed, replica, job and a purpose name, as integers."""
        as_text("name", name, lambda why: SimulationError("action", f"job {self.name}: {why}"))
        seed, replica = self._under_way.seed
        return seed, replica, zlib.crc32(self.name.encode()), zlib.crc32(name.encode())

    @property
    def _under_way(self) -> JobProgress:
        if self._life is None:
            self._refuse_launch("it is not running; use the job object that start() receives")
        return self._life

    def _refuse_launch(self, why: str) -> NoReturn:
        raise SimulationError("action", f"job {self.name}: {why}")


def _pools_of_job(job: Job, system: System) -> dict[str, tuple[str, ...]]:
    """Components of every pool that the workload needs: as given, or all of the pool's kind."""
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
            every = system.gpus if need.kind == "gpu" else system.of_kind(need.kind)
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
