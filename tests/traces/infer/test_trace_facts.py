"""What of a recording is lost, unread or guessed: counted, named, and refused where it matters."""

import json

import pytest
from foretrace.sim.errors import TraceError
from foretrace.sim.facts.ops import Kind
from foretrace.traces.formats import kineto, native
from foretrace.traces.infer.trace_facts import trace_facts

GPU = {"deviceProperties": [{"name": "NVIDIA H100"}]}


def steps(script, category="kernel", runtime="cuda_runtime", lost=(), numbers=(3, 4, 5), **info):
    """Steps of 10 ms; in each an operator launches a GEMM of 7 ms, for which the host waits."""
    s = script(**GPU | info)
    for k, number in enumerate(numbers):
        at = 10_000 * k
        s.step(number, at, 10_000)
        for part in range(3):
            s.op("aten::mm", at + 100 + 300 * part, 100)
            s.correlation += 1
            linked = {"correlation": s.correlation}
            s.add(runtime, "cudaLaunchKernel", at + 150 + 300 * part, 10, **linked)
            if (k, part) in lost or category is None:
                continue
            on = {"stream": 7, "device": 0, **linked}
            s.add(category, "gemm", at + 500 + 2000 * part, 2000, pid=0, tid=7, **on)
        s.op("aten::item", at + 1200, 8000)
        s.call("cudaDeviceSynchronize", at + 1300, 7000)
    return s


def seconds(graph, kind):
    return float(graph.ops.duration[graph.ops.kind == kind].sum())


def test_a_good_recording_has_no_facts(script, tmp_path):
    trace = steps(script).read(tmp_path)
    assert trace_facts(trace).sentences() == []
    assert "recording" not in trace.graph().facts


def test_device_work_of_mtia_is_read(script, tmp_path):
    graph = steps(script, "mtia_ccp_events", "mtia_runtime").read(tmp_path).graph()
    assert seconds(graph, Kind.COMPUTE) == pytest.approx(18e-3)


@pytest.mark.parametrize("category", ["brand_new_device_op", "hpu_op"])
def test_device_work_that_is_not_read_is_named_and_not_replayed(script, tmp_path, category):
    trace = steps(script, category).read(tmp_path)
    told = f"9 events of 18 ms in category {category}"
    assert told in str(trace.info()).splitlines()[0]
    assert told in trace.info().find_use("replay").why
    for allow in (False, True):
        with pytest.raises(TraceError, match=told):
            trace.graph(allow_lost=allow)
    assert not (trace.info_and_graph()[1].ops.kind == Kind.COMPUTE).any()


def test_the_cure_that_the_message_names_works(script, tmp_path):
    trace = steps(script, "hpu_op").read(tmp_path)
    for form in (trace, native.read(native.write(trace, tmp_path / "native"))):
        cured = form.with_categories({"HPU_op": "kernel"})
        assert seconds(cured.graph(), Kind.COMPUTE) == pytest.approx(18e-3)
        assert trace_facts(cured).sentences() == []


def test_ignored_events_are_left_out_with_a_note(script, tmp_path):
    s = steps(script)
    s.add("request", "GET /", 0, 20_000, pid=77)
    trace = s.read(tmp_path)
    assert trace_facts(trace).sentences() == [
        "Not read: 1 events of 20 ms in category request (set what it is: --category NAME=KIND)."
    ]
    assert len(trace.graph())  # the GPU work is read
    left = trace.with_categories({"request": "ignore"})
    assert trace_facts(left).sentences() == []
    assert left.notes == ("1 events of category request were left out, as requested",)
    assert seconds(left.graph(), Kind.COMPUTE) == seconds(trace.graph(), Kind.COMPUTE)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [({"hpuop": "kernel"}, "category hpuop: no event has it; choose from hpu_op"),
     ({"hpu_op": "work"}, "choose from kernel, copy, runtime, operator, ignore")],
)  # fmt: skip
def test_a_wrong_category_is_refused(script, tmp_path, kinds, message):
    with pytest.raises(TraceError, match=message):
        steps(script, "hpu_op").read(tmp_path).with_categories(kinds)


@pytest.mark.parametrize("category", ["overhead", "gpu_user_annotation", "Trace", "xpu_sync"])
def test_events_that_are_no_work_are_not_counted(script, tmp_path, category):
    s = steps(script)
    s.add(category, "x", 0, 500, pid=0, tid=7, stream=7)
    assert trace_facts(s.read(tmp_path)).sentences() == []


def test_work_of_ascend_is_known_by_its_process(tmp_path):
    """It writes no categories; connection_id joins a call to its work."""
    events = [{"ph": "M", "name": "process_name", "pid": 99, "args": {"name": "Ascend Hardware"}}]
    for k in range(3):
        at = 1000.5 * (k + 1)
        linked = {"connection_id": 100 + k}
        events += [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": at, "dur": 50, "tid": 1},
            {"ph": "X", "name": "Node@launch", "ts": at + 10, "dur": 5, "tid": 1, "args": linked},
            {"ph": "X", "name": "MatMulV2", "pid": 99, "ts": at + 100, "dur": 700, "tid": 2,
             "args": {"Stream Id": 2, **linked}},
            {"ph": "X", "name": "AscendCL@aclrtSynchronizeDevice", "ts": at + 150, "dur": 650,
             "tid": 1},
        ]  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"pid": 1, **e} for e in reversed(events)]))
    trace = kineto.read(path)
    assert trace_facts(trace).sentences() == []
    graph = trace.graph()
    assert seconds(graph, Kind.COMPUTE) == pytest.approx(2100e-6)
    assert graph.facts["unlinked_share"] == 0


@pytest.mark.parametrize("runtime", ["cuda_runtime", "python_function"])
def test_a_gpu_job_without_gpu_work_is_refused(script, tmp_path, runtime):
    trace = steps(script, None, runtime).read(tmp_path)
    info = trace.info()
    why = "NVIDIA H100 in the header, no GPU work recorded"
    assert why in str(info).splitlines()[0]
    assert not info.find_use("replay").possible
    with pytest.raises(TraceError, match=f"rank0.json.gz: {why}; causes: .*CUPTI"):
        trace.graph()


@pytest.mark.parametrize("backend", ["nccl", "rccl", "hccl", "cpu:gloo,cuda:nccl"])
def test_a_backend_of_gpus_needs_gpu_work(tmp_path, backend):
    op = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 5}
    said = {"distributedInfo": {"backend": backend, "rank": 0, "world_size": 1}}
    (tmp_path / "t.json").write_text(json.dumps({**said, "traceEvents": [op]}))
    with pytest.raises(TraceError, match="in the header, no GPU work recorded"):
        kineto.read(tmp_path / "t.json").graph()


def test_a_job_on_the_cpu_of_a_gpu_machine_can_be_allowed(script, tmp_path):
    s = script(**GPU)
    s.op("aten::mm", 0, 500)
    trace = s.read(tmp_path)
    with pytest.raises(TraceError, match="if the job ran on the CPU, allow it"):
        trace.graph()
    assert seconds(trace.graph(allow_lost=True), Kind.COMPUTE) == pytest.approx(500e-6)


def test_launches_without_operators_are_never_a_cpu_job(script, tmp_path):
    trace = steps(script, None).read(tmp_path)
    with pytest.raises(TraceError, match="no GPU work recorded"):
        trace.graph(allow_lost=True)


def test_lost_work_is_counted_and_refused_above_its_share(script, tmp_path):
    trace = steps(script, lost=[(0, 1), (2, 2)]).read(tmp_path)
    said = "2 of 9 launches have no work"
    assert said in str(trace.info()).splitlines()[0]
    with pytest.raises(TraceError, match=f"rank0.json.gz: {said}.*--allow-lost"):
        trace.graph()
    assert said in trace.graph(allow_lost=True).facts["recording"]


def test_a_little_lost_work_is_a_fact(script, tmp_path):
    trace = steps(script, lost=[(0, 1)], numbers=range(9)).read(tmp_path)
    assert trace.graph().facts["recording"].startswith("1 of 27 launches have no work")


@pytest.mark.parametrize(
    "name", ["cudaGraphLaunch", "cudaMemsetAsync", "cudaMemcpyAsync", "cudaLaunchHostFunc"]
)
def test_calls_that_need_no_work_of_their_own_are_not_lost(script, tmp_path, name):
    s = steps(script)
    for k in range(9):
        s.call(name, 1150 + k, 1)
    assert trace_facts(s.read(tmp_path)).lost == 0


def test_captured_and_outer_launches_are_not_lost(script, tmp_path):
    s = steps(script)
    s.call("cudaLaunchKernel", -50, 5)  # before the first step
    s.call("cudaLaunchKernel", 30_100, 5)  # after the last
    s.call("cudaStreamBeginCapture", 1110, 1)
    s.call("cudaLaunchKernel", 1120, 5)
    s.call("cudaStreamEndCapture", 1130, 1)
    assert trace_facts(s.read(tmp_path)).lost == 0
    s.call("cudaLaunchKernel", 1140, 5)
    assert trace_facts(s.read(tmp_path)).lost == 1


def test_a_step_whose_work_is_lost_is_dropped(script, tmp_path):
    s = steps(script, lost=[(7, 0), (7, 1), (7, 2)], numbers=range(80))
    with pytest.raises(TraceError, match="steps 7 were not recorded"):
        s.read(tmp_path).graph()


def test_a_missing_step_is_dropped(script, tmp_path):
    with pytest.raises(TraceError, match="steps 5 were not recorded"):
        steps(script, numbers=(3, 4, 6)).read(tmp_path).graph()


def test_work_at_time_zero_is_lost(script, tmp_path):
    s = steps(script)
    for event in [e for e in s.events if e["cat"] == "kernel"][:2]:
        event["ts"] = 0
    trace = s.read(tmp_path)
    assert "2 GPU ops have no valid time" in str(trace.info()).splitlines()[0]
    with pytest.raises(TraceError, match="2 of 9 launches have no work"):
        trace.graph()


def test_steps_of_one_number_are_all_kept(script, tmp_path):
    trace = steps(script, numbers=(3, 3, 3)).read(tmp_path)
    info = trace.info()
    assert info.steps == (3, 4, 5)
    assert info.step_times == pytest.approx((10e-3,) * 3)
    assert "Step 3: several steps have the number" in str(info).splitlines()[0]
    assert seconds(trace.graph(), Kind.COMPUTE) == pytest.approx(18e-3)


def test_a_mark_that_two_writers_made_is_one_step(script, tmp_path):
    s = steps(script)
    s.op("ProfilerStep#3", 1, 9990)
    assert s.read(tmp_path).info().steps == (3, 4, 5)


@pytest.mark.parametrize("name", ["aten::item", "aten::_local_scalar_dense", "record_param_comms"])
def test_waits_of_the_host_are_never_compute(script, tmp_path, name):
    """Not even on a rank that is allowed to be one of a CPU, while its header names a GPU."""
    s = script(**GPU)
    s.op("aten::mm", 0, 100)
    s.op(name, 100, 500)
    graph = s.read(tmp_path).graph(allow_lost=True)
    assert seconds(graph, Kind.COMPUTE) == pytest.approx(100e-6)


def test_a_rank_that_uses_several_gpus_says_so(script, tmp_path):
    s = steps(script)
    for event in [e for e in s.events if e["cat"] == "kernel"][::2]:
        event["pid"] = event["args"]["device"] = 1
    told = "Rank 0 uses GPUs 0, 1: here they are counted as one GPU."
    assert trace_facts(s.read(tmp_path)).sentences() == [told]


@pytest.mark.parametrize(
    "name",
    ["cudaDeviceSynchronize", "hipDeviceSynchronize", "synchronize", "musaDeviceSynchronize",
     "AscendCL@aclrtSynchronizeDevice", "synDeviceSynchronize", "cuCtxSynchronize"],
)  # fmt: skip
def test_the_host_waits_in_the_calls_of_all_vendors(script, tmp_path, name):
    s = script()
    s.launch(5, 10, 5000)
    s.call(name, 20, 4995)
    s.op("aten::mm", 5020, 10)
    graph = s.read(tmp_path).graph()
    assert seconds(graph, Kind.HOST) < 100e-6


def test_work_without_correlation_is_joined_by_external_id(script, tmp_path):
    """As ROCm writes it: the k-th work of an operator is of its k-th launch."""
    s = script(**GPU)
    for k in range(3):
        at, linked = 1000 * k, {"External id": 11 + k}
        s.op("aten::mm", at, 100, **linked)
        for part in range(2 * (k < 2)):  # the last has no calls: its operator stands for them
            s.add("cuda_runtime", "hipLaunchKernel", at + 10 + 20 * part, 5, **linked)
        for part in range(2):
            on = {"stream": 0, "device": 0, **linked}
            s.add("kernel", "gemm", at + 40 + 200 * part, 190, pid=0, tid=0, **on)
    graph = s.read(tmp_path).graph()
    assert graph.facts["unlinked_share"] == 0
    assert trace_facts(s.read(tmp_path)).lost == 0
