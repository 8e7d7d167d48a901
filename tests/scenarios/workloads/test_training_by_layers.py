"""Training timed by whole layers, stages of unequal size, and graphs that depend on the machine."""

import json

import pytest
from foretrace.scenarios.config.loader import load, loads
from foretrace.scenarios.studies.variants.samples import samples_of
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.errors import ForetraceError, ScenarioError

PLAN = """
foretrace: 1
name: layers
workload:
  type: training
  model: gpt2
  batch: 32
  sequence: 1024
  parallel: {tensor: 2, pipeline: 2, micro_batch: 2}
  precision: fp32
  optimizer: {overlap: false}
  execution: {attention: written, detail: layers}
cluster:
  nodes: 1
  node:
    gpu: {model: gh200-96g, count: 4}
    nic: {model: slingshot-200g, count: 4}
    links: [{from: gpu, to: gpu, via: nvlink4}, {from: gpu, to: nic, via: pcie5-x16}]
  fabric: {library: nccl-nvlink4-ofi, switch: slingshot-rosetta, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: layer-profile, file: FILE, hidden: 768, sequence: 1024}}
run: {keep: ranks, quick: true}
"""
ENDS, LAYER = [0.0, 0.0, 1e-3], [2e-3, 4e-3, 1e-3]


@pytest.fixture
def text(tmp_path):
    layers = {str(n): ENDS if n in (0, 13) else LAYER for n in range(14)}
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"2": {"2": layers}, "4": {"2": layers}}))
    return PLAN.replace("FILE", str(file))


def samples(text, *set):
    (point,) = build_variants(loads(text, set=set))
    return {name: float(values[0]) for name, values in samples_of(point, point.run()).items()}


def test_a_pipeline_of_profiled_layers_is_that_of_the_textbook(text):
    # 16 micro-batches and 2 stages of 6 layers of 6 ms: (m + p - 1) x 36 ms, then 7 updates of
    # 1 ms; Huang et al. 2019, arXiv:1811.06965, section 2
    told = samples(text)["iteration_time"]
    assert told == pytest.approx(17 * 36e-3 + 7e-3, rel=0.05)
    assert told > 17 * 36e-3 + 7e-3  # messages, and the two copies of the embedding


def test_the_stage_with_most_layers_decides(text):
    even = samples(text)["iteration_time"]
    uneven = samples(text, "workload.parallel.layers=[4, 8]")["iteration_time"]
    assert uneven == pytest.approx(16 * 48e-3 + 24e-3 + 9e-3, rel=0.05)
    assert uneven > even


def test_peak_memory_is_that_of_all_ops_whatever_the_detail(text):
    whole = samples(text)["peak_memory"]
    ops = text.replace("detail: layers", "detail: ops").replace("layer-profile, file:", "X")
    ops = ops[: ops.index("backends:")] + 'backends: {"node*.gpu*": {use: roofline}}\n'
    assert samples(ops + "run: {keep: ranks, quick: true}\n")["peak_memory"] == whole


@pytest.mark.parametrize(
    ("set", "told"),
    [
        ("workload.parallel.layers=[6, 7]", r"are 13 layers of 2 stages; give 2 .* add up to 12"),
        ("workload.parallel.layers=[4, 4, 4]", "12 layers of 3 stages; give 2 numbers"),
        ("workload.memory.recompute=selective", "take memory.recompute: none, or full, or exec"),
        ("workload.parallel.zero=1", "take parallel.zero: 0, or execution.detail: ops"),
        ("workload.parallel.micro_batch=8", "was not measured and lies outside"),
        (
            "workload.execution.detail=ops",
            "not an op of a complete layer.* set workload.execution.detail: layers",
        ),
    ],
)
def test_what_a_layer_profile_cannot_tell_is_refused(text, set, told):
    with pytest.raises(ForetraceError, match=told):
        samples(text, set)


def test_chunks_of_unequal_stages_are_refused(text):
    with pytest.raises(ScenarioError, match=r"take schedule.chunks: 1, or leave parallel.layers"):
        samples(text, "workload.parallel.layers=[4, 8]", "workload.schedule={chunks: 2}")


def test_fp32_keeps_no_copy_of_the_weights():
    small = [
        "workload.batch=16",
        "cluster.nodes=1",
        "workload.parallel.zero=0",
        "workload.model=gpt2",
    ]
    small += ["workload.sequence=1024", "workload.memory.recompute=none"]
    told = {}
    for precision in ("fp32", "bf16"):
        (point,) = build_variants(
            load("llama3-8b", set=[*small, f"workload.precision={precision}"])
        )
        told[precision] = point.workloads["main"].plan.precision.state_bytes
    assert told == {"fp32": 16, "bf16": 18}
