"""A driver that only an agent's ``load:`` names: accepted unopened, measured, and driving time."""

import re
import sys
from pathlib import Path

import foretrace
import pytest
from foretrace.hil.agent import declared_drivers
from foretrace.hil.driver import DRIVERS
from foretrace.scenarios.cli import app as application
from foretrace.scenarios.config.hil_settings import undeclared_driver_warnings
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.studies.accuracy.device_check import check_devices
from foretrace.scenarios.studies.run.run import study
from foretrace.sim.errors import DriverFault, ScenarioError

ODD = Path(__file__).parents[2] / "helpers/devices/odd_driver.py"
SCENARIO = """\
foretrace: 1
name: theirs
workload:
  type: transfers
  iterations: {measure: 1}
  ops: [{op: "copy:h2h", bytes: 1 MB, from: [0], count: 2}]
cluster:
  nodes: 1
  node: {gpu: {count: 1, streams: 1}, host: {cores: 1}, memory: {bandwidth: 4 GB/s, latency: 0 s}}
backends: {node0.gpu0: {use: copy}}
hil:
  mode: MODE
  repeat: 2
  busy: 1000000
  warm_up: 0 s
  swap: [{component: node0.gpu0, driver: DRIVER, agent: AGENT}]
"""


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """A user's list of agents, and no driver of theirs on this side."""
    (tmp_path / "foretrace").mkdir()
    file = tmp_path / "foretrace/agents.yaml"
    file.write_text(f"""
agents:
  mine: {{load: [{ODD}]}}
  gone: {{load: [/nowhere/odd.py]}}
  other: {{python: {sys.executable}, load: [{ODD}]}}
  far: {{ssh: me@box, agent: agent.pyz, load: [drivers/odd.py]}}
""")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    kept = DRIVERS.pop("odd", None)
    yield tmp_path
    DRIVERS.pop("odd", None)
    if kept is not None:
        DRIVERS["odd"] = kept


def scenario(driver="odd", agent="mine", mode="replay"):
    text = SCENARIO.replace("DRIVER", driver).replace("AGENT", agent).replace("MODE", mode)
    return loads(text, file="s.yaml")


@pytest.mark.parametrize("agent", ["mine", "other"])
def test_a_driver_of_ones_own_is_known_by_reading_its_file_not_by_running_it(listed, agent):
    assert list(undeclared_driver_warnings(scenario(agent=agent))) == []
    assert "odd" not in DRIVERS


def test_a_driver_that_the_files_do_not_have_is_refused_with_the_nearest(listed):
    with pytest.raises(InvalidScenarioError, match="no driver named 'ood'; did you mean 'odd'"):
        scenario("ood")
    with pytest.raises(InvalidScenarioError, match="no driver named 'odd'; known here: collective"):
        scenario(agent='""')


COPY = " and keep a copy here, at the same path: that agent is on another machine"


@pytest.mark.parametrize(("agent", "copy"), [("far", COPY), ("elsewhere", "")])
def test_a_driver_known_only_after_connecting_is_reported_as_unknown(listed, agent, copy):
    (problem,) = undeclared_driver_warnings(scenario("sort", agent))
    assert problem.severity == "warning"
    assert problem.message == (
        f"hil.swap node0.gpu0: not checked whether agent '{agent}' has a driver 'sort'; "
        f"ask the agent: foretrace drivers sort --agent {agent}, or, to check it here, list its "
        f"file under load: of '{agent}' in {listed / 'foretrace/agents.yaml'}{copy}"
    )


def test_a_file_that_is_not_there_is_named_with_the_list_that_names_it(listed):
    with pytest.raises(ScenarioError, match=r"agent gone: load: /nowhere/odd\.py: No such file .*"
                       r"agents\.yaml"):  # fmt: skip
        scenario(agent="gone")


def test_a_declared_driver_is_measured_and_drives_a_coupled_run(listed):
    found = check_devices(scenario())
    assert found.results["components"]["node0.gpu0"]["n"] == 2
    result = study(scenario(mode="coupled")).results["base"]
    assert float(result.makespan) == pytest.approx(2 * 100e-9)


def test_a_driver_on_another_machine_only_names_what_this_side_needs(listed):
    with pytest.raises(DriverFault, match=r"must know what its samples cover; list its file.*copy"):
        check_devices(scenario(agent="far"))


def test_a_driver_of_another_machine_is_known_by_a_copy_of_its_file(listed, monkeypatch):
    monkeypatch.setenv("HOME", str(listed))
    assert declared_drivers.agent_has_driver("odd", "far") is None
    (listed / "drivers").mkdir()
    (listed / "drivers/odd.py").write_text(ODD.read_text())
    assert list(undeclared_driver_warnings(scenario(agent="far"))) == []
    declared_drivers.import_agent_driver("odd", "far")
    assert "odd" in DRIVERS
    assert (
        declared_drivers.agent_has_driver("ood", "far") is None
    )  # the machine itself may have more


def test_a_file_that_needs_what_this_python_lacks_says_where_to_import_it(listed):
    file = listed / "torchy.py"
    file.write_text("import nosuchtorch\n@driver('torchy')\nclass T: pass\n")
    (listed / "foretrace/agents.yaml").write_text(f"agents: {{mine: {{load: [{file}]}}}}")
    assert declared_drivers.agent_has_driver("torchy", "mine") is True
    with pytest.raises(DriverFault, match="No module named 'nosuchtorch'; import it inside"):
        check_devices(scenario("torchy"))


def test_the_driver_that_the_page_shows_is_used_as_the_page_says(listed, capsys, monkeypatch):
    page = (Path(foretrace.__file__).parent / "docs/hil.md").read_text()
    blocks = re.findall(r"```(?:python|yaml)\n(.*?)```", page, re.DOTALL)
    (driver,) = (b for b in blocks if '@driver("sort")' in b)
    (wanted,) = (b for b in blocks if "driver: sort" in b)
    (listed / "sort.py").write_text(driver)
    agents = f"agents:\n  mine: {{load: [{listed}/sort.py]}}\n"
    (listed / "foretrace/agents.yaml").write_text(agents)
    made = loads(wanted, file="sorting.yaml")
    assert list(undeclared_driver_warnings(made)) == []
    assert "sort" not in DRIVERS
    times = [float(study(made).results["base"].makespan) for _ in range(4)]
    assert all(0 < t < 10 for t in times)
    assert len(set(times)) > 1  # it was sorted again
    del DRIVERS["sort"]


def test_validate_accepts_a_driver_that_only_the_agent_loads(listed, tmp_path, monkeypatch, capsys):
    file = tmp_path / "s.yaml"
    text = SCENARIO.replace("DRIVER", "odd").replace("AGENT", "mine").replace("MODE", "replay")
    file.write_text(text)
    monkeypatch.setattr(sys, "argv", ["foretrace", "validate", str(file)])
    with pytest.raises(SystemExit) as left:
        application.main()
    assert (left.value.code or 0, capsys.readouterr().out.split()[0]) == (0, "ok")
