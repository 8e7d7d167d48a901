"""A role, a kind of op and a part with cores from one plug-in, from scenario to page."""

import ast
import json
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace.reports.figures.schedule import timeline_bars
from foretrace.reports.figures.time_tree import op_totals, time_tree
from foretrace.reports.figures.timeline_source import timeline_data
from foretrace.reports.palette import KINDS as BAR_KINDS
from foretrace.reports.palette import bar_kinds
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.config.plugin_loading import unload_plugin_file
from foretrace.scenarios.studies.building.jobs import graph_of
from foretrace.scenarios.studies.building.system import build_backends, build_system
from foretrace.sim.analysis.activity import activity
from foretrace.sim.facts.kind import KINDS, ROLES
from foretrace.sim.facts.place import place
from foretrace.sim.run.simulation import Simulation

ROOT = Path(foretrace.__file__).resolve().parent
HERE = ROOT / "docs" / "examples" / "plugins"
ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
ROUND = 2e-6 + 1e6 / 1e9  # one message on one core: 1 MB at 1 GB/s, and 2 us


@pytest.fixture(scope="module")
def scenario():
    yield load(HERE / "nic_cores.yaml")
    unload_plugin_file(HERE / "nic_cores.py")
    assert "nic-cores" not in ROLES
    assert "packets" not in KINDS


def ran(scenario, engine="core", variant=0, keep="ops"):
    one = scenario.variants()[variant]
    machine = build_system(one)
    graph = place(graph_of(one), machine)
    simulation = Simulation(machine, build_backends(one, machine), engine=engine)
    return simulation.run(graph, keep=keep)


def code_lines(file):
    """Lines of a file with code: without blank lines, comments and docstrings."""
    text = file.read_text()
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Module | ast.ClassDef
             | ast.FunctionDef) and ast.get_docstring(n)]  # fmt: skip
    said = {k for n in nodes for k in range(n.body[0].lineno, n.body[0].end_lineno + 1)}
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(t.strip()) and not t.strip().startswith("#") and k not in said
               for k, t in lines)  # fmt: skip


def test_the_plug_in_is_short_and_no_product_file_names_it():
    assert code_lines(HERE / "nic_cores.py") <= 60
    product = ("sim", "models", "hil", "traces", "scenarios", "reports")
    named = [
        str(f)
        for folder in product
        for f in (ROOT / folder).rglob("*.py")
        if any(word in f.read_text() for word in ("nic-cores", "nic_cores", "PACKETS"))
    ]
    assert named == []


@ENGINES
def test_ops_queue_for_cores_where_there_are_fewer_than_ops(scenario, engine):
    """8 messages of two GPUs, on 2 cores and on 8."""
    two, eight = (ran(scenario, engine, k) for k in range(2))
    reduced = two.makespan - 4 * ROUND
    assert 0 < reduced < 1e-5
    assert eight.makespan == pytest.approx(ROUND + reduced, abs=1e-12)
    assert np.sort(two.start[:8]).tolist() == pytest.approx(np.repeat(np.arange(4), 2) * ROUND)


@ENGINES
def test_blame_charges_the_cores_and_utilization_counts_them(scenario, engine):
    result = ran(scenario, engine)
    assert result.blame().seconds["node0.dpu0"] == pytest.approx(4 * ROUND)
    assert result.utilization()["node0.dpu0"] == pytest.approx(4 * ROUND / result.makespan)


@pytest.mark.parametrize("keep", ["ops", "ranks"])
@ENGINES
def test_the_time_breakdown_has_the_layer_of_the_role(scenario, engine, keep):
    """The first GPU's messages fill both cores for 2 rounds, for which the other one waits."""
    boxes = activity(ran(scenario, engine, keep=keep))
    assert boxes["exposed_communication"].tolist() == pytest.approx([2 * ROUND] * 2)
    assert boxes["waiting"].tolist() == pytest.approx([0.0, 2 * ROUND])


def test_the_timeline_has_a_lane_and_a_colour_for_the_role(scenario):
    result = ran(scenario)
    colour = bar_kinds()["nic-cores"]
    assert colour not in BAR_KINDS.values()
    page = timeline_data({"base": result})
    assert {"name": "nic-cores", "colour": colour} in page["kinds"]
    assert [row["name"] for row in page["rows"] if "lane" in row] == ["stream 0"] * 2
    chart, _ = timeline_bars(result, [0, 1], (0, result.makespan_ticks))
    assert chart.legend["nic-cores"] == colour
    assert '"kind": "role-1"' in json.dumps(time_tree({"base": op_totals(result)}))


def test_a_stream_of_the_role_is_drawn_and_counted_as_the_role(scenario):
    one = scenario.variants()[0]
    machine = build_system(one)
    build = foretrace.Builder("kernel on a NIC")
    build.op(foretrace.Kind.COMPUTE, bytes=1e6)
    build.set_stream_kind(0, 0, "nic-cores")
    graph = place(build.graph(), machine)
    result = Simulation(machine, build_backends(one, machine)).run(graph)
    assert result.blame().seconds == {"node0.dpu0": pytest.approx(ROUND)}
    assert activity(result)["exposed_communication"].tolist() == pytest.approx([ROUND])
    chart, _ = timeline_bars(result, [0], (0, result.makespan_ticks))
    assert list(chart.legend) == ["nic-cores"]


def test_a_run_saves_and_shows_it(scenario, cli, tmp_path):
    code, out, err = cli("run", HERE / "nic_cores.yaml", "--out", tmp_path)
    assert code == 0, err
    assert "node0.dpu0" in out
    (page,) = tmp_path.rglob("report.html")
    assert "nic-cores" in page.read_text()


def test_workers_of_a_sweep_load_the_kind_and_the_role(cli, tmp_path):
    sweep = "sweep:\n  vary: {cluster.node.dpu.cores: [2, 4, 8]}\n"
    text = (HERE / "nic_cores.yaml").read_text().replace("nic_cores.py", str(HERE / "nic_cores.py"))
    text = text[: text.index("what_if:")] + sweep
    (tmp_path / "s.yaml").write_text(text)
    runs = ("--workers", "local:2", "--out", tmp_path / "o")
    code, out, err = cli("sweep", tmp_path / "s.yaml", *runs)
    assert code == 0, err
    assert "4.01 ms" in out
    assert "1 ms" in out
