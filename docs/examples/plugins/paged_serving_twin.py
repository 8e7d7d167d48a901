"""The scheduler of `paged_serving.py` as plain generators, which define what its kernel means."""

from collections import deque
from types import SimpleNamespace as Request

import foretrace as ft
from paged_serving import BLOCK, BUDGET, OUTPUT, PROMPT, PagedServing, step


class Scheduler:
    """Requests that wait, those that run, and blocks that neither the cache nor they have."""

    def __init__(self, sim, cache: str, step, size: int):
        self.sim, self.cache, self.step, self.size = sim, cache, sim.prepare(step), size
        self.waiting, self.running, self.spare = deque(), [], 0

    def fits(self, one) -> bool:
        lacks = one.tokens // BLOCK + 1 - one.blocks
        more = max(lacks - self.spare, 0)
        if more and not self.sim.take(self.cache, more):
            return False
        self.spare += more - lacks
        one.blocks += lacks
        return True

    def grow(self) -> list:
        """Requests that generate a token, for which the youngest may have to leave."""
        decoded = []
        while len(decoded) < len(self.running):
            if self.fits(self.running[len(decoded)]):
                decoded.append(self.running[len(decoded)])
            else:
                youngest = self.running.pop()
                self.waiting.appendleft(youngest)
                self.spare, youngest.blocks = self.spare + youngest.blocks, 0
                self.sim.count("preempted")
        return decoded

    def admit(self) -> int:
        """Tokens of the waiting requests that join the batch."""
        tokens = 0
        while self.waiting and len(self.running) < self.size:
            one = self.waiting[0]
            if (tokens and tokens + one.tokens > BUDGET) or not self.fits(one):
                break
            tokens += one.tokens
            self.running.append(self.waiting.popleft())
        return tokens

    def begin(self) -> None:
        decoded = self.grow()
        numbers = {"context": sum(one.tokens for one in decoded), "sequences": len(decoded)}
        numbers["tokens"] = self.admit()
        if self.running:
            done = self.sim.submit(self.step, at=numbers).done
            self.sim.start([lambda sim: self.work(done)])
        if self.spare:
            self.sim.release(self.cache, self.spare)
            settled = self.sim.settled()
            self.sim.start([lambda sim: self.after_release(settled)])
            self.spare = 0

    def after_release(self, settled):
        yield settled
        if not self.running:
            self.begin()

    def work(self, done):
        yield done
        now, second = self.sim.env.now, 10**12
        for one in list(self.running):
            one.made, one.tokens = one.made + 1, one.tokens + 1
            if one.made == 1:
                one.first = now
                self.sim.emit("ttft", (now - one.at) / second)
            if one.made == one.output:
                self.running.remove(one)
                self.spare += one.blocks
                if one.output > 1:
                    self.sim.emit("tpot", (now - one.first) / (one.output - 1) / second)
        self.begin()


class PagedServingTwin(PagedServing):
    def start(self, job):
        kernel, grid = super().start(job), ft.StepGrid(step, self.axes)  # of the same requests
        rows = kernel.state.request[:, [PROMPT, OUTPUT]].tolist()

        def arrivals(sim):
            scheduler = Scheduler(sim, job.on["kv"][0], grid, self.sequences)
            sim.count("preempted", 0)  # a total of 0 is a total, too
            for at, (prompt, output) in zip(kernel.arrivals.ticks(1e-12), rows, strict=True):
                yield sim.env.timeout(at - sim.env.now)
                one = Request(at=sim.env.now, tokens=prompt, output=output, made=0, blocks=0)
                scheduler.waiting.append(one)
                if not scheduler.running:
                    scheduler.begin()

        return arrivals
