"""Example of a fleet: a job scheduler, checkpoints, and the cost of a machine failure for each job.

The workload ``fleet`` launches jobs as they arrive and owns the GPUs. Each job is a
``Checkpointed`` training: it requests GPUs, runs step by step, and saves a checkpoint every few
steps. After a failure it requests GPUs again and continues from its last checkpoint. The
completion time of a job is the makespan of its result, from arrival to last end, including the
wait for GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from foretrace import (
    Allocator,
    Builder,
    Graph,
    Kind,
    Member,
    Metric,
    Workload,
    place,
    process,
    workload,
)
from foretrace.sim.units import Bytes, Flop, Seconds


class Ask(NamedTuple):
    """Resources that one job of the fleet requests."""

    gpus: int
    steps: int
    arrives: Seconds = 0.0


class Checkpointed(Workload):
    """Training with checkpoints, which runs on whatever GPUs it is given.

    Parameters
    ----------
    allocator : Allocator
        Allocator that hands out GPUs.
    ask : Ask
        Number of GPUs and steps.
    every : number of steps between checkpoints
    save, load : duration in s of saving a checkpoint, and of restarting from one
    flop, bytes : work of a step on each GPU, and size of its all-reduce
    """

    metrics = (
        Metric("step_end", "s", "Time at which a step ended.", ("max",)),
        Metric("lost_steps", "", "Steps repeated after a failure.", ("max",), "lower"),
    )

    def __init__(
        self,
        *,
        allocator: Allocator,
        ask: Ask,
        every: int = 5,
        save: Seconds = 1.0,
        load: Seconds = 2.0,
        flop: Flop = 200e12,
        bytes: Bytes = 4e9,
    ):
        self.allocator, self.ask, self.every = allocator, ask, every
        self.save, self.load, self.flop, self.bytes = save, load, flop, bytes

    def step(self) -> Graph:
        """Graph of one step: compute on every GPU, then an all-reduce."""
        build, ranks = Builder("step"), range(self.ask.gpus)
        layers = {"flop": self.flop, "bytes": 0.0, "signature": "compute:layers bf16[]"}
        work = [build.op(Kind.COMPUTE, rank=r, **layers) for r in ranks]
        members = [Member(r, 1, (work[r],)) for r in ranks]
        text = f"collective:all-reduce fp32[{int(self.bytes) // 4}]"
        build.collective(members, bytes=self.bytes, signature=text)
        return build.graph()

    def start(self, job):
        """Process of the job: get GPUs, continue from the last checkpoint, release the GPUs."""
        graph = self.step()

        def train(sim):
            done = saved = 0
            while done < self.ask.steps:
                mine = yield self.allocator.request(self.ask.gpus)
                placed = place(graph, sim.system, mine)
                if saved:
                    yield sim.wait(self.load)
                while done < self.ask.steps:
                    handle = sim.submit(placed, rank=0)  # the same ranks, wherever they are now
                    lost = sim.lost(handle)
                    if lost in (yield handle.done | lost):
                        sim.cancel(handle)
                        yield sim.settled()
                        sim.emit("lost_steps", done - saved)
                        done = saved
                        break
                    done += 1
                    sim.emit("step_end", sim.now)
                    if done % self.every == 0:
                        yield sim.wait(self.save)
                        saved = done
                self.allocator.put(mine)

        return train


@workload("fleet")
class Fleet(Workload):
    """Jobs that share GPUs, first come, first served.

    Parameters
    ----------
    jobs : request (``Ask``) of each job, by name
    every : number of steps between checkpoints
    """

    def __init__(self, *, jobs: Mapping[str, Ask], every: int = 5):
        self.jobs, self.every = jobs, every

    def start(self, job):
        """Launch each job when it arrives."""

        def schedule(sim):
            allocator = Allocator(sim, sim.job.on["gpu"])
            for name, ask in sorted(self.jobs.items(), key=lambda item: item[1].arrives):
                yield sim.wait(max(ask.arrives - sim.now, 0.0))
                work = Checkpointed(allocator=allocator, ask=ask, every=self.every)
                sim.launch(work, name)

        return schedule


@process("crash")
class Crash:
    """Process that makes one machine fail and repairs it later.

    Parameters
    ----------
    node : str
        Name of the machine.
    at : Seconds
        Time of the failure.
    repair : Seconds
        Time from the failure to the repair.
    """

    def __init__(self, *, node: str, at: Seconds, repair: Seconds):
        self.node, self.at, self.repair = node, at, repair

    def __call__(self, sim):
        """Wait, fail the machine, wait for the repair time, restore it."""
        yield sim.wait(self.at)
        sim.fail(self.node)
        yield sim.wait(self.repair)
        sim.restore(self.node)
