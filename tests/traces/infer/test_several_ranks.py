"""Several ranks: collectives matched, clocks aligned, missing ranks."""

import numpy as np
import pytest
from foretrace.sim.errors import TraceError
from foretrace.sim.facts.ops import Kind
from foretrace.traces.formats import kineto

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def member(script, rank, arrivals, ends, *, world=2, shift=0.0, name=NCCL, elements=100, step=500):
    """One rank with collectives that it enters and leaves at given times."""
    s = script(rank=rank, world=world)
    s.step(1, shift, step)
    s.op("train", shift, step)
    for arrive, end in zip(arrivals, ends, strict=True):
        s.add(
            "user_annotation",
            "nccl:all_reduce",
            shift + arrive - 6,
            5,
            **{"Input Dims": [[elements]], "Input type": ["float"]},
        )
        s.launch(shift + arrive - 5, shift + arrive, end - arrive, stream=20, name=name)
    return s


def read(tmp_path, *scripts):
    return kineto.read([s.write(tmp_path) for s in scripts])


def test_a_collective_is_one_op_with_a_place_on_every_member(script, tmp_path, replay):
    trace = read(tmp_path, member(script, 0, [50], [120]), member(script, 1, [100], [120]))
    graph = trace.graph()
    row = int(np.flatnonzero(graph.ops.kind == Kind.COLLECTIVE)[0])
    assert graph.explicit.members[row].tolist() == [0, 1]
    assert graph.ops.signature_text(row) == "collective:all-reduce fp32[100]"
    assert graph.ops.bytes[row] == 400
    start, end = replay(graph)
    assert start[row] == pytest.approx(100e-6), "the last arriver starts it"
    assert end[row] == pytest.approx(120e-6), "the shortest duration is the transfer"


def test_an_earlier_last_arriver_ends_it_earlier(script, tmp_path, replay):
    trace = read(tmp_path, member(script, 0, [50], [120]), member(script, 1, [100], [120]))
    graph = trace.graph()
    ops = graph.ops
    fast = np.where((ops.rank == 1) & (ops.kind == Kind.HOST), ops.duration / 2, ops.duration)
    row = int(np.flatnonzero(ops.kind == Kind.COLLECTIVE)[0])
    assert replay(graph.with_ops(ops.replace(duration=fast)))[1][row] == pytest.approx(
        72.5e-6, abs=3e-6
    )


def test_starts_of_steps_are_release_times(script, tmp_path, replay):
    a = member(script, 0, [50], [120], shift=0)
    b = member(script, 1, [60], [90], shift=30)
    graph = read(tmp_path, a, b).graph()
    start, end = replay(graph)
    row = int(np.flatnonzero(graph.ops.kind == Kind.COLLECTIVE)[0])
    assert (start[row], end[row]) == pytest.approx((90e-6, 120e-6))


def test_clocks_are_aligned_when_collectives_prove_them_wrong(script, tmp_path, replay):
    ends = [[120, 220, 330], [121, 220, 329]]
    a = member(script, 0, [50, 190, 300], ends[0])
    b = member(script, 1, [100, 200, 250], ends[1], shift=1_000_000)
    graph = read(tmp_path, a, b).graph()
    assert graph.facts["clock"] == "shifted by up to 1 s so that collectives end together"
    rows = np.flatnonzero(graph.ops.kind == Kind.COLLECTIVE)
    start, _ = replay(graph)
    assert (start[rows] * 1e6).tolist() == pytest.approx([100, 200, 300])


def test_clocks_are_kept_while_nothing_contradicts_them(script, tmp_path):
    graph = read(tmp_path, member(script, 0, [50], [120]), member(script, 1, [100], [125])).graph()
    assert graph.facts["clock"] == "as recorded"


def test_clocks_that_drift_apart_are_refused(script, tmp_path):
    a = member(script, 0, [50, 5_000], [120, 5_100], step=90_000)
    b = member(script, 1, [50, 85_000], [120, 85_100], step=90_000)
    with pytest.raises(TraceError) as caught:
        read(tmp_path, a, b).graph()
    assert str(caught.value) == (
        "rank1.json.gz: collective:all-reduce fp32[100] of rank 1 is 0.0399 s away from the same "
        "collective of rank 0, for any shift of the clocks; the files are of different runs or "
        "of drifting clocks, record them together"
    )


def test_ranks_that_were_not_recorded_are_refused(script, tmp_path):
    trace = read(tmp_path, member(script, 3, [50], [120], world=8))
    with pytest.raises(TraceError) as caught:
        trace.graph()
    assert str(caught.value) == (
        "rank3.json.gz: collectives involve ranks 0, 1, 2, 4, 5, 6, 7, which were not recorded; "
        "add their files, or choose what replaces them (missing_ranks: like_recorded | "
        "recorded_waits)"
    )


def test_recorded_waits_keep_what_was_recorded(script, tmp_path, replay):
    graph = read(tmp_path, member(script, 3, [50], [120], world=8)).graph(
        missing_ranks="recorded_waits"
    )
    row = int(np.flatnonzero(graph.ops.kind == Kind.COLLECTIVE)[0])
    assert graph.ranks == 1
    assert graph.ops.duration[row] == pytest.approx(70e-6)


def test_like_recorded_copies_the_recorded_ranks(script, tmp_path, replay):
    trace = read(
        tmp_path, member(script, 0, [50], [120], world=4), member(script, 1, [60], [120], world=4)
    )
    graph = trace.graph(missing_ranks="like_recorded")
    row = np.flatnonzero(graph.ops.kind == Kind.COLLECTIVE)
    assert graph.ranks == 4
    assert [graph.explicit.members[int(r)].tolist() for r in row] == [[0, 1, 2, 3]]


def test_one_process_of_a_large_job_without_collectives_needs_no_others(script, tmp_path):
    s = script(rank=0, world=8)
    s.op("aten::mm", 0, 10)
    assert len(s.read(tmp_path).graph()) == 1


def test_ranks_that_recorded_different_steps_are_refused(script, tmp_path):
    a, b = script(rank=0, world=2), script(rank=1, world=2)
    for s, first in ((a, 4), (b, 5)):
        for k in range(3):
            s.step(first + k, 100 * k, 100)
            s.op("aten::mm", 100 * k, 90)
    with pytest.raises(TraceError) as caught:
        read(tmp_path, a, b).graph()
    assert str(caught.value) == (
        "rank1.json.gz: has steps 5 to 7, but rank0.json.gz has 4 to 6; keep those of both "
        "(iterations: [5, 6])"
    )
    assert read(tmp_path, a, b).graph(periods=[5, 6]).facts["steps"] == (5, 6)


def test_a_send_and_its_recv_in_a_group_of_two_are_one_op(script, tmp_path, replay):
    def end(rank, what, arrive, leave):
        s = member(script, rank, [arrive], [leave], name="ncclDevKernel_SendRecv")
        for e in s.events:
            e["name"] = e["name"].replace("all_reduce", what)
        return s

    graph = read(tmp_path, end(0, "send", 50, 120), end(1, "recv", 20, 121)).graph()
    row = int(np.flatnonzero(graph.ops.kind == Kind.COLLECTIVE)[0])
    assert graph.explicit.members[row].tolist() == [0, 1]
    assert replay(graph)[1][row] == pytest.approx(120e-6)


def test_a_rank_outside_its_own_group_is_refused(script, tmp_path):
    s = script(rank=0, world=2)
    said = {"Collective name": "allreduce", "Process Group Ranks": "[1]"}
    s.launch(5, 10, 50, stream=20, name=NCCL, **said)
    with pytest.raises(TraceError) as caught:
        s.read(tmp_path).graph(missing_ranks="recorded_waits")
    assert str(caught.value) == (
        "rank0.json.gz: rank 0 takes part in a collective of ranks 1, to which it does not belong; "
        "the file names its rank or the group wrongly, record it again"
    )


def test_different_numbers_of_collectives_are_refused(script, tmp_path):
    trace = read(tmp_path, member(script, 0, [50, 200], [120, 220]), member(script, 1, [50], [120]))
    with pytest.raises(
        TraceError, match=r"rank1.json.gz: rank 1 has 1 collectives .* others 2; record"
    ):
        trace.graph()


def test_different_collectives_are_refused(script, tmp_path):
    other = member(script, 1, [50], [120])
    for e in other.events:
        e["name"] = e["name"].replace("all_reduce", "all_gather").replace("AllReduce", "AllGather")
    with pytest.raises(TraceError) as caught:
        read(tmp_path, member(script, 0, [50], [120]), other).graph()
    assert str(caught.value) == (
        "rank1.json.gz: collective 0 is collective:all-gather fp32[100] on rank 1, but "
        "collective:all-reduce fp32[100] on rank 0; give traces of the same steps of one job"
    )


def test_collectives_in_opposite_order_are_a_cycle(script, tmp_path):
    """Two groups on two streams, entered in opposite order: each rank waits for the other."""

    def crossed(rank, first, second):
        s = script(rank=rank, world=2)
        s.step(1, 0, 500)
        s.op("train", 0, 500)
        for at, group in ((50, first), (150, second)):
            said = {
                "Collective name": "allreduce",
                "dtype": "Float",
                "In msg nelems": 8,
                "Out msg nelems": 8,
                "Process Group Name": group,
                "Process Group Ranks": "[0, 1]",
            }
            s.launch(at - 5, at, 90, stream=20, name=NCCL, **said)
        return s

    with pytest.raises(TraceError) as caught:
        read(tmp_path, crossed(0, "a", "b"), crossed(1, "b", "a")).graph()
    assert str(caught.value) == (
        "rank0.json.gz,rank1.json.gz: collective:all-reduce fp32[8] (op 3) and "
        "collective:all-reduce fp32[8] (op 4) wait for each other: ranks enter them in different "
        "orders; the files are of different runs, record them together"
    )


def gloo(script, rank, issues, starts, ends, copies, *, sizes, step=1000):
    """One rank of DDP over gloo: issues on the main thread, transfers on two others."""
    s = script(rank=rank, world=2)
    s.step(1, 0, step)
    for k, (issue, start, end) in enumerate(zip(issues, starts, ends, strict=True)):
        shape = {"Input Dims": [[[sizes[k]]]], "Input type": ["TensorList"]}
        s.op("c10d::allreduce_", issue, 10, **shape)
        flat = {"Input Dims": [[sizes[k]]], "Input type": ["float"]}
        s.add("user_annotation", "gloo:all_reduce", start, end - start, tid=8 + k % 2, **flat)
    for time, size in copies:
        s.op(
            "torch.distributed.ddp.reducer::copy_bucket_to_grad",
            time,
            5,
            **{"Input Dims": [[size]], "Input type": ["float"]},
        )
    s.op("aten::add_", step - 100, 100)
    return s


def test_gloo_collectives_are_not_dropped_and_each_bucket_waits_for_its_own(
    script, tmp_path, replay
):
    """No record_param_comms there: issue, transfer thread and copies back tell."""
    scripts = [
        gloo(
            script,
            r,
            [100, 200],
            [120, 220],
            [400, 700],
            [(410, 60), (420, 40), (705, 50)],
            sizes=[100, 50],
        )
        for r in (0, 1)
    ]
    graph = read(tmp_path, *scripts).graph()
    rows = np.flatnonzero(graph.ops.kind == Kind.COLLECTIVE)
    assert [graph.ops.signature_text(int(r)) for r in rows] == [
        "collective:all-reduce fp32[100]",
        "collective:all-reduce fp32[50]",
    ]
    assert graph.facts["unresolved_waits"] == 0
    ops = graph.ops
    slow = ops.duration.copy()
    slow[rows[1]] += 200e-6
    start, _ = replay(graph)
    later = replay(graph.with_ops(ops.replace(duration=slow)))[0]
    copies = [
        i
        for i in range(len(graph))
        if "copy_bucket" in graph.label(i).name and ops.rank[i] == 0 and ops.duration[i] > 0
    ]
    moved = ((later - start)[copies] * 1e6).round(3).tolist()
    assert moved == [0, 0, 200], "only the second bucket's copy waits for the second collective"


def test_a_blocking_gloo_collective_is_waited_for_in_the_pause_it_ended_in(
    script, tmp_path, replay
):
    scripts = []
    for r in (0, 1):
        s = script(rank=r, world=2)
        s.step(1, 0, 500)
        s.op("c10d::broadcast_", 50, 10, **{"Input Dims": [[[9]]], "Input type": ["TensorList"]})
        s.add(
            "user_annotation",
            "gloo:broadcast",
            70,
            200,
            tid=9,
            **{"Input Dims": [[9]], "Input type": ["float"]},
        )
        s.op("aten::mm", 280, 220)
        scripts.append(s)
    graph = read(tmp_path, *scripts).graph()
    ops = graph.ops
    end = replay(
        graph.with_ops(
            ops.replace(
                duration=np.where(ops.kind == Kind.COLLECTIVE, ops.duration + 1e-4, ops.duration)
            )
        )
    )[1]
    assert end.max() == pytest.approx(600e-6)


def test_a_rank_that_leaves_a_gloo_collective_late_keeps_its_own_end(
    script, tmp_path, replay, step_times
):
    a = gloo(script, 0, [100], [120], [400], [(410, 100)], sizes=[100])
    b = gloo(script, 1, [100], [120], [460], [(470, 100)], sizes=[100])
    graph = read(tmp_path, a, b).graph()
    start, end = replay(graph)
    row = int(np.flatnonzero(graph.ops.kind == Kind.COLLECTIVE)[0])
    assert (start[row], end[row]) == pytest.approx((120e-6, 400e-6))
    for rank, at in ((0, 410e-6), (1, 470e-6)):
        copy = next(
            i
            for i in range(len(graph))
            if "copy_bucket" in graph.label(i).name
            and graph.ops.rank[i] == rank
            and graph.ops.duration[i] > 0
        )
        assert start[copy] == pytest.approx(at)
