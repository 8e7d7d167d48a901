"""What is to be rejected of a profile (systems.md, 2.1): nine cases, each refused with its cure.

Those that are the trace reader's alone have their messages to the letter in
``tests/traces/test_broken*.py``; here each is refused where a scenario would use it.
"""

import json
import logging
from contextlib import nullcontext

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.scenarios.workloads.trace_files import open_trace
from foretrace.sim.errors import ForetraceError, ScenarioError, TraceError
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.traces.formats.chakra import read, write
from foretrace.traces.formats.chakra.files import save_rank_file
from foretrace.traces.formats.chakra.messages import NodeType, message_classes

HOST = {"ph": "X", "pid": 1, "tid": 1}
SCENARIO = """\
foretrace: 1
name: profiled
workload:
  trace: TRACE
  recorded_on: {device: DEVICE, nodes: 1, parallel: {data: 1}}
  MORE
cluster:
  nodes: 1
  node:
    gpu: {model: GPU, count: COUNT}
    host: {model: epyc-zen4-vm, cores: 8}
    links: [{from: gpu, to: gpu, via: loopback-tcp}]
  fabric: {library: gloo}
"""


def profile(tmp_path, kernels, name="t.json", steps=1):
    """A recording of kernels on stream 7: (start, duration) of each, us."""
    mark = {**HOST, "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 900}
    events = [{**mark, "name": f"ProfilerStep#{k}", "ts": 900 * k} for k in range(steps)]
    for number, (start, last) in enumerate(kernels, start=1):
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": number, "dur": 0.5}
        events.append({**HOST, **launch, "args": {"correlation": number}})
        said = {"correlation": number, "stream": 7, "device": 0}
        kernel = {"cat": "kernel", "name": f"k{number}", "pid": 0, "tid": 7}
        events.append({**HOST, **kernel, "ts": start, "dur": last, "args": said})
    (tmp_path / name).write_text(json.dumps({"traceEvents": events}))
    return str(tmp_path / name)


def chakra(tmp_path, *nodes):
    made = [
        message_classes().Node(id=number, name="mm", type=NodeType.COMP, data_deps=waits)
        for number, waits in nodes
    ]
    said = message_classes().GlobalMetadata(version="0.0.4")
    save_rank_file(tmp_path / "x.0.et", said, made)
    return str(tmp_path / "x.*.et")


def test_a_cyclic_graph(tmp_path):
    with pytest.raises(TraceError, match="op 0 and op 1 wait for each other"):
        read(chakra(tmp_path, (1, [2]), (2, [1])))


def test_an_op_twice(tmp_path):
    with pytest.raises(TraceError, match="has the same id as another node"):
        read(chakra(tmp_path, (1, []), (1, [])))


def test_a_negative_duration(tmp_path):
    with pytest.raises(TraceError, match="has the duration -3 us, because the clock was set back"):
        open_trace(profile(tmp_path, [(30, 10), (50, -3)]))


def test_no_duration_where_the_clock_would_have_told_one(tmp_path):
    """Clocks of whole microseconds hide short kernels: 636 of 9,096 of a ResNet-50 on V100."""
    fine = profile(tmp_path, [(30, 10.123), (50.001, 0), (60, 5)])
    said = r"1 of 3 pieces of GPU work take no time.* resolution of 1 ns"
    with pytest.raises(TraceError, match=said):
        open_trace(fine).graph(serialise=True)
    assert "take no time" in str(open_trace(fine).info().find_use("replay"))
    coarse = profile(tmp_path, [(30, 10), (51, 0), (60, 5)])
    assert (open_trace(coarse).graph().ops.duration == 0).any()


def test_an_op_on_a_device_that_is_not_there(tmp_path):
    trace = profile(tmp_path, [(30, 10)])
    text = SCENARIO.replace("TRACE", trace).replace("DEVICE", "a100-sxm4-80g").replace("MORE", "")
    unknown = text.replace("GPU", "a100-sxm4-81g").replace("COUNT", "1")
    with pytest.raises(ScenarioError, match="a100-sxm4-81g"):
        loads(unknown)
    known = text.replace("GPU", "a100-sxm4-80g").replace("COUNT", "1")
    with pytest.raises(ForetraceError, match=r"node0\.gpu7"):
        build_variants(loads(known + "placement: {ranks: [node0.gpu7]}\n"))[0].run()


@pytest.mark.parametrize(("kind", "step", "fails"), [
    (Kind.COMPUTE, 2, True), (Kind.HOST, 1, True), (Kind.COMPUTE, 1, False)
])  # fmt: skip
def test_a_dependency_on_a_later_step(tmp_path, kind, step, fails):
    """A stream may wait for what is fetched for the next step: a DLRM on V100s does."""
    build = Builder("ahead")
    later = build.op(Kind.COMPUTE, stream=1, period=step, duration=1e-3)
    build.op(kind, after=[later], period=0, duration=1e-3)
    write(build.graph(), tmp_path)
    message = f"op 1 of step 0 waits for op 0 of step {step}"
    with pytest.raises(TraceError, match=message) if fails else nullcontext():
        read(f"{tmp_path}/trace.*.et")


def test_ops_that_overlap_on_one_stream_beyond_what_its_clock_explains(tmp_path):
    drifting = profile(tmp_path, [(30, 300), (329, 301), (700, 100)])
    open_trace(drifting).graph()  # 1 us of 701, by a clock of whole microseconds
    over = profile(tmp_path, [(30, 300), (310, 300), (700, 101)])
    with pytest.raises(
        TraceError, match=r"1 of 3 pieces of work on stream 7 .* a fraction 0\.029 of the stream"
    ):
        open_trace(over).graph()
    assert "serialise: true" in str(open_trace(over).info().find_use("replay"))
    ops = open_trace(over).graph(serialise=True).ops
    took = ops.duration[ops.kind == Kind.COMPUTE]
    assert took == pytest.approx([300e-6, 280e-6, 101e-6])


def test_a_recording_without_dependencies_but_with_leave(tmp_path):
    trace = profile(tmp_path, [(30, 10), (50, 10)])
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    kept = [e for e in events if e["cat"] != "cuda_runtime"]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": kept}))
    with pytest.raises(TraceError, match="dependencies are unknown"):
        open_trace(trace).graph()
    assert len(open_trace(trace).graph(serialise=True))


def test_clocks_that_do_not_belong_together(tmp_path):
    for rank, at in ((0, 5), (1, 8e17)):
        event = {**HOST, "cat": "cpu_op", "name": "aten::mm", "ts": at, "dur": 2}
        said = {"rank": rank, "world_size": 2}
        text = json.dumps({"distributedInfo": said, "traceEvents": [event]})
        (tmp_path / f"rank{rank}.json").write_text(text)
    with pytest.raises(TraceError, match="do not belong together"):
        open_trace(f"{tmp_path}/rank*.json")


def scenario(tmp_path, more="", gpu="a100-sxm4-80g", count=1, ablations=""):
    text = SCENARIO.replace("TRACE", profile(tmp_path, [(30, 300), (400, 300)], steps=2))
    text = text.replace("MORE", more).replace("DEVICE", "a100-sxm4-80g").replace("GPU", gpu)
    return text.replace("COUNT", str(count)) + ablations


OTHER = "h100-sxm5-80g"
CLAIM = """
answer: {minimize: iteration_time.p50}
what_if: [{name: off, set: {run.seed: 2}}]
ablations:
  headline: {measured: {base: 1 ms}, within: 10 %}
  switches: [{what: nothing, off: off}]
"""


def warned(text, caplog):
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        try:
            build_variants(loads(text))
        except ForetraceError as error:
            return str(error)
    return caplog.text


def test_what_the_profiler_added_where_nobody_says_it(tmp_path, caplog):
    """A replay of itself needs no leave; another GPU or plan does, and a claim is refused."""
    undeclared = "include profiler overhead, but predict another GPU; capture untraced steps"
    use = '\nbackends: {"node*.gpu*": {use: recorded}}\n'
    assert "profiler" not in warned(scenario(tmp_path), caplog)
    text = scenario(tmp_path, gpu=OTHER, ablations=use)
    assert undeclared in warned(text, caplog)
    with pytest.raises(InvalidScenarioError, match="include profiler overhead"):
        build_variants(loads(scenario(tmp_path, gpu=OTHER, ablations=use + CLAIM)))


def test_what_the_profiler_added_is_taken_away_where_it_is_said(tmp_path, caplog):
    plain = build_variants(loads(scenario(tmp_path)))[0].known_graph
    text = scenario(tmp_path, more="overhead: 25 %")
    said = build_variants(loads(text))[0].known_graph
    assert said.ops.duration == pytest.approx(plain.ops.duration / 1.25, nan_ok=True)
    assert said.facts["profiler_overhead"] == 0.25
    use = '\nbackends: {"node*.gpu*": {use: recorded}}\n'
    text = scenario(tmp_path, more="overhead: 0", gpu=OTHER, ablations=use + CLAIM)
    assert "profiler" not in warned(text, caplog)


def test_the_overhead_of_a_profiler_is_not_said_twice():
    text = SCENARIO.replace("TRACE", "foretrace:gpt").replace("DEVICE", "epyc-zen4-core")
    text = text.replace("GPU", "epyc-zen4-core").replace("MORE", "overhead: 3 %")
    with pytest.raises(
        ScenarioError,
        match=r"workload\.overhead: is also given by untraced steps "
        r"\(",
    ):
        build_variants(loads(text.replace("COUNT", "1")))
