"""A folder with a tiny scenario and its trace, and what its runs leave there."""

import json

import pytest

STEPS = 8

SCENARIO = """\
foretrace: 1
name: tiny
question: Is a machine that is twice as fast worth it?
workload:
  trace: {trace}
  recorded_on: {{device: epyc-zen4-core}}
cluster:
  nodes: 1
  node:
    gpu: {{model: epyc-zen4-core, count: 1}}
    host: epyc-zen4-vm
what_if:
  - name: slow
    set: {{cluster.override.node0.gpu0.slowdown: 1.5}}
run: {{seed: 3, replicas: 1}}
"""


def tiny_trace(folder):
    """Eight steps of three operators each, as the profiler writes them on a CPU."""
    events = []
    for step in range(STEPS):
        at = 1000.0 * step
        events.append(event("user_annotation", f"ProfilerStep#{step}", at, 900.0))
        for i, name in enumerate(("aten::mm", "aten::relu", "aten::mm")):
            events.append(event("cpu_op", name, at + 10 + 250 * i, 200.0 + step))
    document = {"schemaVersion": 1, "traceEvents": events}
    (folder / "rank0.json").write_text(json.dumps(document))
    return folder / "rank0.json"


def event(kind, name, at, took):
    return {
        "ph": "X", "cat": kind, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": took, "args": {}
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("commands")
    tiny_trace(where)
    (where / "tiny.yaml").write_text(SCENARIO.format(trace=where / "rank0.json"))
    return where


@pytest.fixture
def described(folder):
    """The text of the scenario."""
    return (folder / "tiny.yaml").read_text()


@pytest.fixture
def cli(cli, folder, monkeypatch):
    """Run a command in the folder of the scenario."""
    monkeypatch.chdir(folder)
    return cli


@pytest.fixture
def saved(cli, folder):
    """A finished run's folder and its summary."""

    def make(out, *words):
        code, told, error = cli("run", "tiny.yaml", "--out", out, "--json", *words)
        assert code == 0, error
        return folder / json.loads(told)["folder"]

    return make
