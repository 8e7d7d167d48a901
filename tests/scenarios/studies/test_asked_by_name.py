"""Ops, kernels and moves as a user names them: in a file, by `foretrace run`, in the report."""

import html
import json

import pytest
from foretrace.scenarios.config.schema import scenario_model
from foretrace.sim.run.process import PROCESSES
from foretrace.sim.run.workload import WORKLOADS

MOVING = '''
from foretrace import Builder, Kind, Workload, process, workload

@workload("three-in-a-row")
class Three(Workload):
    """Three ops one after another on the first GPU, a second each."""

    def start(self, job):
        def ask(sim):
            build, last = Builder("row"), ()
            for k in range(3):
                last = (build.op(Kind.COMPUTE, name=f"op{k}", duration=1.0, after=last),)
            yield sim.submit(build.graph()).done
        return ask

@process("move-away")
class Away:
    """Moves what is left of the ops after 12 s to another GPU."""

    def __call__(self, sim):
        yield sim.wait(12.0)
        for op in (1, 2):
            sim.stop(op)
        sim.resume([1, 2], keep=False, slots=("node1.gpu0",))
'''
ROW = """\
foretrace: 1
name: moved
plugins: [{folder}/moving.py]
workload: {{type: three-in-a-row}}
cluster:
  nodes: 2
  node: {{gpu: {{model: h100-sxm5-80g, count: 1}}, host: {{cores: 8}}, nic: connectx-7}}
  override: {{node0.gpu0: {{slowdown: 10}}}}
backends: {{node*.gpu*: {{use: recorded}}}}
processes: [{{use: move-away}}]
"""
EXCHANGE = """\
foretrace: 1
name: exchange
workload:
  trace: {trace}
  missing_ranks: recorded_waits
  recorded_on: {{device: a100-sxm4-80g}}
  communication: [{pattern}]
cluster: {{nodes: 1, node: {{gpu: a100-sxm4-80g, host: {{cores: 8}}}}}}
backends: {{fabric: {{use: recorded}}}}
ops: [{{where: {{name: gemm}}, scale: 2}}]
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    WORKLOADS.pop("three-in-a-row", None)
    PROCESSES.pop("move-away", None)
    scenario_model.cache_clear()


def test_ops_that_are_moved_to_a_quicker_gpu_take_what_it_takes(cli, here):
    """10 s, then two of 1 s on the spare after 12 s: 14 s, where 32 were said."""
    (here / "moving.py").write_text(MOVING)
    (here / "a.yaml").write_text(ROW.format(folder=here))
    code, out, err = cli("run", "a.yaml", "--json")
    assert code == 0, err
    metrics = json.loads(out)["points"]["base"]["metrics"]
    assert metrics["makespan"]["value"] == pytest.approx(14.0)
    assert metrics["node1.gpu0.utilization.mean"]["value"] == pytest.approx(2 / 14)


def exchanging(script, folder):
    """A product of 50 us, then a kernel of 100 that another library exchanges with."""
    s = script(deviceProperties=[{"name": "A GPU"}])
    s.step(1, 0, 200)
    s.op("aten::mm", 0, 30)
    s.launch(5, 10, 50, name="gemm")
    s.launch(40, 60, 100, name="my_exchange<float>")
    s.call("cudaDeviceSynchronize", 50, 130)
    return s.write(folder)


def test_a_kernel_that_a_file_calls_communication_is_exposed_in_the_report(script, cli, here):
    """It counted as compute, so that nothing was exposed, without a word."""
    trace = exchanging(script, here)
    (here / "a.yaml").write_text(EXCHANGE.format(trace=trace, pattern="'my_*'"))
    code, out, err = cli("run", "a.yaml", "--json")
    assert code == 0, err
    found = json.loads(out)
    point = found["points"]["base"]
    assert point["metrics"]["exposed_communication.mean"]["value"] == pytest.approx(100e-6)
    (rule,) = point["rules"]
    assert (rule["ops"], rule["where"]) == (1, {"name": "gemm"})
    page = html.unescape((here / found["folder"] / "report.html").read_text())
    assert "1 op (name 'gemm') takes 2 times as long" in page


def test_a_pattern_of_communication_that_fits_no_kernel_is_refused(script, cli, here):
    trace = exchanging(script, here)
    (here / "a.yaml").write_text(EXCHANGE.format(trace=trace, pattern="'your_*'"))
    code, _, err = cli("run", "a.yaml", "--json")
    assert code == 2
    assert "no kernel of the trace fits 'your_*'" in err
