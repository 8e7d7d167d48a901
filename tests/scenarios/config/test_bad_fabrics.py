"""Fabrics that cannot be, and what is asked of them in vain: refused with the cure, or named."""

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.errors import BackendError, GraphError, ScenarioError, SimulationError

SCENARIO = """\
foretrace: 1
name: bad
workload: {type: transfers, ops: [{op: "collective:all-reduce", bytes: 1 MB,
  from: [0, 1, 2, 3, 4]}]}
cluster:
  nodes: 5
  node: {gpu: {streams: 1}, nic: {bandwidth: 10 GB/s, latency: 1 us, header: 0 B}}
  fabric:
    topology: {use: fat-tree, routing: ecmp}
    switch: {bandwidth: 10 GB/s, latency: 0 us, ports: 4}
answer: {minimize: makespan}
"""
NIC, SWITCH = "cluster.node.nic.bandwidth", "cluster.fabric.switch.bandwidth"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([f"{NIC}=0 GB/s"], "'0 GB/s' is no rate; write it like '400 Gb/s'"),
        ([f"{NIC}=-1 GB/s"], "'-1 GB/s' is negative; write it like '400 Gb/s'"),
        ([f"{SWITCH}=0 GB/s"], "'0 GB/s' is no rate"),
        ([f"{SWITCH}=-1 GB/s"], "'-1 GB/s' is negative"),
        (["cluster.node.nic.latency=-1 us"], "'-1 us' is negative; write it like '2.1 us'"),
        (["cluster.override={node0.nic0.tx: {slowdown: 0}}"], "'0' must be above 0"),
        (
            ["cluster.fabric.topology.routing=spray", "cluster.fabric.topology.paths=9"],
            "paths is 9, and two NICs are joined by 2 ways at most; give 2 or fewer",
        ),
        (
            ["cluster.override={leaf0.spine*: {down: true}}"],
            "no way leads from node0.nic0 to node2.nic0; down are leaf0.spine0, leaf0.spine1; "
            "bring one up",
        ),
        (["cluster.override={node0.nic0.tx: {down: true}}"], "runs at rate 0 on node0.nic0.tx"),
        (
            ["cluster.fabric.library={model: nccl-nvlink4, algorithm: in-switch}"],
            "'in-switch' is pinned and does not do all-reduce for 5 members; pin one of ['ring'",
        ),
        (
            ["cluster.fabric.library={model: nccl-nvlink4, algorithm: rings}"],
            "algorithm 'rings' is unknown; take one of ['ring'",
        ),
        (
            ['workload.ops.0.op="collective:all-to-all receive=5,1,1"'],
            "workload.ops: collective:all-to-all: receive=5,1,1 has 3 numbers for 5 "
            "members; write one for each",
        ),
        (
            ["workload.ops.0.from=[0]"],
            "workload.ops: collective:all-reduce among [0]; name two or more different ranks",
        ),
        (
            ["cluster.fabric.expand=pairwise"],
            "all-reduce of 5 members): none of ['pairwise'] writes it out; add one of ['ring'",
        ),
    ],
)
def test_what_a_fabric_cannot_be_is_refused_with_its_cure(settings, said):
    errors = ScenarioError, GraphError, BackendError, SimulationError
    with pytest.raises(errors) as caught:
        build_variants(loads(SCENARIO, set=settings))[0].run()
    assert said in str(caught.value)


def test_algorithms_that_a_group_cannot_run_are_not_offered():
    """In-switch needs one machine, halving and doubling a power of two."""
    pinned = "cluster.fabric.library={model: nccl-nvlink4, algorithm: in-switch}"
    with pytest.raises(InvalidScenarioError) as caught:
        build_variants(loads(SCENARIO, set=[pinned]))
    offered = str(caught.value).partition("pin one of ")[2].partition("]")[0]
    assert "'ring'" in offered
    assert "in-switch" not in offered


def test_ranks_that_nothing_joins_are_named(tmp_path):
    (tmp_path / "net.yaml").write_text(
        'links: [{from: "node[0-2].nic0", to: hub0}, {from: "node[34].nic0", to: hub1}]'
    )
    text = SCENARIO.replace(
        "{use: fat-tree, routing: ecmp}", f"{{use: graph, file: {tmp_path / 'net.yaml'}}}"
    )
    with pytest.raises(GraphError, match=r"no way leads from node0.nic0 to node3.nic0; add a link"):
        build_variants(loads(text))


def test_a_collective_over_a_port_that_is_down_is_refused_before_it_runs(cli, tmp_path):
    """In one closed form the run alone refused it: `fixed of op 0 is inf`."""
    (tmp_path / "s.yaml").write_text(SCENARIO)
    down = "cluster.override={node0.nic0*: {down: true}}"
    said = "fabric: all-reduce never ends: it crosses node0.nic0.tx, node0.nic0.rx, which is down"
    for command in ("validate", "plan", "run"):
        words = (command, tmp_path / "s.yaml", "--set", down)
        code, _, error = cli(*words, "--set", "cluster.fabric.fidelity=alpha-beta")
        assert code == 2
        assert said in error
