"""Our own cost per op of a coupled run, without the device: calls, journal and rate sharing.

    python -m foretrace.benchmarks.hil.coupled_cost

CPU time of this process per op, the median of five runs; the device returns immediately. Then the
same through an agent, with one round trip of the protocol per op.
"""

import time

import numpy as np
from foretrace.hil.connection import connect_driver
from foretrace.hil.coupling.coupled import couple
from foretrace.hil.coupling.coverage import sample_coverage
from foretrace.hil.coupling.device_adapter import Swap
from foretrace.hil.coupling.journal import JournalWriter
from foretrace.hil.coupling.live_driver import LiveDriver
from foretrace.hil.driver import Driver
from foretrace.hil.sample import Request, Sample
from foretrace.models.compute.recorded import Recorded
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

OPS, RUNS = 2_000, 5


class Instant(Driver):
    """Driver that returns immediately."""

    name, ops = "instant", ("host:idle",)

    def __init__(self, sharing):
        self.sharing = sharing

    def timing(self, requests):
        return [Sample(r.signature, np.full(r.n, 1000.0), "wall") for r in requests]

    together = timing


def graph(chains):
    build = Builder("ops")
    for c in range(chains):
        last = ()
        for _ in range(OPS // chains):
            last = (build.op(Kind.COMPUTE, stream=c, signature="host:idle", after=last,
                             duration=1e-6),)  # fmt: skip
    return build.graph()


def machine(chains):
    return System((Component("node0.gpu0", "gpu", slots=chains),), ("node0.gpu0",))


def spent(run):
    found = []
    for _ in range(RUNS):
        begin = time.process_time()
        run()
        found.append((time.process_time() - begin) / OPS * 1e6)
    return np.median(found)


def coupled(sharing, engine, chains):
    system, work = machine(chains), graph(chains)
    asked = JournalWriter("node0.gpu0", LiveDriver(Instant(sharing), "instant"))
    swap = Swap("node0.gpu0", asked, sharing, sample_coverage(system, "node0.gpu0"), most=chains)
    made = couple(system, {"node0.gpu0": Recorded()}, [swap])
    simulation = Simulation(made.system, made.backends, engine=engine)
    return spent(lambda: simulation.run(work, *made.processes))


def modelled(engine, chains):
    simulation = Simulation(machine(chains), {"node0.gpu0": Recorded()}, engine=engine)
    work = graph(chains)
    return spent(lambda: simulation.run(work))


def main():
    for engine in ("core", "reference"):
        print(f"{engine:10s} model       {modelled(engine, 4):7.1f} us an op, four streams")
        for sharing in ("exclusive", "solo", "concurrent"):
            print(f"{engine:10s} {sharing:11s} {coupled(sharing, engine, 4):7.1f}")
    remote = connect_driver("host")
    remote.open({"clock": "wall"})
    ask = [Request("host:chase uint8[64]")]
    begin, inside = time.perf_counter(), 0.0
    for _ in range(50):
        inside += (
            sum(s.facts.get("inner", 1) * float(s.ns.sum()) for s in remote.timing(ask)) * 1e-9
        )
    told = (time.perf_counter() - begin) / 50 * 1e6
    print(f"agent: {told:.0f} us a question, of which {inside / 50 * 1e6:.0f} us are timed")
    remote.close()


if __name__ == "__main__":
    main()
