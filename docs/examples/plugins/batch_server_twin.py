"""The batch server as plain generators, which define what the kernel of `batch_server.py` means."""

from collections import deque

import foretrace as ft


class BatchServerTwin(ft.Workload):
    needs = ft.Needs({"gpu": ft.Need("gpu", 1), "kv": ft.Need("kv", 1)})

    def __init__(self, *, tokens: list[int], every: float):
        self.tokens, self.every = tokens, every

    def start(self, job):
        build, (kv,) = ft.Builder("batch"), job.on["kv"]
        build.op(ft.Kind.COMPUTE, flop=1.0, bytes=0.0)

        def serve(sim):
            waiting, batch, over = deque(), [], sim.env.event()
            step, second, left = sim.prepare(build.graph()), 10**12, len(self.tokens)

            def form():
                while waiting and not working and sim.take(kv, waiting[0][1]):
                    batch.append(waiting.popleft())
                if batch and not working:
                    working.append(sim.submit(step, flop={0: float(sum(n for _, n in batch))}))
                    sim.env.process(work(working[0].done))

            def work(done):
                nonlocal left
                yield done
                for at, tokens in batch:
                    sim.emit("latency", (sim.env.now - at) / second, "s")
                    sim.release(kv, tokens)
                left -= len(batch)
                batch.clear()
                working.clear()
                if left:
                    yield sim.settled()
                    form()
                else:
                    over.succeed()

            working, start = [], sim.env.now
            for k, tokens in enumerate(self.tokens):
                yield sim.env.timeout(start + round(k * self.every * second) - sim.env.now)
                waiting.append((sim.env.now, tokens))
                form()
            yield over

        return serve
