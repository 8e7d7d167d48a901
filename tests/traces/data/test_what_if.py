"""Questions to recorded traces, by ablation: what another GPU would have done, from the raw file.

``raw_what_if`` computes the longest path with the GPU's work taken away, halved or doubled, from
the file alone. The recorded data is not part of the repository; where it is absent these skip.
"""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import raw_what_if
from by_day import only
from foretrace.sim.facts.ops import Kind
from foretrace.traces.formats import kineto

TRACES = (
    "ddp-A100x2/rank0",
    "ddp-V100x1/rank0",
    "dlrm-A100x8-rank3/control",
    "dlrm-V100x2-rank1/test",
    "h100-mi300-pairs/bert-small.h100",
    "h100-mi300-pairs/bert-small.mi300",
    "h100-mi300-pairs/nsfw-vit.h100",
    "h100-mi300-pairs/nsfw-vit.mi300",
    "h100-mi300-pairs/qwen1.5-0.5b-chat.h100",
    "h100-mi300-pairs/qwen1.5-0.5b-chat.mi300",
    "param-rtx2080ti/linear_kineto",
    "param-rtx2080ti/resnet_kineto",
    "resnet-actckpt-MI300Xx8-rank0/trace",
    "resnet50-V100-workers0/run1",
    "resnet50-V100-workers0/run2",
    "sglang-qwen3-8b-MI300X/decode_graph",
    "sglang-qwen3-8b-MI300X/prefilldecode",
    *(f"dlrm-8xV100/kineto/rank{r}" for r in range(8)),
)
NIGHTLY = pytest.mark.nightly
BY_DAY = only(
    ["ddp-A100x2/rank0", "dlrm-8xV100/kineto/rank1", "h100-mi300-pairs/nsfw-vit.mi300"], TRACES
)

ONE_RANK = """
foretrace: 1
name: recorded
workload:
  trace: {trace}
  missing_ranks: recorded_waits
  recorded_on: {{device: a100-sxm4-80g, nodes: 1}}
cluster:
  nodes: 1
  node: {{gpu: {{model: a100-sxm4-80g, count: 1}}, host: {{cores: 16}}}}
"""


@cache
def both(path):
    """The graph of a trace, and its raw file."""
    graph = kineto.read(path).graph(missing_ranks="recorded_waits")
    return graph, raw_what_if.Raw(path)


def scaled(graph, *, gpu=1.0, host=1.0):
    """The graph with work of the GPU, or of the host, that many times as long."""
    block, kind = graph.explicit, graph.ops.kind
    lanes = zip(graph.ops.rank.tolist(), graph.ops.stream.tolist(), strict=True)
    on_host = np.array([graph.streams[lane] == "host" for lane in lanes])
    work = np.isin(kind, (Kind.COMPUTE, Kind.COPY, Kind.COLLECTIVE, Kind.HOST))
    factor = np.where(work, np.where(on_host, host, gpu), 1.0)
    ops = block.ops.replace(duration=block.ops.duration * factor)
    return replace(graph, blocks=(replace(block, ops=ops),))


@pytest.fixture
def ask(replay):
    def ms(graph, **factors):
        begins = graph.explicit.release[graph.ops.stream == 0].min()
        return (replay(scaled(graph, **factors))[1].max() - begins) * 1e3

    return ms


@pytest.mark.parametrize("name", BY_DAY)
@pytest.mark.parametrize("factor", [0, pytest.param(0.5, marks=NIGHTLY)])
def test_a_quicker_gpu_leaves_the_longest_path_of_the_raw_file(data, ask, name, factor):
    graph, raw = both(data / f"{name}.json.gz")
    found, truth = ask(graph, gpu=factor), raw_what_if.what_if(raw, factor)
    print(f"\n{name}: GPU x {factor}: {found:.3f} ms, raw file {truth:.3f}")
    assert found == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("name", BY_DAY)
def test_a_gpu_twice_as_slow_takes_twice_as_long_where_it_is_the_limit(data, ask, name):
    graph, raw = both(data / f"{name}.json.gz")
    recorded, twice, busy = ask(graph), ask(graph, gpu=2), raw_what_if.busy_share(raw)
    print(f"\n{name}: GPU x 2: {twice / recorded:.3f} times {recorded:.3f} ms, busy {busy:.1%}")
    assert recorded == pytest.approx(raw_what_if.what_if(raw, 1), rel=0.01)
    if busy > 0.95:
        assert twice == pytest.approx(2 * recorded, rel=0.05)
    assert recorded - 1e-6 <= twice <= 2 * recorded + 1e-6


HALVED = """
backends: {fabric: {use: recorded}}
what_if:
  - name: half
    override: {node0.gpu0: {slowdown: 0.5}, node0.gpu0.dma: {slowdown: 0.5}}
    ops: [{where: {kind: collective}, scale: 0.5}]
run: {quick: true}
"""


@pytest.mark.parametrize(
    "name",
    ["dlrm-8xV100/kineto/rank1", pytest.param("dlrm-A100x8-rank3/control", marks=NIGHTLY)],
)
def test_kernels_that_a_scenario_halves_leave_the_longest_path_of_the_raw_file(
    data, cli, tmp_path, monkeypatch, name
):
    """As a user asks: a GPU that is busy for 66, or 84 %, of its time and the host for the rest."""
    monkeypatch.chdir(tmp_path)
    path = data / f"{name}.json.gz"
    (tmp_path / "a.yaml").write_text(ONE_RANK.format(trace=path) + HALVED)
    code, out, err = cli("run", "a.yaml", "--json")
    assert code == 0, err
    points = json.loads(out)["points"]
    base, half = (points[k]["metrics"]["makespan"]["value"] for k in ("base", "half"))
    raw = both(path)[1]
    assert base * 1e3 == pytest.approx(raw_what_if.what_if(raw, 1), rel=0.01)
    assert half * 1e3 == pytest.approx(raw_what_if.what_if(raw, 0.5), rel=0.05)


def test_a_watchdog_thread_does_not_bound_the_step(data, cli, tmp_path, monkeypatch):
    """It asks ``cudaEventQuery`` every 100 ms: 220 ms and -12.5 % were said, as if it worked.

    118 ms and -80.8 % are what the same file says without that thread's events, a collective of
    one rank taking no time.
    """
    monkeypatch.chdir(tmp_path)
    text = ONE_RANK.format(trace=data / "ddp-A100x2/rank0.json.gz")
    text += "what_if: [{name: quick, override: {node0.host: {slowdown: 0.5}}}]\n"
    (tmp_path / "a.yaml").write_text(text)
    code, out, err = cli("run", "a.yaml", "--json")
    assert code == 0, err
    base, quick = (json.loads(out)["points"][name] for name in ("base", "quick"))
    assert quick["metrics"]["iteration_time.p50"]["value"] == pytest.approx(118e-3, rel=0.01)
    (host,) = [f for f in base["faster"] if f["group"] == "host"]
    assert host["bound"] == pytest.approx(-0.808, abs=0.001)
    assert base["facts"]["unawaited_threads"] == 1


@pytest.mark.parametrize("name", BY_DAY)
def test_trace_info_says_what_a_run_rests_on(data, name):
    """The gap share was 0.517 in one and 0.685 in the other, of one trace."""
    info = kineto.read(data / f"{name}.json.gz").info()
    graph = both(data / f"{name}.json.gz")[0]
    assert {k: graph.facts[k] for k in info.facts} == info.facts
    assert graph.facts["host_time"] == info.host_time
    assert sum(info.host_time.values()) == pytest.approx(1)


@pytest.mark.parametrize("name", BY_DAY)
def test_every_gpu_op_is_in_the_graph_or_counted(data, name):
    """968 of 3,653 were left out of one trace, and 5 of its 17 collectives, without a word."""
    graph, raw = both(data / f"{name}.json.gz")
    kind, facts = graph.ops.kind, graph.facts
    lanes = zip(graph.ops.rank.tolist(), graph.ops.stream.tolist(), strict=True)
    gpu = np.array([graph.streams[lane] != "host" for lane in lanes])
    named = (graph.ops.label >= 0) & np.isin(kind, (Kind.COMPUTE, Kind.COPY, Kind.COLLECTIVE))
    assert (gpu & named).sum() + facts["left_out"] == len(raw.work)
    unlinked = sum(call is None for _, call in raw.work)
    assert facts["unlinked_share"] * (len(raw.work) - facts["left_out"]) <= unlinked + 1e-6
