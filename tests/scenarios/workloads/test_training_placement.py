"""Placement of a described step on the topology: tensor groups across machines, chosen stages."""

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.errors import ScenarioError

SCENARIO = """
foretrace: 1
name: placed
workload: {type: training, model: gpt2, batch: 16, sequence: 256, execution: {hosts: ahead},
           parallel: {tensor: 2, pipeline: 2, data: 2, micro_batch: 2}}
cluster:
  nodes: NODES
  node:
    gpu: {model: h100-sxm5-80g, count: 4}
    nic: {model: connectx-7, count: 4}
    links: [{from: gpu, to: gpu, via: nvlink4}, {from: gpu, to: nic, via: pcie5-x16}]
  fabric: {library: nccl-nvlink4, switch: tomahawk-5, fidelity: flow}
backends: {"node*.gpu*": {use: roofline}}
"""


def built(ranks="", nodes=2):
    text = SCENARIO.replace("NODES", str(nodes))
    (point,) = build_variants(loads(text + (f"placement: {{ranks: {ranks}}}\n" if ranks else "")))
    return point


def places(point):
    graph = point.known_graph
    return [graph.system.components[gpu].name for gpu in graph.gpus]


def test_ranks_lie_side_by_side_unless_said():
    """Tensor-parallel neighbours first, stages last, as in Megatron-LM."""
    assert places(built()) == [f"node{n}.gpu{k}" for n in range(2) for k in range(4)]


def test_tensor_groups_across_machines_are_slower():
    near, far = built(), built('["node*.gpu0", "node*.gpu1", "node*.gpu2", "node*.gpu3"]')
    assert places(far)[:4] == ["node0.gpu0", "node1.gpu0", "node0.gpu1", "node1.gpu1"]
    assert far.run().makespan > 1.2 * near.run().makespan


def test_stages_are_on_chosen_machines():
    point = built('["node2.gpu*", "node0.gpu*"]', nodes=3)
    assert places(point) == [f"node{n}.gpu{k}" for n in (2, 0) for k in range(4)]
    used = point.run().utilization()
    assert used["node2.gpu0"] > 0
    assert not used.get("node1.gpu0")


def test_names_and_globs_go_together():
    ranks = '[node1.gpu3, "node0.gpu[1-3]", "node1.gpu[012]", node0.gpu0]'
    assert places(built(ranks))[:5] == [
        "node1.gpu3", "node0.gpu1", "node0.gpu2", "node0.gpu3", "node1.gpu0"
    ]  # fmt: skip


def test_a_glob_that_means_nothing_is_refused():
    with pytest.raises(ScenarioError, match=r"placement\.ranks: no .* matches node7\.gpu\*"):
        built('["node7.gpu*"]')
