"""Who answers for the kernels of recorded traces: as `trace info` says it, so a run does it."""

import os
from pathlib import Path

import pytest
from by_day import every
from foretrace.reports.texts.chain_shares import chain_sentences, short_name
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.explaining.trace_answers import link_shares_by_gpu
from foretrace.scenarios.studies.run.plan import plan
from foretrace.scenarios.studies.variants.preflight import chain_shares_of_point
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.errors import ScenarioError
from foretrace.traces.formats import kineto

ROOT = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[4] / "shared" / "data"))
TRACES = ROOT / "kineto-traces"
OTHERS = ("h100-sxm5-80g", "h200-sxm-141g")
LARGE = 1_000_000  # bytes
SCENARIO = """\
foretrace: 1
name: recorded
question: q
workload: {{trace: '{trace}', recorded_on: {{device: {device}}}, missing_ranks: recorded_waits}}
cluster:
  nodes: 1
  node:
    gpu: {{model: {gpu}, count: 8}}
    host: epyc-7742-dual
    links: [{{from: gpu, to: gpu, via: nvlink4}}, {{from: gpu, to: host, via: pcie5-x16}}]
  fabric: {{library: nccl-nvlink4}}
backends: {backends}
"""
CHAIN = "{node*.gpu*: [carried, roofline, recorded], node*.gpu*.dma: [copy, recorded]}"


def recorded():
    """Every GPU trace at hand: each file is one, but the ranks of a job together."""
    files = sorted(TRACES.rglob("*.json.gz")) if TRACES.is_dir() else []
    kept = [f for f in files if "_et.json" not in f.name and f.parent.name != "et"]
    single = [f for f in kept if f.parent.name != "kineto"]
    return [str(f) for f in single] + [str(d / "rank*.json.gz") for d in TRACES.glob("*/kineto")]


def by_day(traces):
    """Traces of which the large ones wait for the night."""
    return [
        pytest.param(t, marks=pytest.mark.nightly if os.path.getsize(t) > LARGE else ())
        if "*" not in t else t for t in traces
    ]  # fmt: skip


def of(trace, gpu="h100-sxm5-80g", device="a100-sxm4-80g", backends="{}"):
    return loads(SCENARIO.format(trace=trace, gpu=gpu, device=device, backends=backends))


def test_there_are_recorded_traces():
    if not TRACES.is_dir():
        pytest.skip(f"no recorded traces at {TRACES}; set FORETRACE_DATA")
    assert len(recorded()) >= 18


@pytest.mark.parametrize("trace", every(3, by_day(recorded())))
def test_a_run_answers_as_trace_info_says(trace):
    _, graph = kineto.read(trace).info_and_graph()
    told = link_shares_by_gpu(graph, OTHERS, "a100-sxm4-80g")
    for gpu in OTHERS:
        (point,) = build_variants(of(trace, gpu))
        found = chain_shares_of_point(point)["gpu"]
        assert chain_sentences({"gpu": found}) == chain_sentences({"gpu": told[gpu]})
        assert [one["ops"] for one in found["links"]] == [one["ops"] for one in told[gpu]["links"]]


@pytest.mark.parametrize("trace", every(3, by_day(recorded())))
def test_every_trace_runs_with_a_chain(trace):
    for gpu in ("a100-sxm4-80g", *OTHERS):
        (point,) = build_variants(of(trace, gpu, backends=CHAIN))
        assert point.run().makespan > 0


def test_what_nobody_binds_is_a_chain_on_another_gpu_and_said(script, tmp_path):
    trace = with_shapes(script, tmp_path)
    scenario = of(trace)
    (point,) = build_variants(scenario)
    shares = chain_shares_of_point(point)
    assert [one["link"] for one in shares["gpu"]["links"]] == ["carried", "roofline", "recorded"]
    assert [one["ops"] for one in shares["gpu"]["links"]] == [1, 1, 1]
    assert [one["op"] for one in shares["gpu"]["only_recorded"]] == ["compute:my::op"]
    assert plan(scenario).chains == {"base": shares}
    assert (
        chain_shares_of_point(build_variants(of(trace, "a100-sxm4-80g"))[0]) == {}
    )  # all as recorded


def test_nothing_is_carried_to_the_gpu_that_recorded_it(script, tmp_path):
    (point,) = build_variants(of(with_shapes(script, tmp_path), "a100-sxm4-80g", backends=CHAIN))
    shares = chain_shares_of_point(point)["gpu"]
    assert [(one["link"], one["ops"]) for one in shares["links"]][:2] == [
        ("recorded", 3), ("roofline", 0),
    ]  # fmt: skip


def test_a_gpu_that_no_catalog_has_is_refused_by_trace_info(script, tmp_path):
    _, graph = kineto.read([with_shapes(script, tmp_path)]).info_and_graph()
    with pytest.raises(ScenarioError, match="no gpu model named 'h100'; did you mean 'h100-sxm"):
        link_shares_by_gpu(graph, ["h100"])


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("compute:aten::mm/void cutlass::Kernel<a, b>(c) bf16[8x8]", "aten::mm"),
        ("compute:aten::cat", "aten::cat"),
        ("compute:void my::kernel<float, 4>(int, int)", "my::kernel"),
        ("compute:void my::(anonymous namespace)::kernel<float, 4>(int)", "my::kernel"),
        ("compute:void (anonymous namespace)::kernel<float, 4>(int)", "kernel"),
        ("compute:" + "k" * 80, "k" * 60 + "…"),
    ],
)
def test_an_op_is_told_by_a_name_that_fits_a_sentence(signature, name):
    assert short_name(signature) == name


def test_kernels_that_no_operator_launched_are_told_by_their_own_names(script, tmp_path):
    """All kernels that return nothing were one op, "void"."""
    s = script(deviceProperties=[{"name": "A GPU"}])
    for at, name in enumerate(("void a<int>(int)", "void a<float>(float)", "void b<int>(int)")):
        s.launch(1000 * at, 1000 * at + 20, 80, name=name)
    _, graph = kineto.read([str(s.write(tmp_path))]).info_and_graph()
    told = link_shares_by_gpu(graph, ["h100-sxm5-80g"])["h100-sxm5-80g"]
    assert {one["op"]: one["ops"] for one in told["only_recorded"]} == {
        "compute:a": 2,
        "compute:b": 1,
    }


def with_shapes(script, folder):
    """Trace of a product, a softmax, and an op of unknown work, of one rank."""
    s = script(deviceProperties=[{"name": "A GPU"}])
    shapes = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["float", "float"]}
    ops = {"aten::mm": shapes, "aten::_softmax": shapes, "my::op": {}}
    for at, (name, told) in enumerate(ops.items()):
        s.op(name, 1000 * at, 500, **told)
        s.launch(1000 * at + 10, 1000 * at + 20, 80, name=f"kernel{at}")
    return str(s.write(folder))
