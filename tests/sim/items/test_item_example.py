"""The documented pipeline of packets runs from Python and from its scenario."""

import ast
import importlib.util
import os
import sys
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace import Component, Simulation, System
from foretrace.reports.run.policies.item_pools import item_pools
from foretrace.sim.run.workload import WORKLOADS

PLUGINS = Path(foretrace.__file__).resolve().parent / "docs" / "examples" / "plugins"
LONGEST = 80
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
HOST = System((Component("node0.host", "host", slots=1),), ())


@pytest.fixture
def pipeline():
    """The workload of the example; what it registered is removed after the test."""
    known = dict(WORKLOADS)
    spec = importlib.util.spec_from_file_location("example_packets", PLUGINS / "packet_pipeline.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.PacketPipeline
    WORKLOADS.clear()
    WORKLOADS.update(known)
    del sys.modules[spec.name]


class Anything(foretrace.Backend):
    source = "the test"

    def timing(self, ops, now=0.0):
        return foretrace.Timing.of(np.nan_to_num(ops.duration))


def run(work, engine="core"):
    return Simulation(HOST, {"*": Anything()}, engine=engine, seed=3).run(work, replica=0)


def test_both_engines_give_the_same_metrics(pipeline):
    work = pipeline(rate=8e6, packets=600, flows=50, entries=16, line=2, cores=2)
    runs = [run(work, engine) for engine in ("core", "reference")]
    assert list(runs[0].emitted) == list(runs[1].emitted)
    metrics = runs[0].emitted.samples
    assert metrics["arrived"] == 600 == metrics["ended"] + metrics["drops"]
    assert metrics["hits"] + metrics["misses"] == 600
    assert metrics["drops"] == metrics["slow-path.drops"] == metrics["miss.drops"] > 0


@pytest.mark.skipif(INTERPRETED, reason="too many packets, interpreted")
def test_misses_and_drops_fall_with_a_larger_table(pipeline):
    small, large = (
        run(pipeline(rate=1e7, packets=50_000, entries=entries)).emitted.samples
        for entries in (1024, 131_072)
    )
    assert large["misses"] < small["misses"]
    assert large["latency"].mean() < small["latency"].mean()


def code_lines(file):
    """Lines with code: without blank lines and docstrings."""
    text = file.read_text()
    tree, skipped = ast.parse(text), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                skipped |= set(range(first.lineno, first.end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and k not in skipped for k, line in lines)


def test_the_example_is_short():
    assert code_lines(PLUGINS / "packet_pipeline.py") <= LONGEST


@pytest.mark.skipif(INTERPRETED, reason="too many packets, interpreted")
def test_the_scenario_answers_and_its_page_has_a_table(pipeline):
    scenario = foretrace.load(PLUGINS / "packet_pipeline.yaml")
    study = foretrace.run(scenario)
    summary = study.summary
    assert "latency.p99" in str(summary)
    _, table, sentence = item_pools(study)
    assert [row[:4] for row in table.rows[:3]] == [
        ["base", "packets", "new", "parser"],
        ["base", "packets", "hit", "table"],
        ["base", "packets", "miss", "table"],
    ]
    assert "(exact)" in str(sentence)
