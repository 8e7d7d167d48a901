"""Example of a stateful network function on a pool of SmartNIC cores, in machines without GPUs.

A packet belongs to a flow, and a core needs the state of the flow to process it. Each core caches
states in its local memory, a store; a state that is not there is fetched, which costs time. With
``hash`` all packets of a flow go to one core. With ``shortest`` a packet goes to the core with the
fewest packets, so states move between the cores. The queues of the cores are bounded in the
scenario, which says whether a packet is dropped or goes to the host.
"""

from typing import Literal

import foretrace as ft
import numpy as np
from foretrace.sim.units import Bytes, Seconds


class Cores:
    """Cores, the memory of each, and the number of its packets."""

    def __init__(self, sim, balance: str):
        self.sim, self.balance, on = sim, balance, sim.job.on
        self.memories = [sim.store(name) for name in on["memory"]]
        self.packets, self.home = [0] * len(on["cores"]), {}
        if len(self.memories) != len(self.packets):
            raise ft.ScenarioError(
                f"workload: {len(self.packets)} cores have {len(self.memories)} memories; "
                "give as many memories as cores"
            )

    def choose(self, flow: int) -> int:
        if self.balance == "hash":
            return flow % len(self.packets)
        return self.packets.index(min(self.packets))

    def has_state(self, flow: int, core: int) -> bool:
        """True if the core has the state of the flow; otherwise it gets the only copy."""
        before, memory = self.home.get(flow, core), self.memories[core]
        if before != core and flow in self.memories[before]:
            self.memories[before].drop(flow)
        known = before == core and flow in memory
        self.home[flow] = core
        memory.hold(flow, size=1)
        memory.release(flow)  # it stays cached
        return known


@ft.workload("stateful-nf")
class StatefulNf(ft.Workload):
    """Packets of several flows, which arrive at random times.

    Parameters
    ----------
    balance : how a packet finds its core
    packets, flows, rate : numbers of packets and flows, and packets per second
    skew : exponent of Zipf's law, by which flows have packets; 0 for equal flows
    bytes, state : bytes that a core handles for a packet, and more if it must fetch the state
    given, every : flow of each packet, in place of random ones, and the time between two packets
    """

    metrics = (
        ft.Metric("latency", "s", "From the arrival of a packet to its end.", better="lower"),
        ft.Metric("processed", "1", "Packets that were not dropped.", (), "higher"),
        ft.Metric("fetched", "1", "Packets whose state was not at their core.", (), "lower"),
    )
    headline = "latency.p99"
    needs = ft.Needs({"cores": ft.Need("nf"), "memory": ft.Need("store")})

    def __init__(
        self,
        *,
        balance: Literal["hash", "shortest"] = "hash",
        packets: int = 5000,
        flows: int = 200,
        rate: float = 4e6,
        skew: float = 0.8,
        bytes: Bytes = 256,
        state: Bytes = 512,
        given: list[int] = (),
        every: Seconds = 1e-6,
    ):
        self.balance, self.packets, self.flows = balance, packets, flows
        self.rate, self.skew, self.bytes, self.state = rate, skew, bytes, state
        self.given, self.every = given, every

    def draw(self, random):
        """Time in s before each packet, and its flow."""
        if self.given:
            return [0.0] + [self.every] * (len(self.given) - 1), self.given
        share = np.arange(1, self.flows + 1.0) ** -self.skew
        flows = random.choice(self.flows, self.packets, p=share / share.sum())
        return random.exponential(1 / self.rate, self.packets).tolist(), flows.tolist()

    def start(self, job):
        gaps, flows = self.draw(job.random("packets"))

        def arrivals(sim):
            build, names = ft.Builder("packet"), sim.job.on["cores"]
            build.op(ft.Kind.COMPUTE, bytes=self.bytes, signature="compute:packet")
            ways = [ft.Way([name]) for name in names]
            packet, cores = (
                sim.prepare(build.graph(), [names[0]], ways=ways),
                Cores(sim, self.balance),
            )

            def process(flow):
                core, arrived = cores.choose(flow), sim.now
                known = cores.has_state(flow, core)
                cores.packets[core] += 1
                sim.count("fetched", not known)
                work = {0: self.bytes + (0 if known else self.state)}
                outcome = yield sim.ended(sim.submit(packet, bytes=work, way=core).first)
                cores.packets[core] -= 1
                if outcome != "dropped":
                    sim.count("processed")
                    sim.emit("latency", sim.now - arrived)

            for gap, flow in zip(gaps, flows, strict=True):
                yield sim.wait(gap)
                sim.start([lambda sim, flow=flow: process(flow)])

        return arrivals
