"""Jobs of a scenario prepared for a run: with processes, waiting for components."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import simpy

from ....sim.facts.graph import Graph
from ....sim.run.allocator import Allocator
from ....sim.run.job import Job
from ....sim.run.policies.compiled_process import CompiledProcess
from ....sim.run.process import Process, Running, Steps
from ....sim.run.result import Result
from ....sim.run.workload import Needs, Samples, Workload
from ...config.choice import Choice
from ...config.sections.processes import make_process
from ..building.jobs import Pools

if TYPE_CHECKING:
    from ....sim.facts.system import System


class PreparedWorkload(Workload):
    """Workload with a cached graph, combined with the processes of its job.

    Parameters
    ----------
    of : workload to wrap
    graph : Graph or None
        Graph that the workload starts, built already; None for a workload that starts a process.
    steering : sequence of Choice
        Processes that run next to it.
    edit : function or None
        Function applied to each graph that it submits.
    ranks : names of components, or None
        Name of each rank's component; None for the components of the job's pool, in order.
    """

    def __init__(
        self,
        of: Workload,
        graph: Graph | None,
        steering: Sequence[Choice] = (),
        edit: Callable[[Graph], Graph] | None = None,
        ranks: Sequence[str] | None = None,
    ):
        self.of, self.graph, self.steering, self.edit = of, graph, steering, edit
        self.ranks, self.waits = ranks, of.waits
        self.metrics, self.headline, self.until = of.metrics, of.headline, of.until
        self.periodic = of.periodic

    @property
    def needs(self) -> Needs:
        """Needs of the wrapped workload."""
        return self.of.needs

    def start(self, job: Job) -> Graph | Process:
        """Its graph or process, combined with the processes of the job."""
        found = self.of.start(job) if self.graph is None else self.graph
        if not self.steering:
            return found
        beside = [make_process(one, self.graph) for one in self.steering]

        def steered(sim: Running) -> Steps:
            if isinstance(found, Graph):
                work: simpy.Event = sim.submit(found).done
                sim.start(beside)
                yield work
            elif isinstance(steps := found(sim), CompiledProcess):
                (work,) = sim.start([steps])
                sim.start(beside)
                yield work
            else:
                sim.start(beside)
                yield from steps

        return steered

    def holds(self, job: Job, system: System) -> Mapping[str, int]:
        """Capacity that the workload holds, by component name."""
        if self.ranks is not None:
            pool = next(iter(self.needs.pools))
            job = Job(job.name, self.of, {**job.on, pool: self.ranks})
        return self.of.holds(job, system)

    def measure(self, result: Result) -> Mapping[str, Samples]:
        """Samples by metric, measured by the wrapped workload."""
        return self.of.measure(result)


@dataclass(frozen=True)
class WaitingJob:
    """A job that waits for a number of components.

    Parameters
    ----------
    job : job with its workload and arrival time
    pools : for each pool, names of its components or the number of components that it needs
    """

    job: Job
    pools: Pools


@dataclass(frozen=True)
class JobDispatcher:
    """Process that starts waiting jobs when their components are free, first come, first served.

    Parameters
    ----------
    waiting : jobs in file order
    taken : components that are never assigned, because other jobs have them by name
    """

    waiting: Sequence[WaitingJob]
    taken: frozenset[str] = frozenset()

    def __call__(self, sim: Running) -> Steps:
        """Start each job when it fits, and release its components when it ends."""
        kinds = sorted({kind for one in self.waiting for _, kind, _ in _counted_pools(one)})
        stores = {kind: Allocator(sim, self._pool_components(kind, sim.system)) for kind in kinds}
        order = sorted(self.waiting, key=lambda one: one.job.arrives)
        yield sim.env.all_of([sim.env.process(self._run_job(sim, one, stores)) for one in order])

    def _pool_components(self, kind: str, system: System) -> list[str]:
        return [name for name in system.of_kind(kind) if name not in self.taken]

    def _run_job(
        self, sim: Running, waiting_job: WaitingJob, stores: Mapping[str, Allocator]
    ) -> Steps:
        yield sim.wait(waiting_job.job.arrives)
        on = {pool: v for pool, v in waiting_job.pools.items() if not isinstance(v, int)}
        held: list[tuple[Allocator, tuple[str, ...]]] = []
        for pool, kind, count in sorted(_counted_pools(waiting_job), key=lambda asked: asked[1]):
            on[pool] = yield stores[kind].request(count)
            held.append((stores[kind], on[pool]))
        ordered = {pool: on[pool] for pool in waiting_job.pools}
        launched = sim.launch(waiting_job.job.workload, waiting_job.job.name, ordered)
        yield launched.done
        for store, names in held:
            store.put(names)


def _counted_pools(waiting: WaitingJob) -> list[tuple[str, str, int]]:
    """Name of each pool that is given as a count, its kind of component and the count."""
    needs = waiting.job.workload.needs.pools
    return [(pool, needs[pool].kind, n) for pool, n in waiting.pools.items() if isinstance(n, int)]
