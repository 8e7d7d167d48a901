"""Cost of collectives of 1,024 to 65,536 GPUs on a three-tier fat-tree: time, memory, growth.

Usage: python -m foretrace.benchmarks.network.collectives_at_scale [GPUs ...]

Each case runs in its own process, so that its memory can be measured from building the machine to
the end of the run; the engine is compiled before. A ring is one activity on all its links
(coupled). Chains in machines with trees between them are expanded to sends. An all-to-all is
sprayed over all routes. For mixture of experts, token counts follow Zipf's law (the k-th expert
gets 1/k of the first): an unequal all-to-all, sprayed and hashed. Each case runs again with the
busiest link between switches 10 % slower.
"""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
from foretrace.models.network.collective.algorithms import ALGORITHMS
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.collective.expand import expand
from foretrace.models.network.collective.load import compute_load
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.leaf_spine import FatTree
from foretrace.models.network.topology.topology import FabricSpec, cluster
from foretrace.sim.facts.graph import Builder, Graph, Member
from foretrace.sim.facts.splits import all_to_all_name, parse_collective_name
from foretrace.sim.facts.system import System
from foretrace.sim.run.simulation import Simulation

from .._measure import cpu, growth_exponent, peak_memory, report
from ..engine._engine import Durations
from .topologies import NODE

SIZE = 1e9
# case: collective, algorithm, routing, most GPUs.  Pairs of unequal parts are too many beyond that:
# those sizes are told as not run.
CASES = {
    "ring, coupled": ("all-reduce", "ring", "ecmp", 65_536),
    "chains and trees, expanded": ("all-reduce", "chain-tree", "ecmp", 65_536),
    "all-to-all, sprayed": ("all-to-all", "grouped", "spray", 65_536),
    "experts, sprayed": ("all-to-all", "grouped", "spray", 1_024),
    "experts, hashed": ("all-to-all", "grouped", "ecmp", 1_024),
}
TOKENS = 1e5
"""That the first of the experts gets of each member, where the last gets some."""


def machine(gpus: int, routing: str, slower: int | None = None) -> System:
    """Machines of 8 GPUs below a three-tier fat-tree; component ``slower`` has 0.9 of its rate."""
    switch = Switch(bandwidth=50e9, latency=5e-7, ports=64)
    system = cluster(gpus // 8, NODE, FabricSpec(switch, FatTree(routing=routing, tiers=3)))
    if slower is None:
        return system
    parts = list(system.components)
    parts[slower] = replace(parts[slower], rate=0.9 * (parts[slower].rate or 0.0))
    return replace(system, components=tuple(parts))


def collective_name(case: str, gpus: int) -> str:
    """Name of a case's collective, including split sizes if these are unequal."""
    if not case.startswith("experts"):
        return CASES[case][0]
    rank = np.random.default_rng(1).permutation(gpus) + 1
    return all_to_all_name(receive=np.rint(TOKENS / rank).astype(int).tolist())


def busiest_uplink(case: str, gpus: int) -> int:
    """Link between switches that carries the most data in a case."""
    collective, algorithm, routing, _ = CASES[case]
    system, splits = (
        machine(gpus, routing),
        parse_collective_name(collective_name(case, gpus), gpus).splits,
    )
    laid = ALGORITHMS[collective][algorithm].split(splits)
    parts = compute_load(laid, system.numbers, system).parts
    within = [bool(system.components[c].node) for c in parts.component]
    return int(parts.component[np.argmax(np.where(within, 0.0, parts.share / parts.rate))])


def graph(gpus: int, collective: str) -> Graph:
    build = Builder(collective)
    members = [Member(rank) for rank in range(gpus)]
    build.collective(members, bytes=SIZE, signature=f"collective:{collective}")
    return build.graph()


def run(case: str, gpus: int, slower: int | None = None) -> float:
    """Run a case; returns its makespan in s."""
    _, algorithm, routing, _ = CASES[case]
    system, whole = machine(gpus, routing, slower), graph(gpus, collective_name(case, gpus))
    if "expanded" in case:
        whole = expand(whole, algorithm, [f"node{rank // 8}" for rank in range(gpus)])
    fabric = Fabric(algorithms="" if "expanded" in case else algorithm)
    return Simulation(system, {"*": Durations(), system.fabric: fabric}).run(whole).makespan


def print_case(case: str, gpus: int, slow: bool) -> None:
    """Run one case, and print its cost."""
    run(case, 64)  # compile
    slower, found = busiest_uplink(case, gpus) if slow else None, {}
    seconds = cpu(lambda: found.update(makespan=run(case, gpus, slower)))
    print(json.dumps({"seconds": seconds, "GiB": peak_memory() / 2**30, **found}))


def run_in_own_process(case: str, gpus: int, slow: bool) -> dict[str, float]:
    """Run one case in its own process; returns its cost."""
    command = [sys.executable, "-m", __spec__.name, "--one", case, str(gpus), str(int(slow))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(case, gpus, "one link slower" if slow else "", told, flush=True)
    return told


def main(*sizes: int) -> None:
    goals: dict[str, tuple[float, str, float]] = {}
    facts: dict[str, object] = {}
    for case, (collective, *_, most) in CASES.items():
        tried = [n for n in sizes or (1_024, 8_192, 65_536) if n <= most]
        told = [run_in_own_process(case, n, slow=False) for n in tried]
        slower = [run_in_own_process(case, n, slow=True) for n in tried]
        facts[case] = {"GPUs": tried, "equal": told, "one link slower": slower}
        if len(tried) > 1:
            facts[f"{case}: exponent"] = growth_exponent(tried, [t["seconds"] for t in told])
        if collective == "all-reduce" and tried[-1:] == [65_536]:
            for name, last in (("", told[-1]), (", one link slower", slower[-1])):
                goals[f"CPU s, 65,536 GPUs, {case}{name}"] = (last["seconds"], "<=", 10)
                goals[f"GiB, 65,536 GPUs, {case}{name}"] = (last["GiB"], "<=", 8)
    report("collectives_at_scale", goals, **facts)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print_case(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1")
    else:
        main(*map(int, sys.argv[1:]))
