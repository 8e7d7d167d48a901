"""A run whose trace began while the GPU was behind says what a profiler's tables say of it."""

import json

import pytest

SCENARIO = """
foretrace: 1
name: behind
workload:
  trace: {trace}
  missing_ranks: recorded_waits
  recorded_on: {{device: a100-sxm4-80g, nodes: 1}}
cluster:
  nodes: 1
  node:
    gpu: {{model: a100-sxm4-80g, count: 1}}
    host: {{cores: 16}}
    nic: connectx-7
backends: {{fabric: recorded}}
run: {{quick: true}}
"""
LASTS, MARKS, STEPS = 100, 60, 4  # us: of the GPU's work of a step, and between the host's marks


def behind(script, folder, under_way):
    """A host that marks a step every 60 us, and a GPU that takes 100 for one."""
    s, now = script(deviceProperties=[{"name": "A GPU"}]), 0
    for start in range(0, under_way, 100):  # a copy beside each exchange of what is under way
        common = {"pid": 0, "device": 0}
        name = "ncclDevKernel_AllReduce_Sum_f32"
        s.add("kernel", name, start, 100, tid=7, stream=7, correlation=900 + start, **common)
        copied = {"tid": 9, "stream": 9, "correlation": 901 + start, "bytes": 64}
        s.add("gpu_memcpy", "Memcpy DtoD", start, 40, **copied, **common)
    for k in range(STEPS):
        s.step(k, now, MARKS)
        s.op("aten::mm", now, MARKS)
        s.launch(now + 10, under_way + LASTS * k, LASTS)
        now += MARKS
    return s.write(folder)


def ask(cli, folder, trace, *more):
    (folder / "a.yaml").write_text(SCENARIO.format(trace=trace))
    code, out, err = cli("run", "a.yaml", *more)
    assert code == 0, err
    return out


def test_marks_and_exposed_communication_are_those_of_the_profilers_tables(
    script, cli, tmp_path, monkeypatch
):
    """The GPU's 100 us and no exposed communication stood alone, with 60 us and 120 in the file."""
    monkeypatch.chdir(tmp_path)
    trace = behind(script, tmp_path, under_way=200)
    point = json.loads(ask(cli, tmp_path, trace, "--json"))["points"]["base"]
    assert point["metrics"]["iteration_time.p50"]["value"] == pytest.approx(100e-6)
    assert point["metrics"]["exposed_communication.mean"]["value"] == 0
    told = point["as_profiled"]
    used = {name.partition(".")[0] for name in point["metrics"]}
    assert "nic" not in used  # 0 % beside communication: no byte is known to have crossed it
    assert told["in_flight"] == 4
    assert told["step"] == pytest.approx(60e-6, rel=0.01)
    assert told["exposed_communication"] == pytest.approx(2 * (100 - 40) * 1e-6)
    said = " ".join(ask(cli, tmp_path, trace).split())
    assert "4 GPU ops were in flight when the first iteration began: the GPU takes 100 µs" in said
    assert "shows 120 µs of exposed communication." in said


def test_where_nothing_was_under_way_there_is_nothing_to_tell_apart(
    script, cli, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    trace = behind(script, tmp_path, under_way=0)
    assert "as_profiled" not in json.loads(ask(cli, tmp_path, trace, "--json"))["points"]["base"]
