"""Golden results: what a scenario answers now must equal what was recorded.

``tests/golden/today/NAME.json`` holds the results of one scenario, in up to four parts: the exit
code, the summary, the blame in seconds of each variant, and for each variant the number of ops and
the sha256 of the columns ready, start and end (ticks in order of ops, as little-endian int64, -1
for never). The many metrics of single components follow from the columns, so only a hash of them is
stored. Texts of the catalog on the origin of a value are left out. Everything is compared exactly:
the same inputs and seed give the same bytes.

Inputs that are not bundled are in ``tests/golden/today/inputs``. If a result has to change, rewrite
the files, and name the changed numbers and the reason in the commit:

    FORETRACE_WRITE_GOLDENS=1 pytest tests/golden/test_today.py [-k NAME]
"""

import hashlib
import json
import os
from pathlib import Path

import duckdb
import numpy as np
import pytest
from by_day import only
from foretrace import (
    Backend,
    Builder,
    Component,
    Kind,
    Member,
    Ops,
    Simulation,
    Spread,
    System,
    Timing,
)
from foretrace.sim.facts.csr import Csr
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.spmd.spmd_graph import RankProgram, SpmdGraph

GOLDENS = Path(__file__).parent / "today"
INPUTS = GOLDENS / "inputs"
DATA = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
MI300 = DATA / "kineto-traces" / "h100-mi300-pairs" / "bert-small.mi300.json.gz"
OF_OPS = ("ready", "start", "end")
NS = 1e-9


# What a golden holds, a function a part.


def digest(numbers) -> str:
    """The sha256 of whole numbers as little-endian int64."""
    return hashlib.sha256(np.ascontiguousarray(numbers, "<i8").tobytes()).hexdigest()


def summary_of(said):
    """Summary of a run without blame and catalog texts; metrics of single components as a hash."""
    points = {name: _point(point) for name, point in said["points"].items()}
    return {**said, "points": points, "provenance": _provenance(said["provenance"])}


def _provenance(told):
    """Values with their kinds and errors, without the texts on where they come from."""
    values = {v["path"]: [v["value"], v["kind"], v["error"]] for v in told["values"]}
    return {**told, "values": values}


def _point(point):
    kept = {key: value for key, value in point.items() if key != "blame"}
    single = {k: v for k, v in point["metrics"].items() if k.startswith("node")}
    kept["metrics"] = {k: v for k, v in point["metrics"].items() if k not in single}
    text = json.dumps(single, sort_keys=True).encode()
    kept["metrics_of_components"] = {"n": len(single), "sha256": hashlib.sha256(text).hexdigest()}
    return kept


def blame_of(said):
    """Seconds of the critical path, by variant and component."""
    return {name: point["blame"] for name, point in said["points"].items()}


def columns_of(folder):
    """Hashes of the columns in a run folder, by variant."""
    return {
        file.name.split(".")[1]: _columns(file) for file in sorted(folder.glob("ops.*.parquet"))
    }


def _columns(file):
    read = ", ".join(f'coalesce("{name}", -1)::bigint as "{name}"' for name in OF_OPS)
    found = duckdb.sql(f"select {read} from '{file}' order by op").fetchnumpy()
    return {"ops": len(found["end"]), **{name: digest(found[name]) for name in OF_OPS}}


def result_of(result, **more):
    """The same three parts of a result in Python, and more for its summary."""
    summary = {
        **more,
        "makespan": result.makespan,
        "busy": result.busy,
        "utilization": result.utilization(),
        "sources": result.sources,
        "metrics": result.metrics,
    }
    if result.keep != "ops":
        return {"summary": summary}
    columns = {name: digest(getattr(result.columns, name)) for name in OF_OPS}
    return {
        "summary": summary,
        "blame": result.blame().seconds,
        "columns": {"ops": result.count, **columns},
    }


def with_iterations(result):
    """The parts of a result of a graph that has steps."""
    return result_of(result, iterations=result.periods.tolist())


# Comparing.


def assert_golden(name, found):
    """What was found is what is kept; every number that differs is named."""
    file = GOLDENS / f"{name}.json"
    text = json.dumps(found, sort_keys=True, indent=1) + "\n"
    if os.environ.get("FORETRACE_WRITE_GOLDENS"):
        file.write_text(text)
        pytest.skip(f"WRITTEN, not compared: {file}")
    kept, now = _leaves(json.loads(file.read_text())), _leaves(json.loads(text))
    differ = [key for key in sorted({*kept, *now}) if kept.get(key) != now.get(key)]
    told = [f"{key}: was {kept.get(key)}, is {now.get(key)}" for key in differ]
    assert not told, f"{len(told)} numbers of {file.name} differ:\n" + "\n".join(told[:30])


def _leaves(tree, path=""):
    """Every value by its path, as JSON writes it; an empty container is a value."""
    if not isinstance(tree, dict | list) or not tree:
        return {path: json.dumps(tree)}
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {k: v for key, value in items for k, v in _leaves(value, f"{path}/{key}").items()}


# Scenarios of the command line.


@pytest.fixture
def left(cli, tmp_path):
    """Run a command: its exit code and the folder that it left."""

    def run(*words):
        code, _, said = cli(*words, "--out", tmp_path / "runs")
        manifests = list((tmp_path / "runs").glob("*/*/manifest.json"))
        assert len(manifests) == 1, said
        return code, manifests[0].parent

    return run


@pytest.fixture
def ran(left):
    """All parts of what `foretrace run` leaves."""

    def run(scenario, *words):
        code, folder = left("run", scenario, "--no-cache", *words)
        said = json.loads((folder / "summary.json").read_text())
        parts = {"summary": summary_of(said), "blame": blame_of(said)}
        return {"exit": code, **parts, "columns": columns_of(folder)}

    return run


def test_the_bundled_first_run(ran):
    assert_golden("first", ran("first"))


@pytest.mark.parametrize(
    "template", only(["hil", "minimal"], ["capacity", "hil", "minimal", "training"])
)
def test_every_template_of_init(template, ran, cli, tmp_path):
    assert cli("init", tmp_path, "--template", template)[0] == 0
    assert_golden(f"init-{template}", ran(tmp_path / "scenarios" / "first.yaml"))


@pytest.mark.parametrize("name", ["chakra", "process", "rocm", "transfers"])
def test_scenarios_outside_the_library(name, ran):
    assert_golden(name, ran(INPUTS / f"{name}.yaml"))


def test_a_real_trace_of_rocm(ran):
    if not MI300.exists():
        pytest.skip(f"NOT COMPARED, no recorded trace at {MI300}; set FORETRACE_DATA")
    found = ran(INPUTS / "rocm-recorded.yaml", "--set", f"workload.trace={MI300}")
    assert_golden("rocm-recorded", found)


def test_a_check_against_a_recording(left):
    code, folder = left("hil", "check", INPUTS / "check.yaml")
    said = json.loads((folder / "accuracy.json").read_text())
    assert_golden("check", {"exit": code, "summary": said})


def test_a_sweep(left):
    code, folder = left("sweep", INPUTS / "sweep.yaml", "--workers", "local:1")
    said = json.loads((folder / "summary.json").read_text())
    assert_golden("sweep", {"exit": code, "summary": said})


# Programs.


class Given(Backend):
    """As long as an op says; a collective or message 1 ns a byte."""

    source = "given"

    def __init__(self, spread=None):
        self.spread = spread

    def timing(self, ops, now=0.0):
        alone = np.where(np.isnan(ops.duration), np.nan_to_num(ops.bytes) * NS, ops.duration)
        return Timing.of(alone, spread=self.spread)


def machine(ranks, spread=None):
    """A GPU of one slot for each rank, and a network."""
    gpus = tuple(f"node{r}.gpu0" for r in range(ranks))
    parts = (*(Component(gpu, "gpu", slots=1) for gpu in gpus), Component("net", "fabric"))
    system = System(parts, gpus, fabric="net")
    return Simulation(system, {"*": Given(spread)}, seed=11)


def steps(count, name="steps"):
    """Two ranks that compute and reduce, so many times; two kernels of rank 0 want one slot."""
    build, last = Builder(name), ((), ())
    for step in range(count):
        works = [
            build.op(Kind.COMPUTE, rank=r, duration=(500 + 90 * r + step) * NS, period=step,
                     after=last[r]) for r in range(2)
        ]  # fmt: skip
        other = build.op(Kind.COMPUTE, rank=0, stream=1, duration=333 * NS, period=step,
                         after=last[0])  # fmt: skip
        members = [Member(r, 2, (works[r],)) for r in range(2)]
        reduced = build.collective(members, bytes=250, period=step)
        last = ((reduced, other), (reduced,))
    return build.graph()


def test_a_template_written_out_and_folded():
    kinds = [Kind.COMPUTE, Kind.COLLECTIVE, Kind.SEND, Kind.RECV, Kind.HOST, Kind.COLLECTIVE]
    row = np.arange(len(kinds) - 1)
    program = [
        RankProgram(
            Ops.of(
                kind=np.array(kinds), stream=np.array([0, 1, 1, 1, 0, 1]),
                period=np.array([0, 0, 0, 1, 1, 1]), bytes=np.array([0, 700, 40, 40, 0, 900.0]),
                duration=np.array([100 + 30 * k, np.nan, np.nan, np.nan, 55, np.nan]) * NS,
            ),
            Csr.from_pairs(row, row + 1, len(kinds)),
            np.array([-1, 0, 0, 0, -1, 1], np.int16),
        )
        for k in range(2)
    ]  # fmt: skip
    rank = np.arange(8)
    groups = np.array([rank // 4, rank % 4], np.int32)
    ring = np.array([(rank + 1) % 8], np.int32)
    template = SpmdGraph(tuple(program), (rank % 2).astype(np.int32), groups, ring)
    graph = Graph("grid", (template,), streams={})
    results = {keep: machine(8).run(graph, keep=keep) for keep in ("ops", "ranks")}
    assert_golden("template", {keep: with_iterations(result) for keep, result in results.items()})


def test_replicas_of_a_run_that_varies():
    spread = Spread(np.array([0.8, 1, 1.3]), np.array([0.9, 1, 1, 1.2]), np.array([0.95, 1.05]))
    results = machine(2, spread).replicas(steps(4), count=4)
    assert_golden("replicas", {str(k): with_iterations(found) for k, found in enumerate(results)})


def test_a_process_that_submits_graphs_reads_state_and_emits_metrics():
    def policy(sim):
        for k in range(3):
            part = sim.submit(steps(1 + k, f"part {k}"))
            yield sim.wait(700 * NS) if k < 2 else part.done
            sim.emit("busy", sim.utilisation("node0.gpu0"))

    assert_golden("submissions", result_of(machine(2).run(None, policy)))
