"""What waits for what on the host: waits told from work by what ends with them."""

from dataclasses import replace

import numpy as np
import pytest
from foretrace.sim.errors import TraceError
from foretrace.sim.facts.ops import Kind
from foretrace.traces.infer.events.communication_kernels import is_communication

US = 1e-6


def ending(graph, replay, *, gpu=1.0):
    """End of the run, us, with the GPU's work that many times as long."""
    block = graph.explicit
    lanes = zip(graph.ops.rank.tolist(), graph.ops.stream.tolist(), strict=True)
    on_gpu = np.array([graph.streams[lane] != "host" for lane in lanes])
    work = on_gpu & np.isin(graph.ops.kind, (Kind.COMPUTE, Kind.COPY, Kind.COLLECTIVE))
    ops = block.ops.replace(duration=block.ops.duration * np.where(work, gpu, 1.0))
    return replay(replace(graph, blocks=(replace(block, ops=ops),)))[1].max() / US


def stepped(script, lasts):
    s = script()
    s.step(1, 0, lasts)
    return s


def python(s, name, ts, dur, tid=1):
    s.add("python_function", name, ts, dur, tid=tid)


def test_a_thread_that_nothing_waits_for_bounds_nothing(script, tmp_path, replay):
    """A progress bar sleeps as long as the trace lasts."""
    s = stepped(script, 1000)
    s.op("aten::mm", 0, 100)
    s.launch(20, 30, 900)
    s.call("cudaDeviceSynchronize", 100, 840)
    python(s, "threading.py(359): wait", 0, 1000, tid=9)
    s.op("other::work", 500, 400, tid=9)
    graph = s.read(tmp_path).graph()
    assert ending(graph, replay) == pytest.approx(940, abs=70)
    assert ending(graph, replay, gpu=0) < 250
    assert graph.facts["unawaited_threads"] == 1
    assert {t for _, t in graph.streams if graph.streams[0, t] == "host"} == {0, 1}
    assert set(graph.ops.stream.tolist()) == {0, 2}


def test_a_thread_waits_in_a_queue_for_the_one_that_fills_it(script, tmp_path, replay):
    s = stepped(script, 950)
    s.op("aten::mm", 0, 50)
    python(s, "queue.py(154): get", 50, 800)
    s.op("worker::load", 60, 780, tid=5)
    s.op("aten::mm", 850, 100)
    graph = s.read(tmp_path).graph()
    assert graph.facts["host_time"]["unknown"] < 0.05
    assert graph.facts["unawaited_threads"] == 0
    worker = np.array([graph.label(i).name == "worker::load" for i in range(len(graph))])
    block = graph.explicit
    ops = block.ops.replace(duration=block.ops.duration * np.where(worker, 0.5, 1.0))
    quick = replace(graph, blocks=(replace(block, ops=ops),))
    assert ending(graph, replay) == pytest.approx(950)
    assert ending(quick, replay) == pytest.approx(950 - 390, abs=20)


def test_a_call_that_ends_with_nothing_is_a_wait_of_unknown_cause(script, tmp_path, replay):
    s = stepped(script, 1000)
    s.op("aten::mm", 0, 100)
    s.add(
        "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 100, 700
    )
    s.op("aten::mm", 800, 200)
    graph = s.read(tmp_path).graph()
    assert graph.facts["host_time"] == pytest.approx(
        {"work": 0.3, "wait": 0, "poll": 0, "unknown": 0.7}
    )
    assert graph.facts["gap_share"] == pytest.approx(0.7)
    assert graph.facts["unresolved_waits"] == 1
    (gap,) = np.flatnonzero(graph.ops.kind == Kind.GAP).tolist()
    assert "DataLoader" in graph.label(gap).name, "the wait keeps its name"
    assert ending(graph, replay) == pytest.approx(1000)


@pytest.mark.parametrize("queries", [4, 40])
def test_a_poll_waits_for_what_ends_with_it(script, tmp_path, replay, queries):
    """Four queries are a glance; forty, one after the other until the kernel ends, are a wait."""
    s = stepped(script, 880)
    s.op("aten::mm", 0, 40)
    s.launch(10, 20, 800)
    for k in range(queries):
        s.call("cudaEventQuery", 40 + k * 785 / (queries - 1), 2)
    s.op("aten::mm", 830, 50)
    graph = s.read(tmp_path).graph()
    quick = ending(graph, replay, gpu=0)
    assert (quick < 200) == (queries == 40)
    assert (graph.facts["host_time"]["poll"] > 0.5) == (queries == 40)


def test_a_launch_waits_where_the_queue_is_full(script, tmp_path, replay):
    """1,000 short launches fill it; each further one returns when a kernel has ended."""
    s = stepped(script, 55_026)
    ends = [20.0 + 50.0 * (k + 1) for k in range(1100)]
    for k in range(1000):
        s.launch(5.0 * k, ends[k] - 50, 50, call=4.0)
    now, kernel = 5000.0, ((5000 - 20) // 50)
    for k in range(1000, 1100):
        kernel += 1
        s.launch(now, ends[k] - 50, 50, call=ends[kernel] + 3 - now)
        now = ends[kernel] + 4
    s.call("cudaDeviceSynchronize", now, ends[-1] + 5 - now)
    graph = s.read(tmp_path).graph()
    recorded = ending(graph, replay)
    assert ending(graph, replay, gpu=2) == pytest.approx(2 * recorded, rel=0.01)
    assert ending(graph, replay, gpu=0) == pytest.approx(5000, rel=0.15)
    assert graph.facts["host_time"]["wait"] > 0.8


def test_a_pageable_copy_waits_for_its_stream_and_is_then_staged(script, tmp_path, replay):
    s = stepped(script, 865)
    s.op("aten::mm", 0, 20)
    s.launch(5, 15, 600)
    c = s.call("cudaMemcpyAsync", 20, 795)
    s.add(
        "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 620, 200, pid=0, tid=7, stream=7,
        device=0, correlation=c, bytes=64,
    )  # fmt: skip
    s.op("aten::mm", 815, 50)
    graph = s.read(tmp_path).graph()
    assert ending(graph, replay) == pytest.approx(865, rel=0.02)
    assert ending(graph, replay, gpu=0) == pytest.approx(865 - 600, rel=0.05), (
        "staging is the host's"
    )


def test_work_waits_for_free_multiprocessors_on_a_full_gpu(script, tmp_path, replay):
    """No event says so: its stream is free, and it begins as the other stream's kernel drains."""
    s = stepped(script, 620)
    s.op("aten::mm", 0, 60)
    s.launch(10, 20, 500, stream=7)
    s.launch(30, 512, 100, stream=8)
    s.call("cudaDeviceSynchronize", 60, 560)
    graph = s.read(tmp_path).graph()
    assert graph.facts["gap_share"] == pytest.approx(0, abs=0.02)
    assert ending(graph, replay, gpu=0.5) == pytest.approx(620 / 2, rel=0.1)


def test_work_under_way_when_recording_began_is_kept_and_counted(script, tmp_path, replay):
    s = stepped(script, 305)
    for start, name in ((0, "gemm"), (100, "ncclDevKernel_AllReduce_Sum_f32")):
        s.add("kernel", name, start, 100, pid=0, tid=7, stream=7, device=0, correlation=900 + start)
    s.launch(50, 200, 100)
    s.call("cudaDeviceSynchronize", 60, 245)
    graph = s.read(tmp_path).graph(missing_ranks="recorded_waits")
    gpu = np.flatnonzero(graph.ops.stream == 1)
    named = [i for i in gpu.tolist() if graph.ops.kind[i] in (Kind.COMPUTE, Kind.COLLECTIVE)]
    assert [int(graph.ops.kind[i]) for i in named] == [Kind.COMPUTE, Kind.COLLECTIVE, Kind.COMPUTE]
    assert graph.ops.period[named].tolist() == [-1, -1, 0]
    assert (graph.facts["in_flight"], graph.facts["unlinked_share"]) == (2, pytest.approx(2 / 3))
    assert ending(graph, replay, gpu=2) == pytest.approx(600, rel=0.03)


KERNELS = {
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)": True,
    "ncclSymkDevKernel_AllGather_LL": True,
    "mscclKernel_Sum_half_Simple": True,
    "void mscclpp::allreduceKernel<float>": True,
    "void deep_ep::internode_ll::dispatch<true, false, 7168>": True,
    "nvshmemi_transfer_rma_nbi": True,
    "multimem_one_shot_all_reduce_kernel<c10::BFloat16>": True,
    "void c10d::symmetric_memory::two_shot_all_reduce_kernel_inplace": True,
    "void vllm::cross_device_reduce_2stage<half, 8>": True,
    "void aiter::cross_device_reduce_1stage_naive<half>": True,
    "allreduce_fusion_kernel_oneshot_lamport<half, 8>": True,
    "oneapi::ccl::reduce_kernel": True,
    "userbuffers_fp16_sum_inplace_gpu_rr_rs": True,
    "void at::native::index_put_with_sort_kernel": False,
    "void softmax<float, WarpAllReduce<MaxOp>>": False,
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16>": False,
    "void at::native::reduce_kernel<512, 1>": False,
}


@pytest.mark.parametrize(("kernel", "known"), KERNELS.items())
def test_kernels_of_communication_libraries_are_known_by_name(kernel, known):
    assert is_communication(kernel) == known


def test_a_setting_names_the_kernels_of_others(script, tmp_path):
    s = stepped(script, 100)
    s.launch(1, 10, 50, name="my_exchange<float>")
    trace = s.read(tmp_path)
    assert (trace.graph().ops.kind == Kind.COLLECTIVE).sum() == 0
    named = trace.graph(communication=["my_*"], missing_ranks="recorded_waits")
    assert (named.ops.kind == Kind.COLLECTIVE).sum() == 1
    with pytest.raises(TraceError, match=r"no kernel of the trace fits 'your_\*'"):
        trace.graph(communication=["your_*"])


def test_steps_of_two_optimizers_are_one_iteration(script, tmp_path, replay):
    """They alternate, 35 and 69 ms: an iteration is both, and a half one at the end is none."""
    s, now = script(), 0
    for k in range(5):
        lasts = (35, 69)[k % 2]
        s.step(k, now, lasts)
        for part in range(1 + k % 2):
            s.op("aten::mm", now + part * lasts / 2, lasts / (1 + k % 2))
        now += lasts
    graph = s.read(tmp_path).graph()
    assert graph.facts["steps_per_iteration"] == 2
    end, period = replay(graph)[1] / US, graph.ops.period
    assert sorted(set(period.tolist())) == [-1, 0, 1]
    assert [end[period == p].max() for p in (0, 1)] == pytest.approx([104, 208])


@pytest.mark.parametrize("gpu", [2.0, 1.0, 0.9, 0.5])
def test_the_pause_of_a_second_thread_that_launches_hides_no_step(script, tmp_path, replay, gpu):
    """It pauses until the main thread has worked in the next step, however long the step is."""
    s = script()
    for number, ts in ((1, 0), (2, 1000)):
        s.step(number, ts, 1000)
        s.op("aten::mm", ts + 10, 40)
        s.launch(ts + 20, ts + 60, 500)
        s.op("aten::mm", ts + 70, 40, tid=2)
        s.launch(ts + 80, ts + 560, 200, tid=2)
        s.op("aten::item", ts + 120, 800)
        s.call("cudaDeviceSynchronize", ts + 130, 680)
    found = ending(s.read(tmp_path).graph(), replay, gpu=gpu)
    assert found == pytest.approx(2 * (300 + 700 * gpu), abs=1)  # the host waits for all GPU work
