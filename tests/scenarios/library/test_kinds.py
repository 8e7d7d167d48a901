"""Machines of several kinds: how they are described, numbered and selected."""

import json
from pathlib import Path

import pytest
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.building.jobs import graph_of as build
from foretrace.scenarios.studies.building.price import price_per_second
from foretrace.scenarios.studies.building.system import build_backends, build_system
from foretrace.scenarios.studies.variants.variants import build_variant, run_with_replicas
from foretrace.sim.errors import GraphError, ScenarioError
from foretrace.sim.facts.place import place
from foretrace.sim.run.simulation import Simulation

KINDS = Path(__file__).parents[3] / "docs" / "examples" / "plugins" / "kinds.yaml"
ROCE = 4096 / 4178  # what the headers of a NIC leave
NODE = """
    gpu: {model: test-gpu-80g, count: 8, streams: 16}
    nic: {model: test-nic-7, count: 4}
    host: {cores: 4}
    memory: {bandwidth: 100 GB/s, latency: 90 ns}
    links: [{from: gpu, to: gpu, via: test-pcie, bandwidth: 450 GB/s, latency: 0.8 us}]
"""
REST = """
  fabric: {topology: rail, switch: {model: test-switch-5, ports: 10}, oversubscription: 2}
  override: {node3.gpu1: {slowdown: 1.3}}
workload: {type: transfers, ops: [{op: collective:all-reduce, bytes: 1 MB, from: [0, 9, 17, 40]}]}
cost: {items: [{what: gpu, each: 2 USD/hour}, {what: node, each: 1 USD/hour},
  {what: memory, each: 1 USD/hour}, {what: switch, each: 5 USD/hour}]}
"""
ONE = f"foretrace: 1\nname: same\ncluster:\n  nodes: 12\n  node:{NODE}{REST}"
OTHER = f"foretrace: 1\nname: same\ncluster:\n  kinds:\n   only:\n    count: 12{NODE}{REST}"


def changed(old, new):
    text = KINDS.read_text()
    assert text.count(old) == 1
    return text.replace(old, new)


def run(scenario, engine="reference"):
    machine = build_system(scenario)
    bound = build_backends(scenario, machine)
    return Simulation(machine, bound, engine=engine).run(place(build(scenario), machine)).makespan


def bare(component):
    return component.renamed(component.name, pool="")


def test_one_kind_is_what_nodes_and_node_say(scenario):
    """Two ways to write the same machine: the same parts, routes, prices and times."""
    one, other = scenario(ONE), scenario(OTHER)
    a, b = build_system(one), build_system(other)
    assert [bare(c) for c in a.components] == [bare(c) for c in b.components]
    assert {c.pool for c in a.components} == {""}
    assert {c.pool for c in b.components} == {"only", ""}
    assert (a.gpus, a.parts) == (b.gpus, b.parts)
    pairs = [(x, y) for x in a.numbers[::5] for y in a.numbers[::7]]
    assert [a.routes(*p) for p in pairs] == [b.routes(*p) for p in pairs]
    assert price_per_second(one) == price_per_second(other)
    assert run(one) == run(other)


def test_numbers_run_through_kind_after_kind():
    made = build_system(load(KINDS))
    assert made.gpus == ("node0.gpu0", "node1.gpu0", "node2.gpu0")
    assert [made.node_of(g) for g in made.numbers] == ["node0", "node1", "node2"]
    assert [made.components[g].pool for g in made.numbers] == ["trainer", "trainer", "store"]
    more = load(KINDS).only("more").variants()[1]
    assert build_system(more).select(kind="gpu", pool="store") == ("node3.gpu0",)


@pytest.mark.parametrize("engine", ["reference", "core"])
def test_a_kind_selects_in_backends_and_override(engine):
    """Two flows of 1 GB into a port that a binding lowers to 5 GB/s, and an override halves."""
    base, slow, _ = load(KINDS).variants()
    assert run(base, engine) == pytest.approx(2e9 / 5e9 + 2e-6, rel=1e-5)
    assert run(slow, engine) == pytest.approx(2e9 / 2.5e9 + 2e-6, rel=1e-5)
    made = build_system(slow)
    rates = {c.name: c.rate for c in made.components if c.kind == "nic"}
    assert rates["node0.nic0.tx"] == pytest.approx(20e9 * ROCE)
    assert rates["node2.nic0.rx"] == 2.5e9
    assert [c.role for c in made.components if c.name.startswith("node2.nic0")] == ["tx", "rx"]


def test_a_kind_selects_what_is_paid_for():
    """Two trainers of 4, one NIC of a store of 1, three GPUs of 2 USD an hour."""
    base, _, more = load(KINDS).variants()
    assert price_per_second(base) * 3600 == pytest.approx(2 * 4 + 1 + 3 * 2)
    assert price_per_second(more) * 3600 == pytest.approx(3 * 4 + 1 + 4 * 2)


def test_an_exact_name_wins_over_a_kind_and_the_last_of_two_globs():
    both = '{"kind:store.nic*": {slowdown: 2}, node2.nic0.rx: {slowdown: 4}}'
    text = changed('{"kind:store.nic*": {slowdown: 2}}', both)
    made = build_system(loads(text).only("slow").variants()[1])
    rates = [made["node2.nic0.tx"].rate, made["node2.nic0.rx"].rate]
    assert rates == [2.5e9, 1.25e9]


def test_a_whole_kind_is_slowed_by_its_bare_name():
    text = changed('{"kind:store.nic*": {slowdown: 2}}', '{"kind:store": {slowdown: 2}}')
    made = build_system(loads(text).only("slow").variants()[1])
    assert made["node2.nic0.tx"].rate == 2.5e9
    assert made["node0.nic0.tx"].rate == pytest.approx(20e9 * ROCE)


def test_a_machine_needs_no_gpu_and_its_host_can_be_reached():
    text = changed("      gpu: {streams: 1, power: 60 W}\n", "").replace(
        "[0, 1], to: 2", "[0], to: 1"
    )
    text = text.replace("1 us}\n\nbackends", "1 us}\n      host: {cores: 1}\n\nbackends")
    made = build_system(loads(text))
    assert made.gpus == ("node0.gpu0", "node1.gpu0")
    route = made.route(made.number("node0.gpu0"), made.number("node2.host"))
    assert [made.components[c].name for c in route] == ["node0.nic0.tx", "node2.nic0.rx"]
    graph = place(build(loads(text)), made, ["node0.gpu0", "node2.host"])
    took = Simulation(made, build_backends(loads(text), made)).run(graph).makespan
    assert took == pytest.approx(1e9 / 5e9 + 2e-6, rel=1e-5)


def test_leaves_fill_in_order_where_kinds_have_unlike_many_nics():
    """Leaves of 4 ports, half of them down: two machines of one NIC, then one of two each."""
    text = KINDS.read_text().replace("count: 2\n", "count: 3\n")
    text = text.replace("nic: {bandwidth: 10 GB/s", "nic: {count: 2, bandwidth: 10 GB/s")
    switch = "\n  fabric: {switch: {bandwidth: 10 GB/s, latency: 1 us, ports: 4}}\n\nbackends"
    made = build_system(loads(text.replace("\n\nbackends", switch)))
    ports = [c.name for c in made.components if c.kind == "switch" and not c.role]
    assert ports == [
        "leaf0.node0.nic0",
        "leaf0.node1.nic0",
        "leaf1.node2.nic0",
        "leaf2.node3.nic0",
        "leaf2.node3.nic1",
    ]


def test_every_kind_is_asked_for_the_power_of_its_gpus():
    text = changed("gpu: {streams: 1}\n", "gpu: {streams: 1, power: 700 W}\n")
    found = run_with_replicas(build_variant(loads(text))).samples
    assert found["gpu.power.bound"].tolist() == [2 * 700 + 60]
    assert "gpu.power.bound" not in run_with_replicas(build_variant(load(KINDS))).samples


def test_settings_of_a_kind_are_swept_by_their_path():
    faster = load(KINDS, set=["cluster.kinds.trainer.nic.bandwidth=1 GB/s"])
    assert run(faster) == pytest.approx(1e9 / (1e9 * ROCE) + 2e-6, rel=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "message", "place"),
    [
        (
            "cluster:\n",
            "cluster:\n  nodes: 3\n",
            "'kinds' replaces 'nodes'; remove 'nodes', or write it as one of the kinds",
            ":10:10  cluster.nodes",
        ),
        ("count: 2\n", "cuont: 2\n", "unknown key 'cuont'; did you mean 'count'?", ":12:7"),
        ("      count: 2\n", "", "'count' is missing", "cluster.kinds.trainer.count"),
        ("count: 2\n", "count: 0\n", "'0' must be at least 1", "cluster.kinds.trainer.count"),
        (
            "nic: {bandwidth: 20 GB/s",
            "nic: {bandwith: 20 GB/s",
            "unknown key 'bandwith'; did you mean 'bandwidth'",
            ":14:13",
        ),
        (
            "    store: ",
            "    my.store: ",
            "'my.store' is not a name for a kind of machine",
            ":15:5",
        ),
        (
            "kind:trainer, each",
            "kind:trainers, each",
            "no kind of component 'kind:trainers'; did you mean 'kind:trainer'?",
            "cost.items.0.what",
        ),
        ("gpu: {streams: 1, p", "gpu: {model: h1000, p", "no gpu model named 'h1000'", ":17:20"),
    ],
)
def test_a_mistake_in_kinds_has_its_place_and_cure(old, new, message, place):
    with pytest.raises(InvalidScenarioError) as caught:
        loads(changed(old, new), file="k.yaml")
    assert message in str(caught.value)
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '{"kind:store.nic*": {use: link',
            '{"kind:stor.nic*": {use: link',
            r"k\.yaml:\d+:\d+: backends: no component matches 'kind:stor\.nic\*'; did you mean",
        ),
        ("gpu: {streams: 1}\n", "gpu: {count: 1}\n", r"cluster\.kinds\.trainer\.gpu\.streams: is"),
        ("latency: 1 us}\n    store", "}\n    store", r"cluster\.kinds\.trainer\.nic: 'latency'"),
    ],
)
def test_what_a_kind_lacks_is_named_with_its_path(old, new, message):
    s = loads(changed(old, new), file="k.yaml")
    with pytest.raises((ScenarioError, GraphError), match=message):
        build_backends(s, build_system(s))


def test_kinds_load_again_from_their_resolved_form():
    first = load(KINDS)
    again = loads(json.dumps(first.resolved()))
    assert again.resolved() == first.resolved()
    told = [
        {k: v for k, v in s.settings().items() if k.startswith("cluster")} for s in (first, again)
    ]
    assert told[0] == told[1]
