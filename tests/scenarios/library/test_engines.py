"""Every bundled scenario, on both engines: equal in every column."""

from dataclasses import replace
from pathlib import Path

import foretrace
import numpy as np
import pytest
from by_day import only
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.facts.csr import Csr
from foretrace.sim.facts.flat_graph import Participants
from foretrace.sim.facts.graph import Graph

MOST = [10_000, pytest.param(50_000, marks=pytest.mark.nightly)]  # ops of a run: whole iterations
BY_DAY = [
    "templates/minimal.yaml",
    "host-check.yaml",
    "deepseek-v3.yaml",
    "hash-collisions.yaml",
    "dlrm.yaml",
]
LIBRARY = Path(foretrace.__file__).parent / "scenarios" / "library"
FILES = sorted(f.relative_to(LIBRARY).as_posix() for f in LIBRARY.rglob("*.yaml"))


def first_iterations(graph: Graph, most: int) -> Graph:
    """As many whole iterations as there are within so many ops, and at least one."""
    block = graph.explicit
    n, counts = len(block), np.bincount(block.ops.period)
    kept = block.ops.period < max(1, int((np.cumsum(counts) <= most).sum()))
    rows, further = np.flatnonzero(kept), np.flatnonzero(kept[block.places.op])
    places = np.concatenate([rows, n + further])
    number = np.full(n + len(block.places), -1)
    number[places] = np.arange(len(places))
    before, after = number[block.successors.owner], number[block.successors.values]
    inside = (before >= 0) & (after >= 0)
    cut = replace(
        block,
        ops=block.ops.take(rows),
        successors=Csr.from_pairs(before[inside], after[inside], len(rows)),
        places=Participants(
            number[block.places.op[further]].astype(np.int32),
            block.places.rank[further],
            block.places.stream[further],
        ),
        release=block.release[rows],
        peer=block.peer[rows],
        slot=None if block.slot is None else block.slot[places],
    )
    return replace(graph, blocks=(cut,))


def test_every_bundled_scenario_is_found():
    assert {"first.yaml", "host-check.yaml", "templates/minimal.yaml"} <= set(FILES)


ONE = ["cluster.nodes=1", "workload.memory.must_fit=false", "run.keep=ops"]
PIPELINE = [*ONE, "workload.schedule={chunks: 1}", "workload.batch=4"]
TINY = "hidden: 256, layers: {}, heads: 8, vocabulary: 1024, inner: 512"
DENSE = f"workload.model={{{TINY.format(6)}}}"
EXPERTS = "experts: {count: 4, chosen: 2, inner: 64}"
MIXED = f"workload.model={{{TINY.format(5)}, predicted: 1, {EXPERTS}}}"
EIGHT = ["cluster.node.gpu.count=8", "cluster.node.nic.count=8", "what_if=[]"]
SMALL = {  # what both engines run op by op
    "bert-large.yaml": [*ONE, "workload.batch=512"],
    "deepseek-v3.yaml": [*ONE, MIXED, "workload.parallel={pipeline: 4, expert: 2}",
                         "workload.batch=16"],
    "dlrm.yaml": ["run.keep=ops"],
    "llama3-405b.yaml": [*ONE, DENSE, "workload.parallel={tensor: 2, pipeline: 4, sequence: true}",
                         "workload.schedule={chunks: 2}", "workload.batch=4", "what_if=[]"],
    "million-tokens.yaml": [*ONE, DENSE, "workload.parallel={context: 8}", "workload.batch=1",
                            "workload.sequence=65536"],
    "offline-profiling.yaml": ["what_if=[]", "ablations=null", "control=null"],
    "nvl72.yaml": [*ONE, *EIGHT, MIXED, "workload.parallel={pipeline: 4, expert: 2}",
                   "workload.schedule={chunks: 2, ends: 1}", "workload.batch=8"],
    "gpt3-175b.yaml": [*PIPELINE, "workload.parallel={tensor: 2, pipeline: 4}"],
    **{
        f"megatron-{size}.yaml": [*ONE, DENSE, f"workload.batch={batch}", *more]
        for size, batch, *more in (
            ("22b", 4),
            ("175b", 4, "workload.parallel={tensor: 4, pipeline: 2}"),
            ("530b", 4, "workload.parallel={tensor: 4, pipeline: 2}"),
            ("1t", 4, "workload.parallel={tensor: 4, pipeline: 2}"),
            ("7b", 8),
            ("18b", 4),
            ("39b", 4, "workload.parallel={tensor: 4}"),
        )
    },
    "llama3-70b.yaml": [*PIPELINE, "workload.parallel={tensor: 2, pipeline: 4, sequence: true}"],
    "llama3-8b.yaml": [*ONE, "workload.batch=8"],
    "templates/model.yaml": [*ONE, DENSE, "workload.batch=16", "what_if=[]"],
    "mixtral-8x7b.yaml": [*ONE, "workload.batch=8", "workload.parallel.pipeline=1"],
}  # fmt: skip


@pytest.mark.parametrize("most", MOST)
@pytest.mark.parametrize("file", only(BY_DAY, FILES))
def test_a_bundled_scenario_is_equal_on_both_engines(file, most):
    for point in build_variants(load(LIBRARY / file, set=SMALL.get(file, []))):
        graph = point.graph and first_iterations(point.graph, most)  # None of several jobs
        core, reference = (
            replace(point, graph=graph, simulation=replace(point.simulation, engine=engine)).run()
            for engine in ("core", "reference")
        )
        assert 0 < reference.count <= 50_000
        for name, column in vars(reference.columns).items():
            np.testing.assert_array_equal(getattr(core.columns, name), column, err_msg=name)
        assert core.component.tolist() == reference.component.tolist()
        assert core.metrics == reference.metrics
        assert core.blame().ticks == reference.blame().ticks
