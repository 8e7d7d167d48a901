"""Machines without GPUs, pools of slots with bounded queues, and transfers side by side."""

import json
from pathlib import Path

import foretrace
import pytest
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.building.jobs import graph_of
from foretrace.scenarios.studies.building.price import price_per_second
from foretrace.scenarios.studies.building.system import build_backends, build_system
from foretrace.scenarios.studies.summaries.full_queues import full_queues
from foretrace.scenarios.studies.variants.variants import (
    build_variant,
    build_variants,
    run_with_replicas,
)
from foretrace.sim.errors import GraphError, ScenarioError
from foretrace.sim.run.simulation import Simulation

EXAMPLE = Path(foretrace.__file__).resolve().parent / "docs" / "examples" / "pools.yaml"
ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
HEAD = "foretrace: 1\nname: p\n"


def written(ops, node, placement="node*.host", nodes=1, more=""):
    return (
        f"{HEAD}workload: {{type: transfers, ops: [{ops}]{more}}}\n"
        f"placement: {{ranks: ['{placement}']}}\n"
        f"cluster: {{nodes: {nodes}, node: {{{node}}}}}\n"
    )


def op(text, count=1, **more):
    said = "".join(f", {k}: {v}" for k, v in more.items())
    return f'{{op: "{text}", bytes: 1 kB, count: {count}, at_once: {count}{said}}}'


def pool(name="nf", slots=1, queue="", **more):
    said = "".join(f", {k}: {v}" for k, v in more.items())
    return f"pools: {{{name}: {{slots: {slots}, time: 1 us{said}{queue}}}}}"


def results(scenario, engine="core"):
    """Result of each variant."""
    return [result(one, engine) for one in scenario.variants()]


def result(one, engine="core"):
    from foretrace.scenarios.studies.building.jobs import components_of_ranks

    system = build_system(one)
    graph = foretrace.place(
        graph_of(one), system, components_of_ranks(one.jobs["main"].placement, system)
    )
    return Simulation(system, build_backends(one, system), engine=engine).run(graph)


@ENGINES
def test_the_example_runs_on_machines_without_gpus_and_nics(engine):
    """12 chains of two parses, on 4 slots and 4 places: crypto has room for two of the four others.

    A chain from crypto finds the queue full once more. Of 64 lookups, 12 run and 16 wait.
    """
    base, cores, longer = results(load(EXAMPLE), engine)
    assert not base.system.gpus
    assert "node0.nic0.tx" not in base.system.index
    told = base.queues()
    assert told["node2.stages0"] == (36, 36)
    assert (told["node0.nf0"], told["node1.nf0"]) == ((5, 2), (5, 2))
    assert cores.queues().keys() == longer.queues().keys() == {"node2.stages0"}
    assert base.makespan == pytest.approx(12e-6)


def test_drops_are_metrics_and_rows_and_in_the_summary():
    of = run_with_replicas(build_variant(load(EXAMPLE)))
    assert of.samples["dropped"].tolist() == [40.0]
    assert of.samples["stages.dropped"].tolist() == [36.0]
    assert of.samples["nf.dropped"].tolist() == [4.0]
    assert (of.result.frame().state == "dropped").sum() == 40
    told = full_queues(of.result)
    assert (told["full"], told["dropped"]) == (46, 40)
    assert [row["dropped"] for row in told["components"]] == [36, 2, 2]


def test_machines_and_pools_have_prices():
    assert price_per_second(load(EXAMPLE)) * 3600 == pytest.approx(3 * 1 + 2 * 0.2)


def test_a_scenario_with_pools_loads_again_from_its_resolved_form():
    first = load(EXAMPLE)
    again = loads(json.dumps(first.resolved()))
    assert again.resolved() == first.resolved()


def test_an_op_runs_on_its_role_and_a_host_op_on_the_host_of_the_machine():
    """A rank on a core of the SmartNIC has the host of its machine beside it."""
    text = written(
        f"{op('compute:a')}, {op('host:b')}, {op('compute:c', on='big')}",
        "host: {cores: 1}, memory: {bandwidth: 1 GB/s, latency: 1 us}, pools: {nf: {slots: 1, "
        "time: 1 us}, big: {slots: 1, time: 2 us, role: big}}",
        "node0.nf0",
    )
    found = result(loads(text))
    names = [found.parts.names[c] for c in found.component.tolist()]
    assert names == ["node0.nf0", "node0.host", "node0.big0"]
    assert found.makespan == pytest.approx(1e-6 + 1e-6 + 2e-6)


@pytest.mark.parametrize("engine", ["reference", "core"])
def test_a_queue_sends_ops_to_the_other_pools_of_its_machine(engine):
    """Two machines, each with three pools of one core; five ops each: one a core, two dropped."""
    queue = ", queue: {length: 0, full: elsewhere, elsewhere: 'nf*'}"
    text = written(op("compute:a", 5, on="nf", **{"from": "[0, 1]"}), pool(count=3, queue=queue),
                   nodes=2)  # fmt: skip
    found = result(loads(text), engine)
    assert found.queues() == {"node0.nf0": (4, 2), "node1.nf0": (4, 2)}
    assert found.busy == {f"node{i}.nf{k}": 1e-6 for i in range(2) for k in range(3)}
    assert {found.parts.names[c] for c in found.component.tolist()} == found.busy.keys()


def test_an_op_takes_the_time_of_the_component_to_which_it_is_sent():
    queue = ", queue: {length: 0, full: elsewhere, elsewhere: big0}"
    text = written(op("compute:a", 2, on="nf"), pool(queue=queue).replace(
        "pools: {", "pools: {big: {slots: 1, time: 7 us, rate: 1 GB/s}, "))  # fmt: skip
    found = result(loads(text))
    assert found.busy == {"node0.nf0": 1e-6, "node0.big0": pytest.approx(8e-6)}


def test_a_delay_holds_nothing():
    """Three delays of 5 us and three ops of 1 us on one core: delays run at once."""
    delay = '{op: "delay:wire", time: 5 us, count: 3, at_once: 3}'
    text = written(f"{op('compute:a', 3, on='nf')}, {delay}", pool())
    assert result(loads(text)).makespan == pytest.approx(3e-6 + 5e-6)


@pytest.mark.parametrize(("concurrent", "took"), [("false", 6), ("1", 6), ("2", 4), ("true", 2)])
def test_transfers_run_side_by_side(concurrent, took):
    """Entries of 1, 2, 1 and 2 us on a core each: 2 at once are 1 + 1 beside 2 + 2."""
    pools = ", ".join(f"{n}: {{slots: 1, time: {t} us}}" for n, t in zip("abcd", (1, 2, 1, 2),
                                                                        strict=True))  # fmt: skip
    ops = ", ".join(op(f"compute:{n}", on=n) for n in "abcd")
    text = written(ops, f"pools: {{{pools}}}", more=f", concurrent: {concurrent}")
    assert result(loads(text)).makespan == pytest.approx(took * 1e-6)


def test_iterations_of_concurrent_transfers_follow_each_other():
    text = written(f"{op('compute:a', on='nf')}, {op('compute:b', on='nf')}", pool(slots=2),
                   more=", concurrent: true, iterations: {measure: 3}")  # fmt: skip
    assert result(loads(text)).makespan == pytest.approx(3e-6)


SEND = '{op: "send:write", bytes: 1 kB, from: [0], to: 1}'


def test_machines_that_do_not_talk_need_no_nic_and_a_send_names_what_is_missing():
    """Ranks of machines without NICs compute; as soon as something travels, it is refused."""
    node = pool()
    assert result(loads(written(op("compute:a", on="nf", **{"from": "[0, 1]"}), node, nodes=2)))
    told = (
        r"op 0 \(send:write uint8\[1000\]\) has to travel between machines, but node0 has no NIC "
        r"to reach other machines; write cluster\.node\.nic"
    )
    with pytest.raises(GraphError, match=told):
        result(loads(written(SEND, node, nodes=2)))


def test_a_collective_of_ranks_in_one_machine_needs_no_nic():
    text = f"""{HEAD}
workload: {{type: transfers, ops: [{{op: "collective:all-reduce", bytes: 1 MB, from: [0, 1]}}]}}
cluster:
  nodes: 2
  node:
    gpu: {{count: 2, streams: 4}}
    links: [{{from: gpu, to: gpu, via: nvlink4}}]
"""
    assert result(loads(text)).makespan > 0
    with pytest.raises(
        GraphError, match=r"collective:all-reduce.*has no NIC to reach other machines"
    ):
        result(loads(text.replace("from: [0, 1]", "from: [0, 2]")))


def test_one_kind_of_machine_may_have_nics_and_another_none():
    """Of three machines the first two are connected; the third computes alone."""
    text = f"""{HEAD}
workload:
  type: transfers
  ops: [{SEND}, {op("compute:a", on="nf", **{"from": "[2]"})}]
placement: {{ranks: [node0.host, node1.host, node2.host]}}
cluster:
  kinds:
    store: {{count: 2, nic: {{bandwidth: 1 GB/s, latency: 1 us}}}}
    edge: {{count: 1, {pool()}}}
"""
    assert result(loads(text)).makespan == pytest.approx(1e-6 + 2e-6 + 1e-6, rel=0.1)
    with pytest.raises(
        GraphError, match=r"node2 of kind 'edge' has no NIC .*cluster\.kinds\.edge\.nic"
    ):
        result(loads(text.replace("to: 1", "to: 2")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("slots: 1", "slots: 0", "'0' must be at least 1"),
        ("length: 1", "length: -1", "'-1' must be at least 0"),
        ("full: drop", "full: dorp", "dorp"),
        ("full: drop", "full: elsewhere", "full is 'elsewhere' and elsewhere is empty; name comp"),
        ("full: drop", "full: drop, elsewhere: nf1", "full is 'drop' and elsewhere is nf1; name"),
        ("pools: {nf:", "pools: {gpu:", "'gpu' is not a name for a pool; use the letters a to"),
        ("slots: 1", "slots: 1, role: host", "role is 'host', which foretrace has; give an"),
        ("slots: 1", "slots: 1, cores: 3", "unknown key 'cores'"),
        ('op: "compute', 'time: 3 us, op: "compute', "time is 3e-06 s; give a time to delays"),
        ('op: "compute', 'op: "delay', "'delay:a': it has no time; give a time to delays, and"),
        ("bytes: 1 kB, ", "", "'compute:a': 'bytes' is missing; write them"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_pool_has_its_place_and_cure(old, new, message):
    text = written(op("compute:a", on="nf"), pool(queue=", queue: {length: 1, full: drop}"))
    assert text.count(old) == 1
    with pytest.raises(InvalidScenarioError) as caught:
        loads(text.replace(old, new), file="p.yaml")
    assert message in str(caught.value)
    assert "p.yaml:" in str(caught.value)


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ("elsewhere: [nf9]", "node0.nf0: its queue sends ops to 'nf9', which does not exist; name"),
        ("elsewhere: [nf0]", "node0.nf0: its queue sends ops to nf0, where no other component is"),
        ("elsewhere: [fabric]", "node0.nf0: its queue sends ops to fabric, which has no slots to"),
    ],
)
def test_a_queue_that_sends_ops_nowhere_is_refused(queue, message):
    bounded = f", queue: {{length: 1, full: elsewhere, {queue}}}"
    with pytest.raises(GraphError, match=message):
        result(loads(written(op("compute:a", on="nf"), pool(queue=bounded))))


def test_ranks_without_a_place_are_told_where_they_may_be():
    text = written(op("compute:a", on="nf"), pool()).replace(
        "placement: {ranks: ['node*.host']}", ""
    )
    scenario = loads(text)
    graph, system = graph_of(scenario), build_system(scenario)
    told = r"there are 0 GPUs to place them on; .* in placement\.ranks, such as \[node0\.host\]"
    with pytest.raises(GraphError, match=told):
        foretrace.place(graph, system)


def test_an_op_for_a_role_that_nobody_has_is_refused():
    text = written(op("compute:a", on="nff"), pool())
    with pytest.raises(ScenarioError, match="on is 'nff', which is not the role of a part; the ro"):
        graph_of(loads(text))


def test_an_op_for_a_role_that_its_machine_lacks_is_refused():
    text = f"""{HEAD}
workload: {{type: transfers, ops: [{op("compute:a", on="nf", **{"from": "[0, 1]"})}]}}
placement: {{ranks: ['node*.host']}}
cluster: {{kinds: {{one: {{count: 1, {pool()}}}, other: {{count: 1}}}}}}
"""
    with pytest.raises(GraphError, match="op 1: runs on the role 'nf' of rank 1, but node1 has no"):
        result(loads(text))


def test_a_job_can_be_on_components_that_are_no_gpus():
    text = f"""{HEAD}
jobs:
  a:
    workload: {{type: transfers, ops: [{op("compute:a", **{"from": "[0, 1]"})}]}}
    on: {{gpu: "node0.nf*"}}
cluster: {{nodes: 1, node: {{{pool(count=2)}}}}}
"""
    of = run_with_replicas(build_variant(loads(text)))
    assert of.result.busy == {"node0.nf0": 1e-6, "node0.nf1": 1e-6}


def test_pools_without_times_need_a_backend():
    text = written(op("compute:a", on="nf"), pool().replace(", time: 1 us", ""))
    with pytest.raises(GraphError, match=r"needs node0\.nf0, which has no backend; bind one"):
        result(loads(text))
    bound = text + "backends: {'node*.nf*': {use: service, time: 4 us}}\n"
    assert result(loads(bound)).makespan == pytest.approx(4e-6)


def test_workers_of_a_sweep_know_the_roles_of_pools(cli, tmp_path):
    text = written(op("compute:a", 4, on="nf"), pool(name="nf", slots=1))
    text += "sweep: {vary: {cluster.node.pools.nf.slots: [1, 2, 4]}}\n"
    (tmp_path / "s.yaml").write_text(text)
    code, out, err = cli("sweep", tmp_path / "s.yaml", "--workers", "local:2", "--out", tmp_path)
    assert code == 0, err
    assert "4 µs" in out


def test_two_scenarios_that_give_a_role_two_layers_are_refused():
    build_system(loads(written(op("copy:x", on="nf"), pool(layer="network"))))
    with pytest.raises(
        InvalidScenarioError, match="'network' in another scenario or variant, and 'compute'"
    ):
        build_system(loads(written(op("copy:x", on="nf"), pool(layer="compute"))))


def test_iterations_behind_a_queue_that_drops_are_refused():
    text = written(
        op("copy:x", on="nf"), pool(queue=", queue: {length: 1, full: drop}"),
        more=", iterations: {measure: 5}",
    )  # fmt: skip
    with pytest.raises(InvalidScenarioError, match="write full: wait, or one iteration"):
        build_variants(loads(text))
