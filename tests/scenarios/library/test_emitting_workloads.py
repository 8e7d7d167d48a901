"""Scenarios whose policies emit many values and record series: page, tables, sweeps."""

import json
from pathlib import Path

import pytest
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.config.plugin_loading import unload_plugin_file
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.record.emitted_values import EmissionRecorder

PLUGIN = '''
from typing import NamedTuple

import foretrace as ft
import numpy as np
from foretrace.sim.kernel import policy


class Left(NamedTuple):
    left: np.ndarray


@ft.policy_kernel
def step(state, event, turn):
    k = state.left[0]
    if k == 0:
        return policy.DONE
    state.left[0] -= 1
    policy.record(turn, 0, k * 7919 % 1000)
    policy.emit(turn, 0, 1e-3 * (1 + k * 7919 % 1000))
    policy.after(turn, 1000000, 0)
    return policy.GO_ON


@ft.workload("meter")
class Meter(ft.Workload):
    """Policy without ops."""

    metrics = (ft.Metric("latency", "s", "Made up.", better="lower"),)
    headline = "latency.p99"
    needs = ft.Needs({})

    def __init__(self, *, values: int = 1000):
        self.values = values

    def start(self, job):
        left = Left(np.array([self.values]))
        return ft.CompiledProcess(step, left, metrics=["latency"], series=["queue"])
'''
SCENARIO = """
foretrace: 1
name: meter
question: How long?
plugins: [meter.py]
workload: {type: meter, values: 3000}
cluster: {nodes: 1, node: {host: {cores: 4}}}
what_if: [{name: fewer, set: {workload.values: 200}}]
sweep: {vary: {workload.values: [100, 2000]}, optimize: [{minimize: latency.p99}]}
"""


@pytest.fixture
def meter(tmp_path, monkeypatch):
    """The scenario in the working folder."""
    (tmp_path / "meter.py").write_text(PLUGIN)
    (tmp_path / "meter.yaml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    yield "meter.yaml"
    unload_plugin_file(tmp_path / "meter.py")


def test_a_run_without_ops_has_its_page_its_series_and_its_answer(meter, cli):
    import duckdb

    code, out, err = cli("run", meter, "--out", "runs")
    assert code == 0, err
    assert "bug" not in out + err
    (folder,) = Path("runs/meter").iterdir()
    page = (folder / "report.html").read_text()
    assert "Time series" in page
    assert "Emitted metrics" in page
    point = json.loads((folder / "summary.json").read_text())["points"]["base"]
    assert "distributions" not in point
    assert point["metrics"]["latency.p50"]["value"] == pytest.approx(0.5005)
    table = f"'{folder / 'series.base.parquet'}'"
    rows = 'sum("values"), min("min"), max("max"), sum(mean * "values")'
    expected = 3000, 0, 999, pytest.approx(3000 * 499.5)
    assert duckdb.sql(f"select {rows} from {table}").fetchall() == [expected]
    columns = ["series", "unit", "start", "end", "values", "min", "max", "mean", "last"]
    assert duckdb.sql(f"select * from {table}").columns == columns


def test_both_engines_record_the_same(meter):
    found = [build_variants(load(meter, set=[f"run.engine={e}"]))[0].run().series["queue"]
             for e in ("reference", "core")]  # fmt: skip
    assert found[0] == found[1]


@pytest.mark.parametrize("most", [10**6, 4096])
def test_workers_of_a_sweep_give_the_same_numbers(meter, cli, most, monkeypatch):
    monkeypatch.setattr(EmissionRecorder.__init__, "__defaults__", (1, most))
    outs = []
    for k, workers in enumerate(("local:1", "local:2")):
        code, out, err = cli(
            "sweep", meter, "--workers", workers, "--set", "workload.values=9000", "--json",
            "--out", f"sweep{k}",
        )  # fmt: skip
        assert code == 0, err
        outs.append(out.replace(f"sweep{k}", "sweep"))
    assert outs[0] == outs[1]


def test_a_summary_and_a_page_tell_the_error_of_percentiles(meter, cli, monkeypatch):
    monkeypatch.setattr(EmissionRecorder.__init__, "__defaults__", (1, 4096))
    code, out, err = cli("run", meter, "--quick", "--set", "workload.values=9000")
    assert code == 0, err
    (folder,) = Path("runs/meter").iterdir()
    point = json.loads((folder / "summary.json").read_text())["points"]["base"]
    assert point["distributions"] == {"latency": {"values": 9000, "error": 2.0**-10}}
    assert point["metrics"]["latency.max"]["value"] == 1.0
    assert point["metrics"]["latency.p99"]["value"] == pytest.approx(0.99, rel=2.0**-10)
    told = "Percentiles of latency are within 0.1 %: of its 9,000 values only the distribution"
    assert told in out
    assert told in (folder / "report.html").read_text()
