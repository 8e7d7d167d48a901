"""Is a step shared among tensor-parallel ranks what Megatron-LM's layers do, op for op?

A GPT of whole layers, recorded and shared by us, against the same model written by hand with
column- and row-parallel layers, recorded over gloo (``helpers/megatron_gpt.py``). Needs torch.
"""

import os
import subprocess
import sys
from collections import Counter
from math import prod
from pathlib import Path

import numpy as np
import pytest
from foretrace.scenarios.workloads.parallel import ScaledParallelism, WantedDegrees
from foretrace.scenarios.workloads.resizing import Resizing
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.signature import Operand, parse_signature
from foretrace.traces.capture.meta import capture_meta
from foretrace.traces.formats import kineto
from foretrace.traces.transform.tensor_parallel import is_tensor_all_reduce
from foretrace.traces.transform.tensor_plan import tensor_plan

pytest.importorskip("torch", reason="layers are compared with torch, which is an extra")
from foretrace.calibration.local.descriptions import dispatched_ops

GPT = Path(__file__).parents[2] / "helpers" / "megatron_gpt.py"
BATCH, LENGTH, WIDTH, HEADS, LAYERS = 2, 24, 64, 4, 2
TOKENS = BATCH * LENGTH
ACTIVATIONS = 4 * TOKENS * WIDTH
"""Bytes that a pair reduces, forward and backward alike."""
WHOLE = Operand("fp32", (BATCH, LENGTH, WIDTH))
FLAT = Operand("fp32", (TOKENS, WIDTH))
REDUCE = "c10d::allreduce"


def recorded(out, world, tensor, kind="fused", bucket=25):
    """Files of a recording of so many ranks."""
    out.mkdir()
    words = [str(out), "{}", str(world), str(tensor), str(bucket), kind]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [
        subprocess.Popen(
            [sys.executable, GPT, *(w.format(rank) for w in words)], env=environment, **quiet
        )
        for rank in range(world)
    ]
    assert [p.wait(timeout=300) for p in started] == [0] * world
    return sorted(out.glob("rank*.json.gz"))


def as_counted(op):
    """An op as (name, operands, flop, bytes); its work where a rule knows it."""
    listed = tuple(Operand("fp32", (sum(map(prod, shapes)),)) for shapes in op.lists)
    known = op.work is not None and not np.isnan(op.work.flop)
    return op.name, op.operands + listed, *(op.work if known else (None, None))


def first_step(ops):
    """Ops of the first of two steps, each of which draws its text first."""
    starts = [i for i, op in enumerate(ops) if op.name == "aten::randint"]
    return Counter(map(as_counted, ops[starts[0] : starts[1] if len(starts) > 1 else None]))


def resized(trace, data=1, tensor=2, bucket=None):
    to = ScaledParallelism(parallel=WantedDegrees(tensor=tensor, data=data), bucket=bucket)
    gpu = {"bandwidth": 1e10, "core": True}
    return Resizing(trace, to, None, gpu, 1.0, {}).apply(trace.graph())


def of_rank(graph, rank=0):
    """Computing ops of a rank's first step, counted as dispatched ones are."""
    ops, found = graph.ops, Counter()
    mine = (ops.rank == rank) & (ops.kind == Kind.COMPUTE) & (ops.period == 0)
    for row in np.flatnonzero(mine).tolist():
        told = parse_signature(ops.signature_text(row))
        found[told.op.removesuffix("_"), told.operands, ops.flop[row], ops.bytes[row]] += 1
    return found


def same_work(ours, theirs):
    """What differs between counted ops: ours only, theirs only; unknown work fits any."""
    unknown = {op[:2] for op in theirs if op[2] is None}

    def comparable(ops):
        made = Counter()
        for op, count in ops.items():
            made[(*op[:2], None, None) if op[:2] in unknown else op] += count
        return made

    ours, theirs = comparable(ours), comparable(theirs)
    return ours - theirs, theirs - ours


def other_views(ours, theirs, layers=2 * LAYERS):
    """Assert that two steps differ by what the hand-written layers do to views, and nothing else.

    They add the bias behind the sum to samples x tokens, so that its gradient is summed over both,
    where the recorded layer summed over rows: as many bytes, and a result as long.
    """
    bias = 0.0, ACTIVATIONS + 4 * WIDTH
    assert ours == {("aten::sum", (FLAT,), *bias): layers}
    assert theirs == {("aten::sum", (WHOLE,), *bias): layers}


def of_compute(theirs):
    """Without the collectives."""
    return Counter({op: count for op, count in theirs.items() if op[0] != REDUCE})


def reduced(theirs):
    """Bytes of each all-reduce of a step: of pairs, and of gradients."""
    sizes = Counter()
    for (name, operands, *_), count in theirs.items():
        if name == REDUCE:
            sizes[sum(o.bytes for o in operands)] += count
    return sizes


def per_step(graph, rows):
    """Bytes of the collectives of the first step."""
    first = rows & (graph.ops.period == 0)
    return Counter(graph.ops.bytes[first].tolist())


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["fused", "gated"])
def test_a_step_recorded_without_running_is_split_like_megatron(kind, tmp_path):
    function = {"fused": "make", "gated": "gated"}[kind]
    path, _ = capture_meta([f"{GPT}:{function}"], tmp_path / "meta")
    graph = resized(kineto.read([path]))
    files = recorded(tmp_path / "hand", 2, 2, kind)
    theirs = first_step(dispatched_ops(kineto.read(files[:1])))
    ours, hand = same_work(of_rank(graph), of_compute(theirs))
    if kind == "gated":  # ops on its square weights: as many numbers, the columns' share of them
        ours, hand = apart(ours), apart(hand)
    other_views(ours, hand)
    assert of_rank(graph, 0) == of_rank(graph, 1)
    rows = is_tensor_all_reduce(graph)
    assert per_step(graph, rows) == reduced(theirs) == {ACTIVATIONS: 4 * LAYERS}
    assert {tuple(graph.explicit.members[r].tolist()) for r in np.flatnonzero(rows)} == {(0, 1)}


def apart(ops):
    """Without what the optimizer does to square weights split by rows."""
    turned = {Operand("fp32", (WIDTH // 2, WIDTH)), Operand("fp32", (WIDTH, WIDTH // 2))}
    return Counter({op: n for op, n in ops.items() if op[1][0] not in turned})


@pytest.mark.nightly
def test_a_recorded_step_of_one_process_is_split_like_megatron(tmp_path):
    trace = kineto.read(recorded(tmp_path / "one", 1, 1))
    theirs = first_step(dispatched_ops(kineto.read(recorded(tmp_path / "hand", 2, 2)[:1])))
    ours = first_step(dispatched_ops(tensor_plan(trace, 2).sharded_trace))
    ours, hand = same_work(ours, of_compute(theirs))
    biases = ("aten::add", (WHOLE, Operand("fp32", (WIDTH,))), 0.0, 2 * ACTIVATIONS + 4 * WIDTH)
    assert hand.pop(biases) == 2 * LAYERS  # added behind the sums, in the graph
    other_views(ours, hand)
    graph = resized(trace)
    added = [graph.label(r).name == "bias behind it" for r in range(len(graph))]
    assert Counter(graph.ops.bytes[added].tolist()) == {biases[3]: 2 * 2 * 2 * LAYERS}
    assert per_step(graph, is_tensor_all_reduce(graph)) == reduced(theirs)


@pytest.mark.nightly
@pytest.mark.parametrize("replicas", [2, 4])
def test_recorded_data_parallel_ranks_are_split_like_megatron(replicas, tmp_path):
    files = recorded(tmp_path / "ddp", replicas, 1)
    hand = recorded(tmp_path / "hand", 2 * replicas, 2)
    theirs = first_step(dispatched_ops(kineto.read(hand[:1])))
    ours = first_step(dispatched_ops(tensor_plan(kineto.read(files[:1]), 2).sharded_trace))
    ours, other = same_work(of_compute(ours), of_compute(theirs))
    biases = ("aten::add", (WHOLE, Operand("fp32", (WIDTH,))), 0.0, 2 * ACTIVATIONS + 4 * WIDTH)
    assert other.pop(biases) == 2 * LAYERS
    other_views(ours, other)
    graph = resized(kineto.read(files), replicas, bucket="25 MiB")
    assert graph.ranks == 2 * replicas
    everything = per_step(graph, graph.ops.kind == Kind.COLLECTIVE)
    pairs = per_step(graph, is_tensor_all_reduce(graph))
    assert pairs == {ACTIVATIONS: replicas * 4 * LAYERS}
    buckets = everything - pairs
    assert buckets == {b: 2 * n for b, n in (reduced(theirs) - pairs).items()}
    members = {tuple(graph.explicit.members[r].tolist()) for r in range(len(graph))}
    assert {m for m in members if len(m) > 1} == {
        *((2 * d, 2 * d + 1) for d in range(replicas)),
        *(tuple(range(t, 2 * replicas, 2)) for t in range(2)),
    }
