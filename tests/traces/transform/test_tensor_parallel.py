"""A recorded step shared among tensor-parallel ranks, and what of it is refused."""

import json
import re
from collections import Counter
from functools import cache
from math import prod

import numpy as np
import pytest
from foretrace.scenarios.workloads.parallel import ScaledParallelism, WantedDegrees
from foretrace.scenarios.workloads.resizing import Resizing
from foretrace.scenarios.workloads.trace_files import open_trace
from foretrace.sim.errors import ScenarioError, TraceError
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.signature import parse_signature
from foretrace.traces.formats import kineto
from foretrace.traces.infer.ranks.gradients import GRADIENT
from foretrace.traces.transform.computing_operators import Operator
from foretrace.traces.transform.linear_pairs import linear_pairs
from foretrace.traces.transform.tensor_parallel import is_tensor_all_reduce
from foretrace.traces.transform.tensor_shards import tensor_shards

TOKENS, WIDTH, LAYERS, WORDS, STEPS = 256, 256, 4, 2048, 10  # of foretrace:gpt
PRODUCTS = ("aten::mm", "aten::addmm")
CORE = {"bandwidth": 1e10, "core": True}


@cache
def recorded(name="foretrace:gpt"):
    trace = open_trace(name, None)
    return trace, trace.graph()


def resized(name="foretrace:gpt", tensor=2, data=1, pipeline=1, bucket=None):
    degrees = WantedDegrees(tensor=tensor, data=data, pipeline=pipeline)
    trace, graph = recorded(name)
    to = ScaledParallelism(parallel=degrees, bucket=bucket)
    return Resizing(trace, to, None, CORE, 1.0, {}).apply(graph)


@cache
def shared(data=1):
    return resized(data=data)


def flop_of_products(graph, rank=0):
    ops = graph.ops
    named = [parse_signature(text).op in PRODUCTS for text in (*ops.signatures, "compute:")]
    return ops.flop[np.array(named)[ops.signature] & (ops.rank == rank)].sum() / STEPS


def test_each_rank_multiplies_its_share_of_the_pairs_and_the_output_layer_whole():
    layer = 2 * TOKENS * WIDTH * (3 * WIDTH + WIDTH + 8 * WIDTH)
    output = 2 * TOKENS * WIDTH * WORDS
    assert flop_of_products(recorded()[1]) == 3 * (LAYERS * layer + output)
    for degree in (2, 4):
        graph = resized(tensor=degree) if degree == 4 else shared()
        for rank in range(degree):
            assert flop_of_products(graph, rank) == 3 * (LAYERS * layer / degree + output)


def test_each_pair_is_reduced_forward_and_backward_among_the_ranks_of_a_replica():
    graph = shared(2)
    rows = np.flatnonzero(is_tensor_all_reduce(graph))
    assert len(rows) == STEPS * LAYERS * 2 * 2 * 2  # pairs of a layer, directions, replicas
    assert set(graph.ops.bytes[rows].tolist()) == {4 * TOKENS * WIDTH}
    members = Counter(tuple(graph.explicit.members[r].tolist()) for r in rows.tolist())
    assert members == {(0, 1): len(rows) / 2, (2, 3): len(rows) / 2}
    buckets = (graph.ops.kind == Kind.COLLECTIVE) & ~is_tensor_all_reduce(graph)
    across = {tuple(graph.explicit.members[r].tolist()) for r in np.flatnonzero(buckets)}
    assert across == {(0, 2), (1, 3)}


def test_gradients_that_are_reduced_among_replicas_are_those_that_a_rank_has():
    graph = shared(2)
    buckets = (graph.ops.kind == Kind.COLLECTIVE) & ~is_tensor_all_reduce(graph)
    layer = 12 * WIDTH**2 / 2 + 7 * WIDTH / 2 + 2 * WIDTH + 4 * WIDTH  # weights, biases, norms
    parameters = LAYERS * layer + 2 * WIDTH + WORDS * WIDTH * 2 + 64 * WIDTH
    assert graph.ops.bytes[buckets].sum() == 4 * parameters * 2 * STEPS  # of two tensor ranks


def test_an_op_of_another_size_has_no_recorded_time_and_all_others_keep_theirs():
    _, before = recorded()
    after = shared()
    n = int((after.ops.rank == 0).sum())
    first = np.flatnonzero(after.ops.rank == 0)[: len(before)]
    assert n == len(before) + STEPS * LAYERS * (4 + 2)  # reductions, and biases behind them
    was, now = before.ops, after.ops.take(first)
    same = [was.signature_text(i) == now.signature_text(i) for i in range(len(was))]
    kept = ~np.isnan(now.duration)
    assert np.array_equal(was.duration[kept], now.duration[kept])
    assert np.array(same)[kept].all()
    assert not np.array(same)[~kept & (now.signature >= 0)].all()
    assert set(np.unique(now.kind[~kept]).tolist()) <= {Kind.COMPUTE}


def test_reshaped_ops_have_the_work_that_their_operands_tell():
    graph = shared()
    ops = graph.ops
    new = (ops.kind == Kind.COMPUTE) & np.isnan(ops.duration)
    for i in np.unique(ops.signature[new]).tolist():
        told = parse_signature(ops.signatures[i])
        row = int(np.flatnonzero(new & (ops.signature == i))[0])
        if told.op == "aten::mm":
            (m, k), (_, n) = (o.shape for o in told.operands)
            assert ops.flop[row] == 2 * m * k * n
            assert ops.bytes[row] == 4 * (m * k + k * n + m * n)
        if told.op == "aten::gelu":
            assert told.operands[0].shape[-1] == 2 * WIDTH
            assert ops.bytes[row] == 2 * told.operands[0].bytes
    assert graph.facts["assumed_to_move_bytes"] == ["aten::cat"]


def test_what_takes_a_reduced_tensor_waits_for_all_ranks():
    graph = shared()
    block, ops = graph.explicit, graph.ops
    waiting = set()
    for row in np.flatnonzero(is_tensor_all_reduce(graph)).tolist():
        after = block.op_of_place[block.successors[row]]
        waiting.add(frozenset(ops.rank[after].tolist()))
    assert waiting == {frozenset({0, 1})}


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (
            {"tensor": 3},
            r"step \d+: .* 4 heads .* not divisible by 3 \(nearest that works: tensor 2\)",
        ),
        ({"tensor": 8}, r"4 heads .* not divisible by 8 \(nearest that works: tensor 4\)"),
        ({"name": "foretrace:resnet50-small"}, r"convolution \[\d+x3x\d+x\d+\].* is a convolution"),
        ({"name": "foretrace:ddp-gpt", "data": 2}, r"bucket 1 of \d+ would hold 3150848 B"),
    ],
)
def test_what_is_not_exact_is_refused_with_the_reason_and_a_cure(wanted, why):
    with pytest.raises(TraceError, match=why) as caught:
        resized(**wanted)
    assert re.search("describe the model|record one process", str(caught.value))


def test_groups_of_which_a_trace_says_nothing_are_refused_with_what_to_do_instead():
    with pytest.raises(ScenarioError, match=r"pipeline: is 2, but 1 was recorded.*describe"):
        resized(pipeline=2)


def op(name, *shapes, **more):
    types = ["TensorList" if s and isinstance(s[0], tuple) else "float" for s in shapes]
    return Operator(0, name, shapes, tuple(types), **more)


def mark(*shape):
    return op("gradient", shape, gradient=True)


def product(m, k, n):
    return op("mm", (m, k), (k, n))


def perceptron(between=(), *, tokens=10, width=8, inner=12, behind=()):
    """A step of two linear layers, a norm before them, and plain gradient descent."""
    gradients = [
        product(tokens, width, inner), product(width, tokens, inner), mark(width, inner),
        *behind,
        product(tokens, inner, width), product(inner, tokens, width), mark(inner, width),
        op("native_layer_norm_backward", (tokens, width), (tokens, width)),
    ]  # fmt: skip
    return [
        op("native_layer_norm", (tokens, width)),
        product(tokens, width, inner), *between, product(tokens, inner, width), *gradients,
        op("add", (inner, width), (inner, width)), op("add", (width, inner), (width, inner)),
    ]  # fmt: skip


GELU, BACK = op("gelu", (2, 5, 12)), op("gelu_backward", (2, 5, 12), (2, 5, 12))


def test_a_pair_is_found_by_its_sizes_and_shared_with_its_weights():
    step = perceptron([GELU], behind=[BACK])
    (pair,) = linear_pairs(step)
    shares = tensor_shards(step, [pair], 2)
    sizes = {at: new.shapes for at, new in shares.operators.items()}
    assert sizes == {
        1: ((10, 8), (8, 6)), 2: ((2, 5, 6),), 3: ((10, 6), (6, 8)),
        4: ((10, 8), (8, 6)), 5: ((8, 10), (10, 6)), 7: ((2, 5, 6), (2, 5, 6)),
        8: ((10, 6), (6, 8)), 9: ((6, 10), (10, 8)),
        12: ((6, 8), (6, 8)), 13: ((8, 6), (8, 6)),
    }  # fmt: skip
    assert shares.gradients == {6: (8, 6), 10: (6, 8)}
    assert [(r.position, r.forward, prod(r.shape)) for r in shares.reduced] == [
        (3, True, 80), (11, False, 80),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("between", "why"),
    [
        ([op("native_layer_norm", (2, 5, 12))], "native_layer_norm .* may mix columns"),
        ([op("_softmax", (2, 5, 12))], "_softmax .* may mix"),
        ([op("my_op", (2, 5, 12))], "my_op .* may mix"),
        ([op("gelu")], "no recorded shapes"),
        ([op("mul", (2, 5, 12), (12,))], "sizes do not show"),
    ],
)
def test_what_may_mix_columns_between_two_layers_makes_no_pair(between, why):
    with pytest.raises(ValueError, match=why):
        linear_pairs(perceptron(between, behind=[BACK]))


def test_layers_as_wide_as_what_lies_between_are_no_pair_because_sizes_do_not_tell():
    with pytest.raises(ValueError, match="sizes do not distinguish them"):
        linear_pairs(perceptron([op("gelu", (10, 8))], inner=8))


def test_products_that_are_no_forward_and_backward_pass_are_refused():
    with pytest.raises(ValueError, match="recomputation, frozen layers"):
        linear_pairs(perceptron([GELU, product(10, 8, 12)], behind=[BACK]))
    with pytest.raises(ValueError, match="no GEMMs"):
        linear_pairs([GELU, mark(8)])
    with pytest.raises(ValueError, match="no backward pass"):
        linear_pairs([product(10, 8, 12), GELU, product(10, 12, 8)])


def test_a_norm_over_a_weight_that_would_be_split_is_refused():
    step = [*perceptron([GELU], behind=[BACK]), op("linalg_vector_norm", (8, 12))]
    with pytest.raises(ValueError, match=r"linalg_vector_norm .* may mix its parts"):
        tensor_shards(step, linear_pairs(step), 2)


SDPA = "_scaled_dot_product_efficient_attention"


def attention(heads=6, keys=2, samples=2, length=5, width=4, *, mask=(5, 5), added=2):
    """A step of grouped-query attention: three layers of one input, and the one behind."""
    tokens, hidden = samples * length, 16
    q, k = (samples, heads, length, width), (samples, keys, length, width)
    made = [heads * width, keys * width, keys * width]
    layers = [product(tokens, hidden, n) for n in made]
    sums = [op("add", (samples, length, hidden), (samples, length, hidden))] * added
    gradients = [
        one
        for n in made[::-1]
        for one in (product(tokens, n, hidden), product(n, tokens, hidden), mark(n, hidden))
    ]
    out = heads * width
    return [
        op("native_layer_norm", (samples, length, hidden)), *layers, op(SDPA, q, k, k, mask),
        op("clone", (samples, length, heads, width)), product(tokens, out, hidden),
        product(tokens, hidden, out), product(hidden, tokens, out), mark(hidden, out),
        op(f"{SDPA}_backward", q, q, k, k, mask, (samples, heads, length)), *gradients, *sums,
        op("native_layer_norm_backward", (samples, length, hidden)),
    ]  # fmt: skip


def test_heads_are_shared_with_those_of_keys_and_values():
    step = attention()
    (pair,) = linear_pairs(step)
    assert (pair.heads.query, pair.heads.key, pair.max_degree) == (6, 2, 2)
    shapes = tensor_shards(step, [pair], 2).operators[4].shapes
    assert shapes == ((2, 3, 5, 4), (2, 1, 5, 4), (2, 1, 5, 4), (5, 5))


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"heads": 5, "keys": 5}, "as many heads as tokens"),
        ({"added": 1}, "do not share their input"),
    ],
)
def test_an_attention_whose_sizes_or_gradients_do_not_tell_is_no_pair(how, why):
    with pytest.raises(ValueError, match=rf"has no pair: .*{why}"):
        linear_pairs(attention(**how))


def test_an_optimizer_of_lists_has_a_share_of_each_tensor():
    lists = op("_foreach_add", ((8, 12), (3,)), ((8, 12), (3,)))
    step = [*perceptron([GELU], behind=[BACK]), lists]
    new = tensor_shards(step, linear_pairs(step), 2).operators[len(step) - 1]
    assert new.shapes == (((8, 6), (3,)), ((8, 6), (3,)))
    assert new.types == ("TensorList[float]", "TensorList[float]")


def on_a_gpu(step, path):
    """A step as a profiler writes it on a GPU: operators, their launches, kernels on a stream."""
    events, at = [], 0
    for number, one in enumerate(step):
        name = GRADIENT if one.gradient else f"aten::{one.name}"
        args = {"Input Dims": one.shapes, "Input type": one.types}
        host = {"ph": "X", "pid": 1, "tid": 1}
        events.append({**host, "cat": "cpu_op", "name": name, "ts": at, "dur": 8, "args": args})
        if not one.gradient:
            launch = {"correlation": number + 1}
            copied = one.name == "copy_"
            call = "cudaMemcpyAsync" if copied else "cudaLaunchKernel"
            kernel = "Memcpy DtoD (Device -> Device)" if copied else f"kernel_of_{one.name}"
            where = {"device": 0, "stream": 7, **launch, "bytes": 4 * prod(one.shapes[0])}
            events += [
                {**host, "cat": "cuda_runtime", "name": call, "ts": at + 2, "dur": 2,
                 "args": launch},
                {"ph": "X", "cat": "gpu_memcpy" if copied else "kernel", "name": kernel, "pid": 0,
                 "tid": 7, "ts": 20 + 20 * number, "dur": 15, "args": where},
            ]  # fmt: skip
        at += 10
    mark = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1}
    events.append({**mark, "ts": 0, "dur": at})
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return kineto.read([path])


def test_kernels_of_a_gpu_are_shared_as_the_operators_that_launched_them(tmp_path):
    copy = op("copy_", (8, 12), (8, 12))
    trace = on_a_gpu([*perceptron([GELU], behind=[BACK]), copy], tmp_path / "rank0.json")
    to = ScaledParallelism(parallel=WantedDegrees(tensor=2))
    graph = Resizing(trace, to, None, {}, 1.0, {}).apply(trace.graph())
    ops = graph.ops
    mine = [
        i for i in range(len(ops)) if ops.rank[i] == 0 and ops.kind[i] in (Kind.COMPUTE, Kind.COPY)
    ]
    names = [ops.signature_text(i) for i in mine if ops.signature[i] >= 0]
    assert "compute:aten::gelu fp32[2x5x6]" in names
    assert "compute:aten::mm fp32[10x6] fp32[6x8]" in names
    copied = [i for i in mine if ops.kind[i] == Kind.COPY]
    assert ops.bytes[copied].tolist() == [4 * 8 * 6]
    assert np.isnan(ops.duration[copied]).all()
    norms = [i for i in mine if "layer_norm" in ops.signature_text(i)]
    assert ops.duration[norms].tolist() == [15e-6, 15e-6]
    second = next(
        i for i in mine if ops.signature_text(i) == "compute:aten::mm fp32[10x6] fp32[6x8]"
    )
    block = graph.explicit
    reduces = np.flatnonzero(is_tensor_all_reduce(graph)).tolist()
    assert [ops.bytes[r] for r in reduces] == [4 * 10 * 8] * 2
    assert any(r in block.op_of_place[block.successors[second]] for r in reduces)
    assert set(graph.streams.values()) >= {"host", "compute"}
