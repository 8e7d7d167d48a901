"""CPU time of a compiled process that sprays chunks over 256 ways, next to a generator.

The machine and the policy are those of ``docs/examples/plugins/spraying.py``: each chunk takes the
less used of two random paths. Both draw the same paths, so both runs have the same makespan.

Usage: python -m foretrace.benchmarks.policy_ways [CHUNKS]
"""

import sys
from pathlib import Path
from typing import NamedTuple

import foretrace as ft
import numpy as np
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.custom_graph import CustomGraph
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from foretrace.sim.kernel import policy
from foretrace.sim.kernel.jit import jit
from foretrace.sim.run.policies.compiled_process import GraphOnWays

from ._measure import report, side_by_side

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
BY_GENERATOR = 10_000  # chunks of the generator, which takes ten times as long
ROUNDS = 3
WAYS, WINDOW, CHUNK = 256, 256, 16e3  # ways; chunks in flight; bytes of a chunk
NET = Path(__file__).parents[1] / "docs" / "examples" / "plugins" / "spraying_net.yaml"
RATE = 100e9  # B/s of a NIC


class Flow(NamedTuple):
    """State: chunks left and the last random number; chunks per way; way and start per sender."""

    numbers: np.ndarray
    in_flight: np.ndarray
    way: np.ndarray
    began: np.ndarray


def draw(numbers):
    """The less significant bits of this generator repeat soon, so they are dropped."""
    numbers[1] = (numbers[1] * 1103515245 + 12345) & 0x7FFFFFFF
    return (numbers[1] >> 12) % WAYS


_draw = jit(draw)


@ft.policy_kernel
def sprays(state, event, turn):
    """Send the next chunk on the less used of two ways, for each chunk that has ended."""
    if event[policy.KIND] == policy.ENDED:
        sender = event[policy.TAG]
        state.in_flight[state.way[sender]] -= 1
        policy.emit(turn, 1, (event[policy.NOW] - state.began[sender]) * 1e-12)
    first = event[policy.TAG] if event[policy.KIND] == policy.ENDED else 0
    last = first + 1 if event[policy.KIND] == policy.ENDED else len(state.way)
    for sender in range(first, last):
        state.numbers[0] -= 1
        if state.numbers[0] < 0:
            break
        one, other = _draw(state.numbers), _draw(state.numbers)
        way = other if state.in_flight[other] < state.in_flight[one] else one
        policy.emit(turn, 0, state.in_flight[way])
        state.in_flight[way] += 1
        state.way[sender], state.began[sender] = way, event[policy.NOW]
        policy.submit(turn, 0, sender)
        policy.with_way(turn, way)
    return policy.DONE if state.numbers[0] == -len(state.way) else policy.GO_ON


def chunk():
    """One send from the first to the last rank."""
    build = ft.Builder("chunk")
    build.op(ft.Kind.SEND, rank=0, peer=1, bytes=CHUNK, signature="send:chunk")
    return build.graph()


def compiled(ends, count):
    """The kernel, for a number of chunks."""
    ways = [ft.Way(routes={ends: i}) for i in range(WAYS)]
    zeros = np.zeros((3, WAYS), np.int64)
    return ft.CompiledProcess(
        sprays,
        Flow(np.array([count, 1], np.int64), *zeros),
        graphs={"chunk": GraphOnWays(chunk(), ways, ends)},
        metrics=["queue", "chunk_time"],
        actions=4 * WINDOW,
    )


def by_generator(ends, count):
    """The same as generators, one for each chunk in flight."""
    ways = [ft.Way(routes={ends: i}) for i in range(WAYS)]

    def flow(sim):
        prepared, numbers = sim.prepare(chunk(), ends, ways=ways), [count, 1]
        in_flight = [0] * WAYS

        def send(sim):
            while numbers[0] > 0:
                numbers[0] -= 1
                began = sim.now
                one, other = draw(numbers), draw(numbers)
                way = other if in_flight[other] < in_flight[one] else one
                sim.emit("queue", in_flight[way])
                in_flight[way] += 1
                yield sim.submit(prepared, way=way).done
                in_flight[way] -= 1
                sim.emit("chunk_time", sim.now - began)

        yield sim.env.all_of(sim.start([send] * WINDOW))

    return flow


def main():
    nic = Nic(bandwidth=RATE, latency=500e-9, header=0.0)
    fabric = FabricSpec(
        Switch(bandwidth=RATE, latency=300e-9, ports=512), CustomGraph(file=NET, routing="spray")
    )
    system = cluster(2, NodeSpec(gpus=1, nics=1, nic=nic), fabric)
    ends = system.gpus[0], system.gpus[-1]
    simulate = ft.Simulation(system, {"fabric": Fabric()}).run

    def run(process):
        return lambda: simulate(None, process, keep="ranks")

    makespans = {run(make(ends, 3000))().makespan for make in (compiled, by_generator)}
    assert len(makespans) == 1, makespans
    works = {
        "few": run(compiled(ends, 10_000)),
        "many": run(compiled(ends, 10_000 + COUNT)),
        "few_of_generator": run(by_generator(ends, 3000)),
        "generator": run(by_generator(ends, 3000 + BY_GENERATOR)),
    }
    spent = side_by_side(ROUNDS, **works)
    us = (spent["many"] - spent["few"]) / COUNT * 1e6
    by = (spent["generator"] - spent["few_of_generator"]) / BY_GENERATOR * 1e6
    report(
        "policy_ways",
        {"chunks in a CPU second": (1e6 / us, ">=", 1e5)},
        chunks=COUNT,
        chunk_us=us,
        start_s=spent["few"],
        generator_us=by,
    )


if __name__ == "__main__":
    main()
