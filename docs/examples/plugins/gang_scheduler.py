"""Example of a gang scheduler: a job gets all its GPUs at once; others may overtake it or not.

A job needs a number of GPUs at the same time. If the first job of the queue does not fit, ``fifo``
lets all others wait. With ``backfill``, a later job may start if it does not delay the first one:
it ends before the first can start, or leaves enough GPUs for it (Lifka 1995,
doi:10.1007/3-540-60153-8_35, known as EASY).
"""

from collections import deque
from typing import Literal, NamedTuple

import foretrace as ft
from foretrace.sim.units import Seconds


class Gang(NamedTuple):
    """One job: its GPUs, how long it runs, and when it arrives."""

    gpus: int
    seconds: Seconds
    arrives: Seconds = 0.0


class Cluster:
    """GPUs, the queue in front of them, and the jobs that run, by their end."""

    def __init__(self, sim, backfill: bool):
        self.sim, self.backfill = sim, backfill
        self.gpus = ft.Allocator(sim, sim.job.on["gpu"])
        self.queue, self.running = deque(), []

    def arrive(self, gang: Gang) -> None:
        self.queue.append(gang)
        self.schedule()

    def schedule(self) -> None:
        """Start all jobs that may start now."""
        while self.queue and self.queue[0].gpus <= len(self.gpus.free):
            self.launch(self.queue.popleft())
        if self.queue and self.backfill:
            self.fill()

    def fill(self) -> None:
        """Start jobs behind the first one, where they do not delay it."""
        ends, spare = self.reservation(self.queue[0].gpus)
        for gang in list(self.queue)[1:]:
            short = self.sim.now + gang.seconds <= ends
            if gang.gpus <= (len(self.gpus.free) if short else min(spare, len(self.gpus.free))):
                spare -= 0 if short else gang.gpus
                self.queue.remove(gang)
                self.launch(gang)

    def reservation(self, gpus: int) -> tuple[float, int]:
        """Time at which this many GPUs will be free, and how many more are free then."""
        free = len(self.gpus.free)
        for ends, more in sorted(self.running):
            free += more
            if free >= gpus:
                return ends, free - gpus
        return float("inf"), 0  # only when GPUs have failed

    def launch(self, gang: Gang) -> None:
        granted = self.gpus.request(gang.gpus)  # at once, for so many are free
        entry = self.sim.now + gang.seconds, gang.gpus
        self.running.append(entry)
        self.sim.start([lambda sim: self.run(sim, gang, granted, entry)])

    def run(self, sim, gang: Gang, granted, entry):
        """Process of a running job."""
        mine = yield granted
        sim.emit("queueing", sim.now - gang.arrives)
        build = ft.Builder("gang")
        for rank in range(gang.gpus):
            build.op(ft.Kind.COMPUTE, rank=rank, duration=gang.seconds, signature="compute:job")
        yield sim.submit(ft.place(build.graph(), sim.system, mine)).done
        sim.emit("completion", sim.now - gang.arrives)
        self.gpus.put(mine)
        self.running.remove(entry)
        self.schedule()


@ft.workload("gangs")
class Gangs(ft.Workload):
    """Jobs that need GPUs at the same time.

    Parameters
    ----------
    order : order in which jobs start
    jobs, rate : number of random jobs, and how many arrive per second
    sizes, mean : numbers of GPUs, each as likely, and the mean duration of a random job in s
    given : list of :class:`Gang`, in place of random jobs
    """

    metrics = (
        ft.Metric("queueing", "s", "From the arrival of a job to its start.", better="lower"),
        ft.Metric("completion", "s", "From the arrival of a job to its end.", better="lower"),
    )
    headline = "queueing.mean"

    def __init__(
        self,
        *,
        order: Literal["fifo", "backfill"] = "fifo",
        jobs: int = 1000,
        rate: float = 0.01,
        sizes: list[int] = (1, 2, 4, 8, 16, 32, 64),
        mean: Seconds = 600.0,
        given: list[Gang] = (),
    ):
        self.order, self.jobs, self.rate, self.given = order, jobs, rate, given
        self.sizes, self.mean = sizes, mean

    def start(self, job):
        gangs = sorted(self.given or self.draw(job.random("gangs")), key=lambda g: g.arrives)

        def arrivals(sim):
            cluster = Cluster(sim, self.order == "backfill")
            for gang in gangs:
                yield sim.wait(gang.arrives - sim.now)
                cluster.arrive(gang)

        return arrivals

    def draw(self, random) -> list[Gang]:
        """Poisson arrivals and exponential durations, in whole milliseconds."""
        at = random.exponential(1 / self.rate, self.jobs).cumsum().round(3).tolist()
        seconds = random.exponential(self.mean, self.jobs).round(3).clip(1e-3).tolist()
        return list(map(Gang, random.choice(self.sizes, self.jobs).tolist(), seconds, at))
