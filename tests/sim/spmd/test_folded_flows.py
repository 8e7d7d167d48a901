"""SPMD graphs with shared rates: a folded run has the same aggregates as a run of all ranks."""

from dataclasses import fields, replace

import numpy as np
import pytest
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.leaf_spine import FatTree
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from foretrace.sim.engine_api.interface import ONE
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.backend import Backend, Spread, Timing, Usage
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.place import place
from foretrace.sim.facts.spmd.spmd_graph import RankProgram, SpmdGraph
from foretrace.sim.facts.system import Component, System
from foretrace.sim.kernel.factorize import number_by_first_appearance
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.spmd.rank_quotient import fold_ranks_that_share
from foretrace.sim.spmd.shared_links import SharedLinks
from foretrace.sim.spmd.spmd_run import SpmdRun
from hypothesis import given
from hypothesis import strategies as st

from .test_templates import SEEDS, TICK, random_program, same_numbers

TB = 1e12  # B/s: one byte a tick


class Tree(Backend):
    """Backend whose transfers use the members' NICs, the uplinks of their machines, and one core.

    Parameters
    ----------
    first : index of the first NIC; uplinks and the core follow
    ranks, width : number of ranks, and of ranks per machine
    weight : weight on NICs and uplinks
    slower : factor for the duration of ops without work
    """

    uniform = True
    source = "tree"

    def __init__(self, first, ranks, width, weight=1.0, limit=np.inf, slower=1, spread=None):
        self.first, self.ranks, self.width, self.weight = first, ranks, width, weight
        self.limit, self.slower, self.spread = limit, slower, spread

    def timing(self, ops, now=0.0):
        size = np.nan_to_num(ops.bytes) * np.isin(ops.kind, (Kind.SEND, Kind.COLLECTIVE))
        own = np.nan_to_num(ops.bytes) * ((ops.kind == Kind.COMPUTE) & (ops.bytes % 5 == 1))
        uses = [self.uses(ops, i) for i in range(len(ops))]
        fixed = np.nan_to_num(ops.duration) * self.slower
        limit = np.where(size % 3 == 1, self.limit, np.inf)
        return Timing.of(fixed, size + own, Usage.of(uses), limit, spread=self.spread)

    def uses(self, ops, i):
        if ops.kind[i] == Kind.COMPUTE:
            return {self.first + int(ops.rank[i]): self.weight}
        members = ops.at.members[i].tolist()  # GPUs are the first components
        nodes = {m // self.width for m in members}
        found = {self.first + m: self.weight for m in members}
        if len(nodes) > 1:
            found |= {self.first + self.ranks + k: self.weight for k in nodes}
            found[self.first + self.ranks + self.ranks // self.width] = 1.0
        return found


def machine(rng, nodes, width, slow_link=False, slow_rank=False, **how) -> Simulation:
    """Machines of ``width`` GPUs and NICs below one core; one link or rank may be slower."""
    ranks = nodes * width
    nic, up, core = rng.choice([1, 2, 3, 6], 3).tolist()
    rates = np.array([nic] * ranks + [up] * nodes + [core * nodes], float)
    if slow_link:
        rates[rng.integers(0, len(rates))] *= 0.5
    gpus = [Component(f"gpu{r}", "gpu") for r in range(ranks)]
    links = [Component(f"link{k}", "link", rate=TB * r) for k, r in enumerate(rates.tolist())]
    system = System(
        (*gpus, Component("net", "fabric"), *links), tuple(g.name for g in gpus), fabric="net"
    )
    how |= {"weight": float(rng.choice([1, 1, 0.5, 3])), "limit": float(rng.choice([0.5, 2]) * TB)}
    tree = Tree(ranks + 1, ranks, width, **how)
    backends = {"gpu*": tree, "net": tree}
    if slow_rank:
        slow = Tree(ranks + 1, ranks, width, slower=3, **how)
        backends[f"gpu{int(rng.integers(0, ranks))}"] = slow
    return Simulation(system, backends, seed=3)


def random_step(rng, nodes: int, width: int) -> Graph:
    """Random step: collectives within and across machines, and messages around a ring."""
    r = np.arange(nodes * width)
    groups = np.array([r // width, r % width], np.int32)
    around = int(rng.choice([1, width]))  # to the next rank, or the same rank of the next machine
    peers = np.array([np.roll(r, -around)], np.int32)
    calls, kinds = rng.integers(0, 3, 2).tolist(), int(rng.choice([1, 1, width]))
    letters = str(rng.choice(["", "sr", "ssrr"]))
    programs = []
    for _ in range(kinds):
        made = random_program(rng, int(rng.integers(1, 3)), [0, 1], calls, letters)
        size = rng.choice([0, 1, 2, 3, 6, 12, 1_000_003], len(made)).astype(float)
        own = made.ops.kind
        own = np.where(np.isin(own, (Kind.HOST, Kind.COPY)), int(Kind.COMPUTE), own)
        programs.append(replace(made, ops=made.ops.replace(kind=own.astype(np.uint8), bytes=size)))
    program = (r % width % kinds).astype(np.int32)
    return Graph("t", (SpmdGraph(tuple(programs), program, groups, peers),))


def whole_and_folded(simulation: Simulation, graph: Graph) -> tuple[SpmdRun, SpmdRun]:
    """Run of all ranks, and run of one rank per class."""
    folded = SpmdRun.of(simulation, place(graph, simulation.system), graph.template, None)
    return replace(folded, folded=None), folded


def kept_or_error(run: SpmdRun):
    try:
        return run.aggregates("ranks")
    except SimulationError as error:
        return error.kind


def equal_in_every_kept_number(simulation: Simulation, graph: Graph) -> SpmdRun:
    """Compare the folded run with the run of all ranks; returns the folded run."""
    whole, folded = whole_and_folded(simulation, graph)
    want, found = kept_or_error(whole), kept_or_error(folded)
    if isinstance(want, str):
        assert found == want
        return folded
    for field in fields(want):
        a, b = getattr(want, field.name), getattr(found, field.name)
        np.testing.assert_array_equal(a, b, err_msg=field.name)
    return folded


def check(seed: int, slow_link: bool, slow_rank: bool, nodes: int = 5, width: int = 3) -> SpmdRun:
    """Check a random step on at most ``nodes`` machines of ``width`` ranks: the folded run."""
    rng = np.random.default_rng(seed)
    nodes, width = int(rng.integers(1, nodes + 1)), int(rng.integers(1, width + 1))
    simulation = machine(rng, nodes, width, slow_link, slow_rank)
    return equal_in_every_kept_number(simulation, random_step(rng, nodes, width))


@given(SEEDS, st.booleans(), st.booleans())
def test_one_rank_of_each_class_has_every_kept_number_of_all(seed, slow_link, slow_rank):
    check(seed, slow_link, slow_rank)


@pytest.mark.nightly
def test_one_rank_of_each_class_has_every_kept_number_of_all_on_larger_machines():
    for seed in range(5000):
        check(seed, seed % 3 == 1, seed % 3 == 2, nodes=16, width=5)


def test_most_random_steps_on_even_links_are_folded():
    runs = [check(seed, slow_link=False, slow_rank=False) for seed in range(30)]
    sharing = [run for run in runs if run.shares_rates and run.classes.template.ranks > 2]
    folded = [run for run in sharing if run.folded is not None]
    assert len(folded) > len(sharing) * 2 // 3 > 12


def exchange(ranks: int, width: int, sends: int = 1) -> Graph:
    """Graph: each rank computes, sends to its peer on the next machine, and meets its machine."""
    kinds = [Kind.COMPUTE, *[Kind.SEND, Kind.RECV] * sends, Kind.COLLECTIVE]
    joint = [-1, *[0, 0] * sends, 0]
    ops = Ops.of(kind=kinds, duration=3 * TICK, bytes=[0, *[12, 0] * sends, 4])
    r = np.arange(ranks)
    peers, groups = np.roll(r, -width)[None].astype(np.int32), (r // width)[None].astype(np.int32)
    program = RankProgram.chain(ops, joint)
    return Graph("t", (SpmdGraph((program,), np.zeros(ranks, np.int32), groups, peers),))


def plain(nodes: int, width: int, slow_link: int | None = None, **how) -> Simulation:
    """Simulation whose links have equal rates, except an optional slower one."""
    ranks = nodes * width
    rates = [TB] * ranks + [2 * TB] * nodes + [8 * TB * nodes]
    if slow_link is not None:
        rates[slow_link] *= 0.5
    gpus = tuple(Component(f"gpu{r}", "gpu") for r in range(ranks))
    links = tuple(Component(f"link{k}", "link", rate=r) for k, r in enumerate(rates))
    system = System(
        (*gpus, Component("net", "fabric"), *links), tuple(g.name for g in gpus), fabric="net"
    )
    return Simulation(system, {"*": Tree(ranks + 1, ranks, width, **how)})


def test_all_ranks_of_an_even_fabric_are_one():
    """Four sends into each machine's uplink of rate 2, and four out of it: 12 bytes take 48 ticks.

    Each of the four ops takes 3 ticks before its bytes.
    """
    run = equal_in_every_kept_number(plain(16, 4), exchange(64, 4))
    assert run.template.ranks == 1
    assert run.aggregates("ranks").end.tolist() == [[4 * 3 + 48 + 4] * 64]
    flows = run.folded.flows.flows
    assert len(flows) == 2
    assert flows.weight.max() == 64 * ONE  # of one send for all on the core


def test_only_the_classes_that_a_slower_link_touches_split():
    """One machine's uplink has half the rate: its senders are late, and so are their receivers."""
    run = equal_in_every_kept_number(plain(16, 4, slow_link=64 + 5), exchange(64, 4))
    colours = run.folded.colour.reshape(16, 4)
    assert (colours == colours[:, :1]).all()  # a machine's ranks stay one
    late = run.aggregates("ranks").end[-1].reshape(16, 4)[:, 0]
    assert len(np.unique(late)) == 2
    assert late.argmax() in (4, 5)
    assert run.template.ranks < 64


def test_a_group_is_folded_although_one_member_leads_it():
    run = equal_in_every_kept_number(plain(2, 4), exchange(8, 4, sends=0))
    assert run.folded.colour.tolist() == [0] * 8


def test_draws_of_ops_that_share_rates_are_not_folded():
    spread = Spread(np.empty(0), np.linspace(0.9, 1.1, 8))
    simulation, graph = plain(4, 2, spread=spread), exchange(8, 2)
    placed = place(graph, simulation.system)
    assert SpmdRun.of(simulation, placed, graph.template, None).folded is not None
    assert SpmdRun.of(simulation, placed, graph.template, 0).folded is None


def test_a_class_whose_weight_overflows_is_not_folded():
    """Sixteen sends with weight 2^19 on one core: a single one would have weight 2^23."""
    simulation, graph = plain(16, 1), exchange(16, 1)
    whole, folded = whole_and_folded(simulation, graph)
    assert folded.folded is not None
    flows = whole.classes.rank_flows.flows
    heavy = replace(whole.classes.rank_flows, flows=replace(flows, weight=flows.weight << 19))
    assert fold_ranks_that_share(whole.classes.template, heavy, simulation.parts) is None


@pytest.mark.parametrize(("slow_link", "folds"), [(None, True), (3, False)])
def test_hash_collisions_of_colours_are_detected(slow_link, folds):
    """All ranks get the same colour, as after a hash collision."""
    simulation, graph = plain(4, 2, slow_link), exchange(8, 2)
    run = SpmdRun.of(simulation, place(graph, simulation.system), graph.template, None)
    even = SpmdRun.of(plain(4, 2), run.graph, graph.template, None).template
    links = SharedLinks.of(run.classes.template, run.classes.rank_flows, simulation.parts)
    link_colour = number_by_first_appearance(links.rate)[0]
    assert (links.fold(even, np.zeros(8, np.int64), link_colour) is not None) == folds


def test_a_folded_run_is_that_of_every_op_in_both_engines():
    simulation, graph = plain(4, 2, slow_link=3), exchange(8, 2, sends=2)
    found = simulation.run(graph, keep="ranks")
    same_numbers(simulation.run(graph, keep="ops"), found)
    same_numbers(replace(simulation, engine="reference").run(graph, keep="ops"), found)


NODE = NodeSpec(
    gpus=4, gpu_link=Link(bandwidth=450e9, latency=1e-6), nics=4,
    nic=Nic(bandwidth=50e9, latency=6e-7),
)  # fmt: skip
SWITCH = Switch(bandwidth=50e9, latency=5e-7, ports=16)


def fat_tree(nodes: int, routing: str, slower: str | None = None) -> Simulation:
    """Simulation of machines of four GPUs below leaf switches of two machines."""
    system = cluster(nodes, NODE, FabricSpec(SWITCH, FatTree(routing=routing, oversubscription=2)))
    parts = tuple(
        replace(c, rate=0.5 * c.rate) if c.name == slower else c for c in system.components
    )
    system = replace(system, components=parts)
    return Simulation(system, {"*": Tree(0, 1, 1), system.fabric: Fabric(algorithms="ring")})


def rings(nodes: int) -> Graph:
    """Graph: a ring in each machine, one across machines per local rank, and a message."""
    ops = Ops.of(
        kind=[Kind.DELAY, Kind.COLLECTIVE, Kind.SEND, Kind.RECV, Kind.COLLECTIVE],
        duration=[1e-5, 0, 0, 0, 0], bytes=[0, 1e7, 2e7, 0, 3e7],
        signature=[-1, 0, -1, -1, 0], signatures=("collective:all-reduce",),
    )  # fmt: skip
    r = np.arange(4 * nodes)
    groups = np.array([r // 4, r % 4], np.int32)
    program = RankProgram.chain(ops, [-1, 0, 0, 0, 1])
    peers = np.roll(r, -4)[None].astype(np.int32)
    return Graph("rings", (SpmdGraph((program,), np.zeros(len(r), np.int32), groups, peers),))


@pytest.mark.parametrize(
    ("routing", "slower", "classes"),
    [("pool", None, 2), ("spray", None, 2), ("pool", "leaf1.up", 8), ("ecmp", None, 32)],
)
def test_a_step_on_a_fat_tree_folds_ranks_with_equal_links(routing, slower, classes):
    """A leaf's two machines are equal; a slower uplink separates all eight, hashing all ranks."""
    simulation = fat_tree(8, routing, slower)
    assert slower is None or slower in {c.name for c in simulation.system.components}
    run = equal_in_every_kept_number(simulation, rings(8))
    assert run.template.ranks == classes
