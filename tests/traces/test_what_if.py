"""Questions to recorded traces, by ablation: what another GPU would have done, from the raw file.

``raw_what_if`` computes the longest path with the GPU's work taken away, halved or doubled, from
the file alone.  The recorded data is not part of the repository; where it is absent these skip.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import raw_what_if
from foretrace.sim.ops import Kind
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


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("factor", [0, 0.5])
def test_a_quicker_gpu_leaves_the_longest_path_of_the_raw_file(data, ask, name, factor):
    graph, raw = both(data / f"{name}.json.gz")
    assert ask(graph, gpu=factor) == pytest.approx(raw_what_if.what_if(raw, factor), rel=0.05)


@pytest.mark.parametrize("name", TRACES)
def test_a_gpu_twice_as_slow_takes_twice_as_long_where_it_is_the_limit(data, ask, name):
    graph, raw = both(data / f"{name}.json.gz")
    recorded = ask(graph)
    assert recorded == pytest.approx(raw_what_if.what_if(raw, 1), rel=0.01)
    if raw_what_if.busy_share(raw) > 0.95:
        assert ask(graph, gpu=2) == pytest.approx(2 * recorded, rel=0.05)
    assert recorded - 1e-6 <= ask(graph, gpu=2) <= 2 * recorded + 1e-6


def test_a_watchdog_bounds_no_step(data, replay):
    """It asks ``cudaEventQuery`` every 100 ms: 220 ms and -12.5 % were said, as if it worked."""
    graph, _ = both(data / "ddp-A100x2/rank0.json.gz")
    recorded, halved, none = (_iteration(scaled(graph, host=by), replay) for by in (1, 0.5, 0))
    assert halved == pytest.approx(118e-3, rel=0.01)
    assert none / recorded - 1 == pytest.approx(-0.808, abs=0.002)
    assert graph.facts["unawaited_threads"] == 1


def _iteration(graph, replay):
    """Median time from the last end of one step to that of the next, s."""
    end, period = replay(graph)[1], graph.ops.period
    return np.median(np.diff([0.0, *(end[period == i].max() for i in range(period.max() + 1))]))
