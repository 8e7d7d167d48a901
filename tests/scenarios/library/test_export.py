"""What is written for other programs says the same as the run."""

import gzip
import json

import duckdb
import numpy as np
import pytest
from foretrace.scenarios.cli.app import app
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation
from foretrace.traces.formats import chakra
from typer.testing import CliRunner

from foretrace.reports.export.chrome import write_chrome_trace  # isort: skip
from foretrace.reports.export.tables import write_ops  # isort: skip


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


class Recorded(Backend):
    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration)


def test_chrome_json_holds_every_op_to_the_picosecond(tmp_path):
    build = Builder("two")
    first = build.op(Kind.COMPUTE, duration=1.234567e-6, name='a "name"')
    build.op(Kind.COMPUTE, duration=2e-3, after=[first], period=1)
    system = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))
    result = Simulation(system, {"*": Recorded()}, engine="reference").run(build.graph())
    write_ops(tmp_path / "ops.parquet", result)
    assert write_chrome_trace(tmp_path / "ops.parquet", tmp_path / "t.json.gz") == 2
    text = gzip.decompress((tmp_path / "t.json.gz").read_bytes()).decode()
    events = json.loads(text, parse_float=str)["traceEvents"]
    assert [(e["name"], e["ts"], e["dur"]) for e in events] == [
        ('a "name"', 0, "1.234567"),
        ("compute", "1.234567", 2000),
    ]
    assert events[1]["args"] == {"component": "node0.gpu0", "period": 1}


def test_ops_saved_when_a_period_was_called_an_iteration_keep_it(tmp_path):
    row = "0 AS op, 0 AS rank, 1 AS stream, NULL::VARCHAR AS name, 'compute' AS kind, "
    row += "'ended' AS state, 0 AS start, 5 AS \"end\", 'node0.gpu0' AS component, 7 AS iteration"
    duckdb.sql(f"COPY (SELECT {row}) TO '{tmp_path}/ops.parquet' (FORMAT parquet)")
    write_chrome_trace(tmp_path / "ops.parquet", tmp_path / "t.json")
    (event,) = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert event["args"] == {"component": "node0.gpu0", "period": 7}


@pytest.fixture
def brought(tmp_path):
    """A Chakra trace of two ranks, and a scenario that runs it."""
    build = Builder("pair")
    work = [build.op(Kind.COMPUTE, rank=r, duration=1e-3) for r in range(2)]
    members = [Member(r, 3, (work[r],)) for r in range(2)]
    build.collective(members, bytes=1e6, signature="collective:all-reduce uint8[1000000]")
    chakra.write(build.graph(), tmp_path, prefix="pair")
    path = tmp_path / "s.yaml"
    path.write_text(
        f"""\
foretrace: 1
name: brought
workload: {{trace: {tmp_path}/pair.*.et, recorded_on: {{parallel: {{data: 2}}}}}}
cluster:
  nodes: 2
  node: {{gpu: {{model: h100-sxm5-80g, count: 1}}, nic: {{model: connectx-7, count: 1}}}}
backends: {{"node*.gpu*": {{use: recorded}}}}
"""
    )
    return path


def test_a_chakra_trace_is_run_and_resized(brought, tmp_path):
    done = run("run", brought, "--out", tmp_path / "runs", "--json", "--no-cache")
    assert done.exit_code == 0, done.output
    assert (
        json.loads(done.stdout)["points"]["base"]["metrics"]["iteration_time.p50"]["value"] > 1e-3
    )
    wider = run("trace", "export", brought, "--format", "chakra", "--out", tmp_path / "same")
    assert wider.exit_code == 0, wider.output
    assert len(chakra.read(tmp_path / "same" / "brought")) == 3


def test_what_chakra_has_no_use_for_is_refused(brought, tmp_path):
    brought.write_text(brought.read_text().replace("recorded_on:", "serialise: true, recorded_on:"))
    done = run("run", brought, "--out", tmp_path / "runs")
    assert (done.exit_code, str(done.exception).splitlines()[0]) == (
        1,
        "error workload.serialise: does not apply to a Chakra trace, which has all ranks and "
        "dependencies; remove it",
    )


def test_a_bundled_trace_goes_to_chakra_and_back(tmp_path):
    done = run("trace", "export", "foretrace:ddp-gpt", "--format", "chakra", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    from foretrace.scenarios.workloads.trace_files import open_trace

    graph, back = open_trace("foretrace:ddp-gpt").graph(), chakra.read(tmp_path / "ddp-gpt")
    np.testing.assert_array_equal(graph.ops.duration, back.ops.duration)
    np.testing.assert_array_equal(graph.explicit.successors.indptr, back.explicit.successors.indptr)


def test_a_folder_without_a_run_is_refused(tmp_path):
    done = run("trace", "export", tmp_path, "--format", "chrome")
    assert str(done.exception).endswith("name a folder under runs/, or run again with --keep ops")
