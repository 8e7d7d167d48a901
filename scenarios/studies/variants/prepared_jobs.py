"""Jobs of a scenario as a run takes them: prepared, steered, waiting for components."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....sim.facts.graph import Graph
from ....sim.run.allocator import Allocator
from ....sim.run.job import Job
from ....sim.run.process import Process, Running, Steps
from ....sim.run.result import Result
from ....sim.run.workload import Needs, Samples, Workload
from ...config.choice import Choice
from ...config.sections.processes import make_process
from ..building.jobs import Pools

if TYPE_CHECKING:
    from ....sim.facts.system import System


class PreparedWorkload(Workload):
    """Workload of a scenario whose graph is cached, joined with the processes that steer it.

    Parameters
    ----------
    of : Workload
    graph : Graph or None
        That it starts; None where it is a process.
    steering : sequence of Choice
        Processes beside it.
    edit : function or None
        What becomes of each graph that it submits.
    ranks : names of components, or None
        Of each rank, where they are not those of its pool in order.
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
        """Needs of the workload."""
        return self.of.needs

    def start(self, job: Job) -> Graph | Process:
        """Its graph, or its process with those that steer it."""
        found = self.of.start(job) if self.graph is None else self.graph
        if not self.steering:
            return found
        beside = [make_process(one, self.graph) for one in self.steering]

        def steered(sim: Running) -> Steps:
            if isinstance(found, Graph):
                work = sim.submit(found).done
                sim.start(beside)
                yield work
            else:
                sim.start(beside)
                yield from found(sim)

        return steered

    def holds(self, job: Job, system: System) -> Mapping[str, int]:
        """Amounts of capacities that the workload holds, where its ranks are."""
        if self.ranks is not None:
            pool = next(iter(self.needs.pools))
            job = Job(job.name, self.of, {**job.on, pool: self.ranks})
        return self.of.holds(job, system)

    def measure(self, result: Result) -> Mapping[str, Samples]:
        """Samples by metric, as the workload measures them."""
        return self.of.measure(result)


@dataclass(frozen=True)
class WaitingJob:
    """A job that waits for a number of components.

    Parameters
    ----------
    job : its workload and when it arrives
    pools : names of components, or how many, by pool
    """

    job: Job
    pools: Pools


@dataclass(frozen=True)
class JobDispatcher:
    """A process that starts jobs when what they wait for is free: first come, first served.

    Parameters
    ----------
    waiting : jobs, in the order of the file
    taken : components that other jobs have by name, which it does not hand out
    """

    waiting: Sequence[WaitingJob]
    taken: frozenset[str] = frozenset()

    def __call__(self, sim: Running) -> Steps:
        """Start each job when it fits, and hand on what it had when it is done."""
        kinds = sorted({kind for one in self.waiting for _, kind, _ in _counted_pools(one)})
        stores = {kind: Allocator(sim, self._pool_components(kind, sim.system)) for kind in kinds}
        order = sorted(self.waiting, key=lambda one: one.job.arrives)
        yield sim.env.all_of([sim.env.process(self._run_job(sim, one, stores)) for one in order])

    def _pool_components(self, kind: str, system: System) -> list[str]:
        return [name for name in system.select(kind=kind) if name not in self.taken]

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
    """Pools of which a number is asked: name, kind and number."""
    needs = waiting.job.workload.needs.pools
    return [(pool, needs[pool].kind, n) for pool, n in waiting.pools.items() if isinstance(n, int)]
