"""Example of a serving workload: continuous batching over a paged KV cache; time to first token.

A step prefills new requests for whose prompts the cache has room, and generates one token of every
running request. If there is no block left for a token, the youngest request releases its blocks and
is recomputed later (Kwon et al. 2023, doi:10.1145/3600006.3613165, 4.2 and 4.5). The engine keeps
account of the blocks that each request holds.
"""

from collections import deque
from dataclasses import dataclass

import foretrace as ft
from foretrace.models.parts import NodePart, part
from foretrace.sim.units import Bytes

LAYERS, HIDDEN, KV_HIDDEN, WIDTH, PARAMETERS = 32, 4096, 1024, 2, 8e9  # Llama 3 8B in bf16
BLOCK, TILE, CHUNK = 16, 64, 2048  # tokens of a block; of a kernel's tile; that fill a step
LAYER = "compute:layers like=product bf16[]"  # its time is that of matrix products, and its doubt
REDUCE = "collective:all-reduce bf16[]"
BLOCK_BYTES = BLOCK * 2 * LAYERS * KV_HIDDEN * WIDTH  # keys and values: 2 MiB


@part("kv")
class KvCache(NodePart):
    """KV cache shared by all GPUs of a machine and allocated in blocks; its setting is ``size``."""

    def __init__(self, *, size: Bytes):
        self.blocks = int(size // BLOCK_BYTES)

    def components(self, name: str):
        yield ft.Component(name, "kv", capacity=self.blocks, unit="block")


@dataclass
class Request:
    """State of one request: its tokens and the cache blocks that it holds."""

    number: int
    at: float
    prompt: int
    output: int
    made: int = 0
    blocks: int = 0
    first: float = 0.0

    def fits(self, sim, cache: str) -> bool:
        """Allocate blocks for the request's tokens and one more.

        False if the request has not arrived or the cache has no room.
        """
        lacks = -(-(self.prompt + self.made + 1) // BLOCK) - self.blocks
        if lacks and (self.at > sim.now or not sim.take(cache, lacks, owner=self.number)):
            return False
        self.blocks += lacks
        return True


@ft.workload("serving")
class Serving(ft.Workload):
    """Model on all GPUs of its pool; ``requests`` requests arrive, ``rate`` per second."""

    metrics = (
        ft.Metric("ttft", "s", "From the arrival of a request to its first token.", better="lower"),
        ft.Metric("tpot", "s", "Time per token of a request after its first.", better="lower"),
    )
    headline = "ttft.p99"
    needs = ft.Needs({"gpu": ft.Need("gpu"), "kv": ft.Need("kv", 1)})

    def __init__(self, *, requests: int, rate: float):
        self.requests, self.rate = requests, rate

    def start(self, job):
        """Process of the job: Poisson arrivals of random lengths, served step by step."""
        random, n, k, (cache,) = job.random("load"), self.requests, len(job.on["gpu"]), job.on["kv"]
        at = random.exponential(1 / self.rate, n).cumsum().round(6).tolist()  # s; us are ticks
        lengths = random.integers(100, 2000, n).tolist(), random.integers(20, 100, n).tolist()

        def serve(sim):
            step = sim.prepare(self.step(k))
            waiting, running = deque(map(Request, range(n), at, *lengths)), []
            while waiting or running:
                if not running:
                    yield sim.wait(max(waiting[0].at - sim.now, 0.0))
                tokens = 0
                while tokens < len(running):  # one of each
                    if running[tokens].fits(sim, cache):
                        tokens += 1
                    else:
                        waiting.appendleft(running.pop())
                        sim.release_all(waiting[0].number)
                        waiting[0].blocks = 0
                        yield sim.settled()  # what was given back can be taken after a turn
                while tokens < CHUNK and waiting and waiting[0].fits(sim, cache):
                    running.append(waiting.popleft())
                    tokens += running[-1].prompt + running[-1].made
                batch = self.numbers(k, tokens, sum(r.blocks for r in running))
                yield sim.submit(step, **batch).done
                for r in list(running):
                    r.made += 1
                    if r.made == 1:
                        r.first = sim.now
                        sim.emit("ttft", sim.now - r.at)
                    if r.made == r.output:
                        sim.emit("tpot", (sim.now - r.first) / (r.output - 1))
                        running.remove(r)
                        sim.release_all(r.number)
                        yield sim.settled()

        return serve

    def step(self, k: int) -> ft.Graph:
        """Graph of one step: all layers on every GPU, then one all-reduce; prepared once."""
        build, ranks, none = ft.Builder("step"), range(k), {"flop": 0.0, "bytes": 0.0}
        rows = [build.op(ft.Kind.COMPUTE, rank=r, signature=LAYER, **none) for r in ranks]
        build.collective([ft.Member(r, 0, (rows[r],)) for r in ranks], bytes=0.0, signature=REDUCE)
        return build.graph()

    def numbers(self, k: int, tokens: int, blocks: int) -> dict[str, list[float]]:
        """Work of a step's ops for a batch, rounded up to tiles so equal ones are timed once."""
        tokens, blocks = -(-tokens // TILE) * TILE, -(-blocks // TILE) * TILE
        flop, moved = 2 * PARAMETERS * tokens / k, (PARAMETERS * WIDTH + blocks * BLOCK_BYTES) / k
        reduced = 2.0 * LAYERS * tokens * HIDDEN * WIDTH
        return {"flop": [flop] * k + [0.0], "bytes": [moved] * k + [reduced]}
