"""Links that fail during a run: around them, or a wait until they are back, in both engines."""

import random
from dataclasses import replace

import pytest
from by_day import every, tonight
from foretrace.models.fleet.link_failure import LinkFailure
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.leaf_spine import FatTree
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.variants.variants import build_variant, build_variants
from foretrace.sim.errors import GraphError, SimulationError
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.run.simulation import Simulation

ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
ROUTINGS = ("ecmp", "spray", "pool")
IN_CI, NIGHTLY = 40, 2000


def machine(routing="ecmp", latency=0.0, seed=1):
    """Eight GPUs on four leaves of two uplinks each; all links of 1 GB/s."""
    switch = Switch(bandwidth=1e9, latency=latency, ports=4)
    nic = Nic(bandwidth=1e9, latency=latency, header=0.0)
    told = {} if routing == "pool" else {"routing": routing, "spines": 2, "seed": seed}
    return cluster(8, NodeSpec(gpus=1, nics=1, nic=nic), FabricSpec(switch, FatTree(**told)))


def simulation(system, engine):
    return Simulation(system, {"fabric": Fabric()}, engine=engine)


def one_send(size=1e9):
    build = Builder("one")
    build.op(Kind.SEND, rank=0, peer=7, bytes=size)
    return build.graph()


def used(system):
    """Uplink of leaf 0 that data from rank 0 to rank 7 take."""
    return system.components[system.route(system.numbers[0], system.numbers[7])[1]].name


def links_of(system, name):
    return [c.name for c in system.components if c.kind == "switch" and name in c.name.split(".")]


@ENGINES
@pytest.mark.parametrize("noticed", [0.0, 0.1])
def test_a_flow_goes_on_by_another_link_once_that_is_noticed(engine, noticed):
    system = machine()
    fault = LinkFailure(links=[used(system)], at=0.25, noticed_after=noticed)
    result = simulation(system, engine).run(one_send(), fault)
    assert result.makespan == pytest.approx(1.0 + noticed, abs=1e-11)


@ENGINES
def test_traffic_without_another_route_waits_for_the_link(engine):
    system = machine()
    for links in (["leaf0.spine*"], ["node0.nic0.tx"], ["*.node7.nic0"]):
        fault = LinkFailure(links=links, at=0.25, lasts=0.5)
        result = simulation(system, engine).run(one_send(), fault)
        assert result.makespan == pytest.approx(1.5, abs=1e-11)


@ENGINES
def test_a_pool_of_uplinks_waits(engine):
    fault = LinkFailure(links=["leaf0.up"], at=0.25, lasts=0.5)
    result = simulation(machine("pool"), engine).run(one_send(), fault)
    assert result.makespan == pytest.approx(1.5, abs=1e-11)


@ENGINES
def test_links_that_are_not_there_are_named_in_a_run_without_a_scenario(engine):
    with pytest.raises(GraphError, match=r"no component is named 'leaf9\.\*'"):
        simulation(machine(), engine).run(one_send(), LinkFailure(links=["leaf9.*"], at=0.0))


@ENGINES
def test_a_permanent_failure_that_blocks_the_run_is_named(engine):
    fault = LinkFailure(links=["node0.nic0.tx"], at=0.25)
    with pytest.raises(SimulationError, match="starvation"):
        simulation(machine(), engine).run(one_send(), fault)


@ENGINES
def test_sprayed_data_keep_to_the_links_that_are_left(engine):
    """From 0.25 s on two flows share one uplink of leaf 0: the 1.5 GB that are left."""
    build = Builder("two")
    for rank in range(2):
        build.op(Kind.SEND, rank=rank, peer=6 + rank, bytes=1e9)
    fault = LinkFailure(links=["leaf0.spine1", "spine1.leaf0"], at=0.25)
    result = simulation(machine("spray"), engine).run(build.graph(), fault)
    assert result.end == pytest.approx([1.75, 1.75], abs=1e-9)


@ENGINES
def test_routes_are_what_they_were_when_the_link_is_back(engine):
    """The second send begins when it is: it takes its own link again, and so does the first."""
    system = machine()
    link = used(system)
    build = Builder("two")
    first = build.op(Kind.SEND, rank=0, peer=7, bytes=1e9)
    build.op(Kind.SEND, rank=0, peer=7, bytes=1e9, after=[first])
    fault = LinkFailure(links=[link], at=0.25, lasts=0.5)
    result = simulation(system, engine).run(build.graph(), fault)
    assert result.makespan == pytest.approx(2.0, abs=1e-11)
    assert link in result.utilization()  # where they ran last


@ENGINES
def test_what_is_prepared_before_a_failure_and_submitted_during_it_goes_around(engine):
    system, ends = machine(), []

    def serving(sim):
        step = sim.prepare(one_send(1e8))
        for _ in range(3):
            yield sim.submit(step).done
            ends.append(sim.now)
            yield sim.wait(0.2)

    fault = LinkFailure(links=[used(system)], at=0.15, lasts=0.25)
    simulation(system, engine).run(None, serving, fault)
    assert ends == pytest.approx([0.1, 0.4, 0.7])


def random_program(seed):
    """Sends and collectives that wait for each other, and one to three failures beside them."""
    pick = random.Random(seed)
    build, last = Builder(f"random {seed}"), []
    for _ in range(pick.randint(1, 14)):
        after = [op for op in last if pick.random() < 0.4][-2:]
        size = pick.choice([0, 1e6, 2e6, 5e6, 1e7])
        if pick.random() < 0.75:
            a, b = pick.sample(range(8), 2)
            last.append(build.op(Kind.SEND, rank=a, peer=b, bytes=size, after=after,
                                 release=pick.choice([0, 0, 1e-3])))  # fmt: skip
            continue
        members = [Member(r, 0, after) for r in sorted(pick.sample(range(8), pick.choice([2, 4])))]
        name = f"collective:{pick.choice(['all-reduce', 'all-to-all', 'all-gather'])}"
        last.append(build.collective(members, bytes=size, signature=f"{name} uint8[{int(size)}]"))
    routing = pick.choice(ROUTINGS)
    system = machine(routing, pick.choice([0.0, 1e-6]), seed)
    names = [c.name for c in system.components if c.rate is not None]
    faults = []
    for _ in range(pick.randint(1, 3)):
        spine = pick.choice(["leaf*.spine0", "spine1.leaf*", "leaf1.spine1"])
        links = [spine] if routing != "pool" and pick.random() < 0.6 else [pick.choice(names)]
        faults.append(
            LinkFailure(
                links=links,
                at=pick.choice([0.0, 1e-3, 2e-3, 5e-3, pick.random() * 2e-2]),
                lasts=pick.choice([1e-3, 4e-3, 1e-2]),
                noticed_after=pick.choice([0.0, 0.0, 5e-4, 2e-2]),
            )
        )
    return system, build.graph(), faults


def outcome(seed, engine):
    system, graph, faults = random_program(seed)
    try:
        found = simulation(system, engine).run(graph, *faults)
    except (GraphError, SimulationError) as error:
        return str(error)
    columns = found.columns
    return [c.tolist() for c in (columns.ready, columns.start, columns.end, columns.attempts)]


@pytest.mark.parametrize("seed", every(4, range(IN_CI)))
def test_random_failures_are_equal_on_both_engines(seed):
    assert outcome(seed, "core") == outcome(seed, "reference")


@pytest.mark.nightly
def test_random_failures_are_equal_on_both_engines_all_night():
    seeds = tonight(range(1000, 1000 + NIGHTLY))
    assert [s for s in seeds if outcome(s, "core") != outcome(s, "reference")] == []


def test_random_failures_concern_somebody_and_end():
    """Of the seeds of the test above."""
    found = [outcome(seed, "core") for seed in range(IN_CI)]
    ended = [columns for columns in found if isinstance(columns, list)]
    assert len(ended) > 0.8 * IN_CI
    assert sum(max(attempts) > 1 for *_, attempts in ended) > IN_CI / 4


@pytest.mark.parametrize("seed", range(20))
def test_a_link_that_fails_at_once_and_for_good_is_one_that_is_down_from_the_start(seed):
    """As `override: {down: true}` has it: a router made without it says all ways beforehand."""
    system, graph, _ = random_program(seed)
    if used(system) == "leaf0.up":
        return
    link = used(system)
    number = system.number(link)
    parts = list(system.components)
    parts[number] = replace(parts[number], rate=0.0, max_rate=1e9)
    without = replace(system.avoiding([number]), components=tuple(parts))
    wanted = simulation(without, "core").run(graph)
    found = simulation(system, "core").run(graph, LinkFailure(links=[link], at=0.0))
    assert found.columns.end.tolist() == wanted.columns.end.tolist()


SCENARIO = """\
foretrace: 1
name: failing
workload: {type: transfers, ops: [{op: "send:write", bytes: 100 MB, from: [0, 1], to: 7}]}
cluster:
  nodes: 8
  node: {gpu: {streams: 1}, nic: {bandwidth: 10 GB/s, latency: 0 us, header: 0 B}}
  fabric:
    topology: {use: fat-tree, routing: ecmp, seed: 1, spines: 2}
    switch: {bandwidth: 10 GB/s, latency: 0 us, ports: 4}
answer: {minimize: makespan}
processes: [{use: link-failure, links: ["leaf0.spine1"], at: 5 ms}]
run: {engine: reference}
"""


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ("leaf0.spin1", "link-failure: no component matches 'leaf0.spin1'; did you mean "
         "'leaf0.spine1'?"),
        ("node0.gpu0", "link-failure: node0.gpu0 has no rate; name links, ports or NICs"),
        ("leaf0.spine*", "no route leads from node0.nic0 to node2.nic0; these links are down: "
         "leaf0.spine0, leaf0.spine1; bring one up; or say how long it lasts (lasts: 1 s)"),
        ("node0.nic0.tx", "node0.nic0.tx: no other route exists"),
    ],
)  # fmt: skip
def test_failures_that_cannot_be_are_refused_at_their_place(links, said):
    text = SCENARIO.replace("leaf0.spine1", links)
    with pytest.raises(InvalidScenarioError) as caught:
        build_variants(loads(text, file="s.yaml"))
    assert said in str(caught.value)
    assert "processes.0" in str(caught.value)


def test_a_pool_that_fails_for_good_is_refused_with_its_cure():
    text = SCENARIO.replace(", routing: ecmp, seed: 1, spines: 2", "")
    with pytest.raises(InvalidScenarioError, match="routing: ecmp or spray to make each uplink"):
        build_variants(loads(text.replace("leaf0.spine1", "leaf0.up")))


def test_a_scenario_takes_a_spine_down_and_up_again():
    one = SCENARIO.replace("from: [0, 1]", "from: [0]")
    whole = build_variant(loads(one.partition("processes:")[0])).run().makespan
    for links, late in (("leaf*.spine0, spine0.leaf*", 1e-3), ("leaf*.spine*", 4e-3)):
        fault = f"[{links}], at: 5 ms, lasts: 4 ms, noticed_after: 1 ms"
        (point,) = build_variants(loads(one.replace('["leaf0.spine1"], at: 5 ms', fault)))
        assert point.run().makespan == pytest.approx(whole + late)
