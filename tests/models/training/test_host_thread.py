"""Host threads of described steps: what each dispatches, in which order, and where it waits."""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from foretrace.models.training.description.description import Experts, Transformer
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.program.host_thread import EXCHANGE, OPERATOR
from foretrace.models.training.program.step_graph import step_graph
from foretrace.sim.core.programs.chain_cover import count_chains_by_role
from foretrace.sim.errors import PlanError
from foretrace.sim.facts.ops import Kind

GPT = Transformer(hidden=64, layers=8, heads=4, vocabulary=100, inner=256)
EXCHANGES = (Kind.SEND, Kind.RECV, Kind.COLLECTIVE)
PLANS = {
    "one": {},
    "tensor": {"tensor": 2},
    "sequence": {"tensor": 2, "sequence_parallel": True, "pipeline": 2, "chunks": 2},
    "pipeline": {"pipeline": 4},
    "data": {"data": 2},
    "zero 1": {"data": 2, "zero": 1},
    "zero 3": {"data": 2, "zero": 3, "recompute": "full"},
    "at the end": {"data": 2, "tensor": 2, "overlap": False},
    "ring": {"context": 2},
    "offload": {"data": 2, "offload": True},
    "dualpipe": {"pipeline": 2, "schedule": "dualpipe", "tensor": 2},
    "zb-h1": {"pipeline": 2, "schedule": "zb-h1"},
    "zb-v": {"pipeline": 2, "schedule": "zb-v"},
}


def programs(name, threads=True, steps=2):
    plan = ParallelPlan(batch=8, sequence=16, host_threads=threads, **PLANS[name])
    return step_graph(GPT, plan, steps).template.programs


def thread_rows(program):
    signature = np.array([*program.ops.signatures, ""])[program.ops.signature]
    return np.flatnonzero(np.isin(signature, (OPERATOR, EXCHANGE))), signature


def edges(program):
    after = program.successors
    return set(zip(after.owner.tolist(), after.values.tolist(), strict=True))


def dispatched_by(program, thread):
    """What comes after each row of the thread and is not of the thread."""
    after, rows = defaultdict(list), set(thread.tolist())
    for a, b in edges(program):
        if a in rows and b not in rows:
            after[a].append(b)
    return after


@pytest.mark.parametrize("name", PLANS)
def test_every_op_but_the_hosts_own_is_dispatched_once_by_one_thread(name):
    for program in programs(name):
        thread, signature = thread_rows(program)
        kind = program.ops.kind
        assert len(thread) == np.isin(np.delete(kind, thread), Kind.HOST, invert=True).sum()
        joined, dispatched = edges(program), dispatched_by(program, thread)
        assert all(pair in joined for pair in pairwise(thread.tolist()))
        for row in thread.tolist():
            (op,) = dispatched[row]
            own = signature[row] == EXCHANGE
            assert own == (kind[op] in EXCHANGES)
            assert program.ops.period[row] == program.ops.period[op]


@pytest.mark.parametrize("name", PLANS)
def test_without_its_thread_a_program_is_as_it_was(name):
    for mine, plain in zip(programs(name), programs(name, threads=False), strict=True):
        thread, _ = thread_rows(mine)
        rest = np.setdiff1d(np.arange(len(mine)), thread)
        place = np.full(len(mine), -1)
        place[rest] = np.arange(len(rest))
        assert np.array_equal(mine.ops.kind[rest], plain.ops.kind)
        texts = [np.array([*p.ops.signatures, ""])[p.ops.signature] for p in (mine, plain)]
        assert np.array_equal(texts[0][rest], texts[1])
        assert np.array_equal(mine.family[rest], plain.family)
        kept = {(place[a], place[b]) for a, b in edges(mine) if place[a] >= 0 <= place[b]}
        assert kept == edges(plain)


@pytest.mark.parametrize("name", PLANS)
def test_no_more_chains_of_ops_on_a_gpu_so_that_ranks_stay_folded(name):
    role = np.array([0, 1, 2, 3, 3, 3, 3, 3])
    for mine, plain in zip(programs(name), programs(name, threads=False), strict=True):
        with_thread, without = (count_chains_by_role(p, role[p.ops.kind]) for p in (mine, plain))
        assert with_thread[0] == without[0]
        assert with_thread[1] == without[1] + 1


def awaited(name):
    """Labels of what the thread waits for, and how often."""
    plan = ParallelPlan(batch=8, sequence=16, host_threads=True, **PLANS[name])
    graph = step_graph(GPT, plan, 1)
    program = graph.template.programs[0]
    thread, _ = thread_rows(program)
    on_thread = set(thread.tolist())
    rows = [a for a, b in edges(program) if b in on_thread and a not in on_thread]
    labels = [graph.labels[program.ops.label[row]].name for row in rows]
    return {label: labels.count(label) for label in labels}


def test_the_thread_waits_for_the_norm_and_for_messages_of_other_stages():
    assert awaited("one") == {"gradient norm": 1}
    assert awaited("ring") == {"gradient norm": 1}  # its messages are ops of attention
    assert awaited("pipeline") == {"gradient norm": 1, "recv gradients": 8}


def test_an_exchange_is_dispatched_before_what_runs_beside_it():
    (program,) = programs("tensor", steps=1)
    thread, _ = thread_rows(program)
    by_row = dispatched_by(program, thread)
    dispatched = [by_row[row][0] for row in thread.tolist()]
    kinds = program.ops.kind[dispatched]
    late = [
        r for i, r in enumerate(dispatched[:-1])
        if kinds[i] == Kind.COLLECTIVE and kinds[i + 1] == Kind.COMPUTE and dispatched[i + 1] < r
    ]  # fmt: skip
    assert len(late) == 8 * (2 * 8 + 1)  # micro-batches; two in each layer, one in the output


def test_layers_timed_whole_have_no_thread():
    plan = ParallelPlan(batch=8, sequence=16, whole_layers=True, host_threads=True)
    with pytest.raises(
        PlanError,
        match=r"workload.execution.hosts: .* take execution.hosts: ahead, or execution.detail: ops",
    ):
        step_graph(GPT, plan)


@pytest.mark.parametrize(("exchange", "waits"), [("normal", 2), ("low-latency", 0)])
def test_the_host_waits_for_how_many_tokens_go_where_but_for_a_low_latency_exchange(
    exchange, waits
):
    """Once for each layer and micro-batch, after the router, forward."""
    model = replace(GPT, layers=2, experts=Experts(4, 2, 64))
    plan = ParallelPlan(batch=2, sequence=16, data=2, expert=2, host_threads=True,
                        exchange=exchange)  # fmt: skip
    (program,) = step_graph(model, plan).template.programs
    thread, signature = thread_rows(program)
    router = {row for row, text in enumerate(signature) if "aten::_softmax fp32[16x4]" in text}
    held = [(a, b) for a, b in edges(program) if a in router and b in set(thread.tolist())]
    assert len(router) == 2
    assert len(held) == waits
