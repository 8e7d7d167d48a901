"""Example of spraying: a flow is cut into chunks, and each takes the less used of two random paths.

With one choice, some paths get many chunks while others are idle; with two, the longest queue
shrinks from about log n to log log n chunks (Mitzenmacher 2001, doi:10.1109/71.963420). The sender
counts its own chunks in flight, as it knows no other queue.
"""

import foretrace as ft
from foretrace.sim.units import Bytes


@ft.workload("spraying")
class Spraying(ft.Workload):
    """One flow from the first to the last GPU of the pool.

    Parameters
    ----------
    flow, chunk : bytes of the flow, and of a chunk
    window : number of chunks in flight
    ways : number of paths that are used; they are the first ones of the machine
    choices : number of paths among which a chunk chooses; 1 for a random one
    """

    metrics = (
        ft.Metric("chunk_time", "s", "From the start of a chunk to its end.", better="lower"),
        ft.Metric("queue", "chunks", "Chunks on the path that a chunk chose.", better="lower"),
    )

    def __init__(
        self,
        *,
        flow: Bytes = 64e6,
        chunk: Bytes = 16e3,
        window: int = 256,
        ways: int = 256,
        choices: int = 2,
    ):
        self.flow, self.chunk, self.window = flow, chunk, window
        self.ways, self.choices = ways, min(choices, ways)

    def start(self, job):
        random, ends = job.random("paths"), (job.on["gpu"][0], job.on["gpu"][-1])
        build = ft.Builder("chunk")
        build.op(ft.Kind.SEND, rank=0, peer=1, bytes=self.chunk, signature="send:chunk")

        def flow(sim):
            ways = [ft.Way(routes={ends: i}) for i in range(self.ways)]
            chunk = sim.prepare(build.graph(), ends, ways=ways)
            in_flight, left = [0] * self.ways, round(self.flow / self.chunk)

            def send(sim):
                """Send one chunk after the other; the window is the number of such senders."""
                nonlocal left
                while left:
                    left -= 1
                    began = sim.now
                    found = random.choice(self.ways, self.choices, replace=False).tolist()
                    way = min(found, key=in_flight.__getitem__)
                    sim.emit("queue", in_flight[way])
                    in_flight[way] += 1
                    yield sim.submit(chunk, way=way).done
                    in_flight[way] -= 1
                    sim.emit("chunk_time", sim.now - began)

            yield sim.env.all_of(sim.start([send] * self.window))

        return flow
