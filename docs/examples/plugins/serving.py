"""Continuous batching with a limit of the KV cache: time to first token of a served model.

Requests wait until the cache has room for their prompt; every step prefills some of them and
decodes one token of each that is under way.  Who finds no room for its next token is preempted and
computed again (Kwon et al. 2023, doi:10.1145/3600006.3613165, section 4.5).  The cache is counted
here, by hand: no component holds it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from foretrace import Builder, Graph, Kind, Member, Metric, Need, Needs, Workload, workload
from foretrace.sim.units import Bytes

LAYERS, HIDDEN, KV_HIDDEN, WIDTH = 32, 4096, 1024, 2  # of an 8B model in bf16
PARAMETERS = 8e9
CHUNK = 2048  # prompt tokens that a step prefills, about
KV_TOKEN = 2 * LAYERS * KV_HIDDEN * WIDTH  # B of keys and values of a token


@dataclass
class Request:
    """One request, and how far it is."""

    at: float
    prompt: int
    output: int
    made: int = 0
    cached: int = 0
    first: float = 0.0

    def fits(self, now: float, free: int) -> bool:
        """Whether it is there, and the cache has room for its prompt and a token."""
        return self.at <= now and self.prompt < free


@workload("serving")
class Serving(Workload):
    """A model served on the GPUs of its pool.

    Parameters
    ----------
    requests : how many arrive
    rate : of their arrival, a second
    tensor : GPUs that hold the model together
    kv : B of the KV cache on each of them
    """

    metrics = (
        Metric("ttft", "s", "From the arrival of a request to its first token.", better="lower"),
        Metric("tpot", "s", "Time per token of a request after its first.", better="lower"),
    )
    headline = "ttft.p99"

    def __init__(self, *, requests: int = 200, rate: float = 8.0, tensor: int = 4, kv: Bytes = 8e9):
        self.requests, self.rate, self.tensor, self.kv = requests, rate, tensor, kv

    @property
    def needs(self) -> Needs:
        """As many GPUs as hold the model."""
        return Needs({"gpu": Need("gpu", self.tensor)})

    def arrivals(self, random: np.random.Generator) -> list[Request]:
        """Poisson arrivals, uniform lengths."""
        n, at = self.requests, np.cumsum(random.exponential(1 / self.rate, self.requests))
        lengths = random.integers(100, 2000, n).tolist(), random.integers(20, 300, n).tolist()
        return [Request(*r) for r in zip(at.tolist(), *lengths, strict=True)]

    def start(self, job):
        """The engine's loop: admit, preempt, compute a step, give out tokens."""
        waiting, running = self.arrivals(job.random("requests")), []
        free = int(self.kv // (KV_TOKEN / self.tensor))  # tokens
        if free < (most := max(r.prompt + r.output for r in waiting) + 1):
            raise ValueError(f"kv: has room for {free} tokens; the longest request takes {most}")

        def serve(sim):
            nonlocal free
            while waiting or running:
                if not running:
                    yield sim.wait(max(waiting[0].at - sim.now, 0.0))
                prefill = 0
                while prefill < CHUNK and waiting and waiting[0].fits(sim.now, free):
                    running.append(waiting.pop(0))
                    running[-1].cached = running[-1].prompt + 1
                    free, prefill = free - running[-1].cached, prefill + running[-1].prompt
                while len(decode := [r for r in running if r.made]) > free:
                    waiting.insert(0, running.pop())
                    free, waiting[0].cached, waiting[0].made = free + waiting[0].cached, 0, 0
                for r in decode:
                    r.cached, free = r.cached + 1, free - 1
                context = sum(r.cached for r in decode)
                yield sim.submit(self.step(prefill + len(decode), context)).done
                for r in list(running):
                    r.made += 1
                    if not r.first:
                        r.first = sim.now
                        sim.emit("ttft", sim.now - r.at)
                    if r.made == r.output:
                        sim.emit("tpot", (sim.now - r.first) / max(r.made - 1, 1))
                        free += r.cached
                        running.remove(r)

        return serve

    def step(self, tokens: int, context: int) -> Graph:
        """All layers on every GPU, then their all-reduces as one."""
        build, k = Builder("step"), self.tensor
        flop, moved = 2 * PARAMETERS * tokens / k, (PARAMETERS * WIDTH + context * KV_TOKEN) / k
        layers = {"flop": flop, "bytes": moved, "signature": "compute:layers bf16[]"}
        _ = [build.op(Kind.COMPUTE, rank=r, **layers) for r in range(k)]
        if k > 1:
            build.collective(
                [Member(r, 0, (r,)) for r in range(k)],  # after the rows of the layers
                bytes=tokens * HIDDEN * WIDTH * 2 * LAYERS,
                signature=f"collective:all-reduce bf16[{tokens * HIDDEN}]",
            )
        return build.graph()
