"""What waits for what, on traces small enough to check in the head (times in µs)."""

import numpy as np
import pytest
from foretrace.sim.errors import TraceError
from foretrace.sim.facts.ops import Kind


def shown(graph, replay, *, microseconds=1e6):
    """(kind, label, start, end) of every op that takes time, by start."""
    start, end = replay(graph)
    rows = [
        (k, graph.label(i).name, round(start[i] * microseconds, 3), round(end[i] * microseconds, 3))
        for i, k in enumerate(graph.ops.kind_names)
        if graph.ops.duration[i] > 0
    ]
    return sorted(rows, key=lambda r: (r[2], r[3], r[1]))


def scaled(graph, kind, factor):
    """The same graph with ops of one kind faster or slower."""
    ops = graph.ops
    return graph.with_ops(
        ops.replace(duration=np.where(ops.kind == kind, ops.duration * factor, ops.duration))
    )


def test_a_launch_waits_for_the_host_and_a_kernel_for_its_launch(script, tmp_path, replay):
    s = script()
    s.step(1, 0, 30)
    s.op("aten::mm", 0, 12)
    s.launch(4, 8, 10)
    s.op("aten::add", 12, 18)
    graph = s.read(tmp_path).graph()
    assert shown(graph, replay) == [
        ("host", "aten::mm", 0, 7),
        ("delay", "launch of gemm", 7, 8),
        ("host", "aten::add", 7, 30),
        ("compute", "gemm", 8, 18),
    ], "the host is cut where the launch call returns; its longest piece names what follows"


@pytest.mark.parametrize("name", ["aten::view", "aten::t", "aten::empty", "detach", "c10d::send"])
def test_an_operator_that_touches_no_numbers_is_no_compute_op(name, script, tmp_path):
    s = script()
    s.step(1, 0, 30)
    s.op("aten::mm", 0, 12)
    s.op(name, 12, 18)
    ops = s.read(tmp_path).graph().ops
    assert ops.kind.tolist() == [Kind.COMPUTE, Kind.HOST]


def test_a_faster_host_moves_a_launch_bound_kernel(script, tmp_path, replay):
    s = script()
    s.step(1, 0, 100)
    s.op("aten::mm", 0, 90)
    s.launch(80, 84, 10)
    graph = s.read(tmp_path).graph()
    kernel = int(np.flatnonzero(graph.ops.kind == Kind.COMPUTE)[0])
    assert replay(graph)[0][kernel] == pytest.approx(84e-6)
    assert replay(scaled(graph, Kind.HOST, 0.5))[0][kernel] == pytest.approx(84e-6 - 83e-6 / 2)


def test_kernels_of_one_stream_run_in_order(script, tmp_path, replay):
    s = script()
    s.step(1, 0, 40)
    s.op("aten::mm", 0, 40)
    s.launch(1, 5, 20)
    s.launch(5, 25, 10)
    s.launch(9, 13, 2, stream=8)
    graph = s.read(tmp_path).graph()
    kernels = np.flatnonzero(graph.ops.kind == Kind.COMPUTE)
    start, _ = replay(scaled(graph, Kind.COMPUTE, 2))
    assert (start[kernels] * 1e6).round(3).tolist() == [5, 45, 13]


def test_a_synchronisation_waits_and_what_follows_waits_with_it(script, tmp_path, replay):
    s = script()
    s.step(1, 0, 60)
    s.op("aten::mm", 0, 10)
    s.launch(1, 5, 30)
    s.call("cudaDeviceSynchronize", 12, 26)
    s.op("aten::add", 40, 20)
    graph = s.read(tmp_path).graph()
    last = max(range(len(graph)), key=lambda i: replay(graph)[1][i])
    assert replay(graph)[1][last] == pytest.approx(60e-6)
    assert replay(scaled(graph, Kind.COMPUTE, 2))[1][last] == pytest.approx(90e-6)
    assert replay(scaled(graph, Kind.COMPUTE, 0.1))[1][last] == pytest.approx(37e-6), (
        "with 3 us of kernel the wait ends when it is called, at 12 us"
    )
    assert graph.facts["inferred_share"] == 0


def test_a_copy_that_ends_within_its_call_blocks_the_host(script, tmp_path, replay):
    s = script()
    s.step(1, 0, 50)
    s.op("aten::item", 0, 50)
    c = s.call("cudaMemcpyAsync", 10, 20)
    s.add(
        "gpu_memcpy",
        "Memcpy DtoH (Device -> Pageable)",
        14,
        12,
        pid=0,
        tid=7,
        stream=7,
        correlation=c,
        bytes=4,
    )
    graph = s.read(tmp_path).graph()
    copy = int(np.flatnonzero(graph.ops.kind == Kind.COPY)[0])
    assert graph.ops.signature_text(copy) == "copy:d2h"
    assert graph.ops.bytes[copy] == 4
    _, end = replay(scaled(graph, Kind.COPY, 3))
    assert end.max() == pytest.approx(74e-6)


def test_backward_on_its_own_thread_is_waited_for(script, tmp_path, replay):
    s = script()
    s.step(1, 0, 100)
    s.op("aten::mm", 0, 20)
    s.op("autograd::engine::evaluate_function: MmBackward0", 25, 50, tid=2)
    s.op("aten::add_", 80, 20)
    graph = s.read(tmp_path).graph()
    assert shown(graph, replay) == [
        ("compute", "aten::mm", 0, 20),
        ("gap", "gap", 20, 25),
        ("compute", "autograd::engine::evaluate_function: MmBackward0", 25, 75),
        ("gap", "gap", 75, 80),
        ("compute", "aten::add_", 80, 100),
    ]
    assert replay(scaled(graph, Kind.COMPUTE, 2))[1].max() == pytest.approx(190e-6)
    assert graph.facts["gap_share"] == pytest.approx(0.1)


def test_time_that_nothing_explains_is_a_gap(script, tmp_path, replay):
    s = script()
    s.step(1, 0, 100)
    s.op("aten::mm", 10, 20)
    s.op("aten::mm", 60, 40)
    graph = s.read(tmp_path).graph()
    assert shown(graph, replay) == [
        ("gap", "gap", 0, 10),
        ("compute", "aten::mm", 10, 30),
        ("gap", "gap", 30, 60),
        ("compute", "aten::mm", 60, 100),
    ]
    assert graph.facts["gap_share"] == pytest.approx(0.4)


def test_annotations_and_python_explain_host_time(script, tmp_path, replay):
    s = script()
    s.step(1, 0, 100)
    s.add("user_annotation", "enumerate(DataLoader)#next", 0, 30)
    s.add("python_function", "train.py(7): main", 30, 70)
    s.op("aten::mm", 60, 30)
    graph = s.read(tmp_path).graph()
    assert shown(graph, replay) == [
        ("host", "enumerate(DataLoader)#next", 0, 30),
        ("host", "train.py(7): main", 30, 60),
        ("compute", "aten::mm", 60, 90),
        ("host", "train.py(7): main", 90, 100),
    ]
    assert graph.facts["gap_share"] == 0
    row = int(np.flatnonzero(graph.ops.kind == Kind.COMPUTE)[0])
    assert graph.label(row).source == "train.py(7): main"


def test_the_operator_that_does_the_work_stands_for_those_inside(script, tmp_path):
    s = script()
    s.step(1, 0, 100)
    s.op("aten::linear", 0, 100, **{"Input Dims": [[2, 3]], "Input type": ["float"]})
    s.op("aten::mm", 10, 80, **{"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]})
    s.op("aten::resolve_conj", 20, 1)
    graph = s.read(tmp_path).graph()
    compute = np.flatnonzero(graph.ops.kind == Kind.COMPUTE)
    assert [graph.ops.signature_text(i) for i in compute] == [
        "compute:aten::mm fp32[2x3] fp32[3x4]"
    ]
    assert graph.ops.duration[compute].tolist() == [80e-6]
    assert (graph.ops.kind == Kind.HOST).sum() == 2


def test_signatures_of_kernels_name_the_operator_and_the_kernel_where_it_launched_several(
    script, tmp_path
):
    s = script()
    s.step(1, 0, 100)
    shapes = {"Input Dims": [[4, 8], [8, 2]], "Input type": ["c10::Half", "c10::Half"]}
    s.op("aten::mm", 0, 20, **shapes)
    s.launch(2, 6, 3, name="sgemm<float, 2>")
    s.op("aten::conv2d", 30, 40)
    s.launch(32, 36, 3, name="im2col")
    s.launch(42, 46, 3, name="sgemm")
    graph = s.read(tmp_path).graph()
    kernels = np.flatnonzero(graph.ops.kind == Kind.COMPUTE)
    assert [graph.ops.signature_text(i) for i in kernels] == [
        "compute:aten::mm fp16[4x8] fp16[8x2]",
        "compute:aten::conv2d/im2col",
        "compute:aten::conv2d/sgemm",
    ]


def test_kernels_of_a_graph_launch_all_wait_for_it(script, tmp_path, replay):
    s = script()
    s.step(1, 0, 40)
    s.op("replay", 0, 40)
    c = s.call("cudaGraphLaunch", 10, 6)
    for k in range(3):
        s.add(
            "kernel",
            f"k{k}",
            20 + 5 * k,
            5,
            pid=0,
            tid=7,
            stream=7,
            correlation=c,
            **{"graph node id": k},
        )
    s.add("kernel", "other", 22, 4, pid=0, tid=8, stream=8, correlation=c, **{"graph node id": 9})
    graph = s.read(tmp_path).graph()
    kernels = np.flatnonzero(graph.ops.kind == Kind.COMPUTE)
    slower = scaled(graph, Kind.HOST, 2)
    assert ((replay(slower)[0] - replay(graph)[0])[kernels] > 5e-6).all()
    assert graph.facts["unlinked_share"] == 0


def test_steps_are_counted_and_the_rest_is_left_out(script, tmp_path, replay, step_times):
    s = script()
    s.op("aten::mm", 0, 90)
    s.step(7, 100, 50)
    s.op("aten::mm", 100, 50)
    s.step(8, 150, 60)
    s.op("aten::mm", 155, 55)
    s.op("aten::mm", 220, 90)
    graph = s.read(tmp_path).graph()
    assert graph.facts["steps"] == (7, 8)
    assert step_times(graph, replay(graph)[1]) == pytest.approx([50e-6, 60e-6])
    one = s.read(tmp_path).graph(periods=[8])
    assert step_times(one, replay(one)[1]) == pytest.approx([60e-6])
    with pytest.raises(TraceError, match=r"rank0.json.gz: has no step 9; it has 7, 8"):
        s.read(tmp_path).graph(periods=[9])


def test_gpu_work_belongs_to_the_step_that_launched_it(script, tmp_path):
    s = script()
    s.step(1, 0, 10)
    s.op("aten::mm", 0, 10)
    s.launch(2, 30, 5)
    s.step(2, 10, 10)
    s.op("aten::mm", 10, 10)
    s.launch(12, 35, 5)
    graph = s.read(tmp_path).graph()
    kernels = graph.ops.kind == Kind.COMPUTE
    assert graph.ops.period[kernels].tolist() == [0, 1]


def test_what_was_in_flight_before_the_first_step_is_kept_and_in_none(script, tmp_path, replay):
    s = script()
    s.op("aten::mm", 0, 10)
    s.launch(2, 6, 44)
    s.step(1, 20, 10)
    s.op("aten::mm", 20, 10)
    s.launch(22, 50, 5)
    graph = s.read(tmp_path).graph()
    flying, kernel = np.flatnonzero(graph.ops.kind == Kind.COMPUTE).tolist()
    assert replay(graph)[0][[flying, kernel]].tolist() == pytest.approx([0, 30e-6])
    assert graph.ops.duration[flying] == pytest.approx(30e-6), "what is left of it"
    assert graph.ops.period[[flying, kernel]].tolist() == [-1, 0]
    assert (graph.ops.kind == Kind.GAP).sum() == 0
    assert (graph.facts["in_flight"], graph.facts["left_out"]) == (1, 0)


def test_gpu_work_without_launches_is_refused_unless_serialised(script, tmp_path, replay):
    s = script()
    for start, stream in ((0, 7), (10, 8), (30, 7)):
        s.add("kernel", "k", start, 10, pid=0, tid=stream, stream=stream, correlation=1 + start)
    trace = s.read(tmp_path)
    with pytest.raises(
        TraceError, match=r"none of 3 GPU ops can be joined to .*\(serialise: true\)"
    ):
        trace.graph()
    graph = trace.graph(serialise=True)
    assert replay(graph)[1].max() == pytest.approx(40e-6)
    assert replay(scaled(graph, Kind.COMPUTE, 2))[1].max() == pytest.approx(70e-6)


def test_streams_are_described_for_placement(script, tmp_path):
    s = script(world=1)
    s.step(1, 0, 100)
    s.op("aten::mm", 0, 100)
    s.launch(1, 5, 3, stream=7)
    s.launch(11, 15, 3, stream=20, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    c = s.call("cudaMemcpyAsync", 21, 1)
    s.add("gpu_memcpy", "Memcpy HtoD", 25, 3, pid=0, tid=22, stream=22, correlation=c)
    graph = s.read(tmp_path).graph()
    assert sorted(graph.streams.items()) == [
        ((0, 0), "host"), ((0, 1), "compute"), ((0, 2), "network"), ((0, 3), "copy"),
    ]  # fmt: skip


def test_unknown_missing_rank_policies_are_refused(script, tmp_path):
    s = script()
    s.op("a", 0, 1)
    with pytest.raises(
        ValueError, match="missing_ranks is 'ignore'; choose from refuse, like_recorded"
    ):
        s.read(tmp_path).graph(missing_ranks="ignore")
