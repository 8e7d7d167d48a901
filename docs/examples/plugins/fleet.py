"""A cluster's jobs: a scheduler, checkpoints, and what a machine that fails costs each of them.

Two workloads.  ``fleet`` launches its jobs as they arrive and owns the GPUs; a job of it is a
``Checkpointed`` training, which asks for GPUs, works step by step, saves every few steps, and after
a failure asks again and starts from what it saved.  The completion time of a job is the makespan
of its result: from its arrival to its last end, waiting for GPUs included.
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
    """What one job of the fleet asks for."""

    gpus: int
    steps: int
    arrives: Seconds = 0.0


class Checkpointed(Workload):
    """Training that saves its state, on whatever GPUs it is given.

    Parameters
    ----------
    allocator : Allocator
        Who hands out GPUs.
    ask : Ask
        How many GPUs and steps.
    every : steps from one checkpoint to the next
    save, load : s that a checkpoint, and a restart from one, take
    flop, bytes : of a step on each GPU, and of its all-reduce
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
        """Compute on every GPU, then an all-reduce."""
        build, ranks = Builder("step"), range(self.ask.gpus)
        layers = {"flop": self.flop, "bytes": 0.0, "signature": "compute:layers bf16[]"}
        work = [build.op(Kind.COMPUTE, rank=r, **layers) for r in ranks]
        members = [Member(r, 1, (work[r],)) for r in ranks]
        text = f"collective:all-reduce fp32[{int(self.bytes) // 4}]"
        build.collective(members, bytes=self.bytes, signature=text)
        return build.graph()

    def start(self, job):
        """Until every step is done: get GPUs, go on from the last checkpoint, give them back."""
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
    """Jobs that share GPUs, first come first served.

    Parameters
    ----------
    jobs : mapping of Ask by name
    every : steps from one checkpoint to the next
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
    """A machine that fails, and is repaired.

    Parameters
    ----------
    node : str
        Its name.
    at : Seconds
        When it fails.
    repair : Seconds
        How long it is out of order.
    """

    def __init__(self, *, node: str, at: Seconds, repair: Seconds):
        self.node, self.at, self.repair = node, at, repair

    def __call__(self, sim):
        """Fail it, then restore it."""
        yield sim.wait(self.at)
        sim.fail(self.node)
        yield sim.wait(self.repair)
        sim.restore(self.node)
