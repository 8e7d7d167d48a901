"""Explanations are read from what checks."""

import json
import subprocess
import sys

import pytest
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.metrics import known_metrics
from foretrace.scenarios.config.schema import json_schema, scenario_model
from foretrace.scenarios.config.settings import known_backends
from foretrace.sim.errors import ScenarioError


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("run.seed", "  default  0"),
        ("run.engine", "  values   core, reference"),
        ("cluster.nodes", "  type     integer"),
        ("cluster.node.nic.bandwidth", "  like     400 Gb/s"),
        ("cluster.fabric.topology", "  values   dragonfly, fat-tree, graph, rail, torus"),
        ("cluster.override.node0.slowdown", "  type     number"),
        ("cluster.node.links.via", "  Kind of link, a name from `foretrace catalog link`."),
        ("what_if.name", "  Name of the variant, as tables show it."),
        ("iteration_time", "  unit     s"),
        ("nic.utilization", "  unit     ratio"),
        ("workload.type", "  values   trace, training, transfers"),
        ("roofline.launch", "  Launch cost of every kernel, independent of its size."),
        ("degrade.lasts", "  like     30 s"),
        (
            "roofline",
            "    launch             Launch cost of every kernel, independent of its size.",
        ),
    ],
)
def test_a_name_is_explained(name, line):
    assert line in str(explain(name)).splitlines()


def test_lists_are_whole():
    assert list(explain("scenario").below) == list(scenario_model().allowed())
    assert list(explain("backends").below) == list(known_backends())
    assert len(explain("metrics").below) == len(known_metrics())


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("cluster.nods", "cluster.nodes"),
        ("iteratontime", "iteration_time"),
        ("rofline", "roofline"),
    ],
)
def test_what_has_no_name_is_answered_with_the_nearest(wrong, right):
    with pytest.raises(ScenarioError, match=f"'{wrong}'; did you mean '{right}'"):
        explain(wrong)


def test_what_is_not_built_is_explained_by_its_release():
    name = "gpu.memory"
    assert name not in explain("metrics").below
    with pytest.raises(ScenarioError, match=f"'{name}' is planned for release 0.3"):
        explain(name)


def test_every_key_at_the_top_says_what_it_is():
    assert [key for key, what in explain("scenario").below.items() if not what] == []


def test_every_setting_of_a_section_says_what_it_is():
    silent = []
    defined = json_schema()["$defs"]
    for name, found in defined.items():
        for key, value in found.get("properties", {}).items():
            inner = value.get("$ref", "").rpartition("/")[2]
            described = defined.get(inner, value)
            if not (value.get("description") or described.get("description")):
                silent.append(f"{name}.{key}")
    assert silent == []


WRITES = f"""
import json, sys
from foretrace.__main__ import main
try: main()
except SystemExit as done: assert not done.code, done.code
from {json_schema.__module__} import json_schema
sys.stdout.write(json.dumps(json_schema()))
"""


def test_the_command_line_writes_the_schema(tmp_path):
    file = tmp_path / "a" / "schema.json"
    # In a process of its own: here plug-ins of other tests are part of it.
    command = [sys.executable, "-c", WRITES, "schema", "-o", str(file)]
    said = subprocess.run(command, check=True, capture_output=True).stdout
    assert json.loads(file.read_text()) == json.loads(said)


def test_a_word_of_reports_is_explained():
    assert "measurement" in explain("blind").what
    assert "p50, p95" in explain("words").below
