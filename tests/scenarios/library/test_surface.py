"""Commands around a run: init, plan, ls, show, rm, doctor, limits, plug-ins, completion."""

import configparser
import itertools
import json
import re
import signal
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import foretrace
import pytest
from foretrace.scenarios.cli.init import scenario_templates
from foretrace.scenarios.config import installed_plugins
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.building.limits import free_memory, require_memory, time_limit
from foretrace.sim.errors import ScenarioError, SimulationError
from foretrace.sim.facts.backend import BACKENDS

MINIMAL = """\
foretrace: 1
name: tiny
workload: {trace: rank0.json, recorded_on: {device: epyc-zen4-core}}
cluster: {nodes: 1, node: {gpu: epyc-zen4-core, host: epyc-zen4-vm}}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a scenario of one step of two operators."""
    events = [_event("user_annotation", "ProfilerStep#0", 0.0, 900.0)]
    events += [_event("cpu_op", "aten::mm", 10.0 + 300 * i, 200.0) for i in range(2)]
    (tmp_path / "rank0.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    (tmp_path / "tiny.yaml").write_text(MINIMAL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _event(kind, name, at, took):
    return {
        "ph": "X", "cat": kind, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": took, "args": {}
    }  # fmt: skip


@pytest.fixture
def cli(cli, here):
    """Run a command in that folder."""
    return cli


# init


@pytest.mark.parametrize("template", sorted(scenario_templates()))
def test_what_init_makes_is_right_as_it_is(cli, here, template):
    assert cli("init", "new", "--template", template)[0] == 0
    code, out, err = cli("validate", "--strict", "new/scenarios/first.yaml")
    assert (code, out, err) == (0, "ok    new/scenarios/first.yaml\n", "")
    first = (here / "new" / "scenarios" / "first.yaml").read_text().splitlines()[0]
    named = first.removeprefix("# yaml-language-server: $schema=")
    assert json.loads((here / "new" / "scenarios" / named).read_text())["title"]
    assert "foretrace validate" in (here / "new/.github/workflows/foretrace.yml").read_text()


def test_every_template_has_a_name_of_its_own():
    names = [re.search(r"^name: (.*)$", text, re.M)[1] for text in scenario_templates().values()]
    assert len(set(names)) == len(names)
    assert load("first").name not in names


def test_init_overwrites_nothing(cli, here):
    cli("init", "new")
    (here / "new" / "scenarios" / "first.yaml").write_text("mine")
    code, _, err = cli("init", "new")
    assert code == 2
    assert "exist; give another folder" in err
    assert (here / "new" / "scenarios" / "first.yaml").read_text() == "mine"


@pytest.mark.parametrize("file", ["first", "new/scenarios/first.yaml"])
def test_a_network_that_is_called_four_times_faster_is(cli, here, file):
    assert cli("init", "new", "--template", "training")[0] == 0
    base, faster, *_ = (v.cluster.node.nic.settings for v in load(file).variants())
    assert faster["bandwidth"] == 4 * base["bandwidth"]


def test_a_template_that_is_not_there_is_named(cli):
    code, _, err = cli("init", "new", "--template", "trainning")
    assert (code, err) == (
        2,
        "error --template: no template 'trainning'; did you mean 'training'?\n",
    )


@pytest.mark.nightly
@pytest.mark.parametrize("template", sorted(scenario_templates()))
def test_what_init_makes_runs_at_once(cli, template, monkeypatch):
    """By the very words that it says come next."""
    _, said, _ = cli("init", "new", "--template", template)
    go = said.splitlines()[-1].partition("foretrace ")[2]
    monkeypatch.chdir("new")
    others = (
        ["--set", "hil.busy=1000000"] if go.startswith("hil") else []
    )  # tests run at the same time
    assert cli(*go.split(), *others)[0] == 0


@pytest.mark.parametrize(
    ("template", "says"),
    [("hil", "its devices were not used; run: foretrace hil check"),
     ("capacity", "its sweep of 12 points was not run; run: foretrace sweep")],
)  # fmt: skip
def test_a_run_says_which_command_answers_what_else_its_scenario_asks(cli, template, says):
    cli("init", "new", "--template", template)
    small = ("--set", "run.replicas=1", "--set", "what_if=[]")
    _, _, err = cli("run", "new/scenarios/first.yaml", *small)
    assert f"{says} new/scenarios/first.yaml" in err


# plan


def test_a_plan_says_what_a_run_does(cli):
    planned = json.loads(cli("plan", "tiny.yaml", "--json")[1])
    done = json.loads(cli("run", "tiny.yaml", "--json")[1])
    facts = done["points"]["base"]["facts"]
    assert planned["ops"] == {"base": facts["ops"]}
    assert planned["ranks"] == {"base": facts["ranks"]}
    assert planned["devices"] == []
    assert planned["points"] == 0


def test_a_plan_tells_every_value_that_nobody_measured(cli):
    assumed = json.loads(cli("plan", "first", "--json")[1])["assumed"]
    _, said, _ = cli("plan", "first")
    head, *rows = said[said.index("assumed") :].splitlines()
    assert head == f"assumed     {len(assumed)} values that nobody measured:"
    assert len(assumed) > len(rows) > 1
    parts = (row.strip().split(": ") for row in rows)
    assert [f"{part}.{n}" for part, names in parts for n in names.split(", ")] == assumed


def test_a_plan_of_a_sweep_counts_its_points(cli):
    sweep = "sweep={vary: {cluster.node.host.cores: [1, 2, 3]}}"
    assert json.loads(cli("plan", "tiny.yaml", "--set", sweep, "--json")[1])["points"] == 4
    assert "4 points on " in cli("plan", "tiny.yaml", "--set", sweep)[1]


def test_a_plan_of_more_ranks_counts_their_ops():
    from foretrace.scenarios.studies.run.plan import known_size

    two, eight = (
        known_size(load("first", set=[f"workload.scale_to.parallel.data={n}"])) for n in (2, 8)
    )
    assert (two.ranks, eight.ranks) == (2, 8)
    assert eight.ops == 4 * two.ops


# ls, show, rm


def test_saved_runs_are_listed_shown_and_removed(cli, here):
    _, answer, _ = cli("run", "tiny.yaml")
    (row,) = json.loads(cli("ls", "--json")[1])["runs"]
    assert row["scenario"] == "tiny"
    assert row["kind"] == "run"
    assert row["run"] in cli("ls")[1]
    code, again, _ = cli("show", f"tiny/{row['run'][:4]}")  # as ls prints it
    assert code == 0
    assert again == answer
    assert cli("rm", row["run"][:4])[0] == 0
    assert not (here / "runs" / "tiny").exists()
    assert json.loads(cli("ls", "--json")[1]) == {"runs": []}


def test_a_name_that_begins_several_runs_is_no_name(cli):
    cli("run", "tiny.yaml")
    cli("run", "tiny.yaml", "--seed", "2")
    code, _, err = cli("show", "")
    assert code == 2
    assert "matches several runs: tiny/" in err


def test_the_name_of_a_scenario_is_its_newest_run(cli):
    first = Path(json.loads(cli("run", "tiny.yaml", "--json")[1])["folder"]) / "manifest.json"
    first.write_text(first.read_text().replace('"date": "20', '"date": "19'))  # long ago
    _, newest, _ = cli("run", "tiny.yaml", "--seed", "2", "--json")
    for name in ("tiny", "runs/tiny", "tiny.yaml", "./tiny.yaml"):
        code, told, _ = cli("show", name, "--json")
        assert code == 0
        assert json.loads(told)["provenance"] == json.loads(newest)["provenance"]
    assert cli("rm", "tiny")[0] == 2  # which of them is to go, one has to say


def test_a_run_of_an_older_version_is_told_as_such(cli):
    folder = Path(json.loads(cli("run", "tiny.yaml", "--json")[1])["folder"])
    told = json.loads((folder / "summary.json").read_text())
    del told["provenance"]["jitter"], told["points"]["base"]["faster"]
    (folder / "summary.json").write_text(json.dumps(told))
    assert cli("show", "tiny") == (
        2,
        "",
        f"error {folder}: was written by an older version and lacks provenance.jitter, "
        "points.base.faster; read its report.html, or run it again\n",
    )
    assert cli("report", "tiny", "-o", "page.html")[0] == 0


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("processes=[{use: nonsense}]", "no process named 'nonsense'"),
        (
            "processes=[{use: fail, component: node99.gpu0, at: 1 s}]",
            "no component matches 'node99.gpu0'",
        ),
        ("cluster.nodes=4", "has 8 ranks, but there are 4 GPUs"),
        ("run.workers=ssh://me@box", "no workers 'ssh://me@box'"),
    ],
)
def test_what_validate_refuses_leaves_no_folder_of_runs(cli, here, setting, says):
    for verb in ("validate", "run"):
        code, _, err = cli(verb, "first", "--set", setting)
        assert code == 2
        assert says in err
    assert not (here / "runs").exists()


@pytest.mark.parametrize("verb", ["show", "rm", "report"])
def test_a_run_that_is_not_there_is_an_error(cli, verb):
    assert cli(verb, "nothing") == (
        2,
        "",
        "error nothing: no saved run in runs; there are none yet, see: foretrace run --help\n",
    )


def test_rm_removes_all_or_nothing(cli, here):
    name = json.loads(cli("run", "tiny.yaml", "--json")[1])["folder"]
    assert cli("rm", name, "nothing")[0] == 2
    assert (here / name / "summary.json").is_file()


def test_what_sweeps_keep_to_resume_is_removed_when_asked(cli, here):
    sweep = "sweep={vary: {cluster.node.host.cores: [1, 2]}}"
    assert cli("sweep", "tiny.yaml", "--set", sweep, "--workers", "local:1", "-q")[0] == 0
    assert list((here / "runs" / "tiny" / ".points").iterdir())
    code, out, _ = cli("rm", "--cache")
    assert code == 0
    assert out.endswith(" of points\n")
    assert not (here / "runs" / "tiny" / ".points").exists()
    (row,) = json.loads(cli("ls", "--json")[1])["runs"]
    assert row["kind"] == "sweep"
    assert "No effect: cluster.node.host.cores" in cli("show", row["run"])[1]
    assert cli("report", row["run"], "-o", "mail.html")[0] == 0


# doctor


@pytest.fixture
def stated(monkeypatch):
    """Extras of setup.cfg, as installing it would tell; an environment may be older."""
    from importlib import metadata

    config = configparser.ConfigParser()
    config.read(Path(foretrace.__file__).with_name("setup.cfg"))
    extras = config["options.extras_require"]
    lines = config["options"]["install_requires"].split()
    lines += [f'{r}; extra == "{name}"' for name, own in extras.items() for r in own.split()]
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    return set(extras)


def test_doctor_names_every_extra_that_is_absent_with_its_command(cli, monkeypatch, stated):
    from importlib import metadata

    def absent(name):
        raise metadata.PackageNotFoundError(name)

    told = json.loads(cli("doctor", "--json")[1])
    assert {c["name"]: c["state"] for c in told["checks"]}["core"] == "ok"
    version = metadata.version
    monkeypatch.setattr(
        metadata, "version", lambda n: version(n) if n in ("foretrace",) else absent(n)
    )
    rows = {c["name"]: c for c in json.loads(cli("doctor", "--json")[1])["checks"]}
    assert {"sweep", "dask", "torch", "report", "docs", "dev"} <= stated
    for extra in stated:
        assert rows[extra]["state"] == "off"
        lacking = rows[extra]["told"].partition(" missing; ")[0]
        assert f"pip install {lacking.replace(', ', ' ')}" in rows[extra]["told"]
    assert "simpy, numpy" in rows["core"]["told"]
    assert rows["core"]["state"] == "bad"


def test_a_bundle_is_what_doctor_says(cli, here, stated):
    assert cli("doctor", "--bundle", "report.json")[0] == 0
    told = json.loads((here / "report.json").read_text())
    assert {c["name"] for c in told["checks"]} >= {"core", "engine", "cache", "disk", *stated}


def test_workers_that_cannot_be_had_are_a_finding(cli):
    code, out, _ = cli("doctor", "--workers", "nobody")
    assert code == 0
    assert "bad   workers        --workers: no workers 'nobody'" in out


# Limits


def test_what_takes_longer_than_its_limit_is_ended_with_exit_3(cli, monkeypatch):
    from foretrace.scenarios.studies.run import run

    def endless(*_):
        while True:
            pass

    monkeypatch.setattr(run, "build_variants", endless)
    code, _, err = cli("run", "tiny.yaml", "--set", "run.time_limit=50 ms")
    assert code == 3
    assert err.startswith("error time limit: the time limit of 0.05 s was reached")


def test_variants_that_were_finished_in_time_are_kept_and_told(cli, monkeypatch, tmp_path):
    from foretrace.scenarios.studies.run import run

    def slow(one, *rest):
        if one.name == "late":  # the limit passes now, however slow this machine is
            signal.raise_signal(signal.SIGALRM)
        return measured(one, *rest)

    measured = run.run_with_replicas
    monkeypatch.setattr(run, "run_with_replicas", slow)
    what_if = "what_if=[{name: soon, set: {run.seed: 2}}, {name: late, set: {run.seed: 3}}]"
    asked = "run", "tiny.yaml", "--set", what_if
    code, out, err = cli(*asked, "--set", "run.time_limit=600 s")
    assert code == 3
    assert "error time limit: the time limit of 600 s was reached; finished parts are kept" in err
    assert err.rstrip().endswith("; not finished: late")
    assert "Not finished in time: late." in out
    (summary,) = tmp_path.glob("runs/tiny/*/summary.json")
    assert list(json.loads(summary.read_text())["points"]) == ["base", "soon"]
    assert "Not finished in time: late." in (summary.parent / "report.html").read_text()
    monkeypatch.setattr(run, "run_with_replicas", measured)
    code, out, _ = cli(*asked)  # it is no finished run that could be found again
    assert code == 0
    assert "saved runs" in out
    assert list(json.loads(summary.read_text())["points"]) == ["base", "soon", "late"]


def test_a_limit_that_is_not_reached_changes_nothing():
    with time_limit(1000.0):
        pass
    with time_limit(None):
        pass
    with pytest.raises(SimulationError, match="time limit"):
        endless()


@time_limit(0.01)
def endless():
    while True:
        pass


def test_what_would_not_fit_is_refused_before_it_begins(cli):
    code, out, err = cli("run", "tiny.yaml", "--set", "run.memory=1 MB")
    assert (code, out) == (2, "")
    assert err.startswith("error memory: ")
    assert "1 MB are allowed (run.memory)" in err


TRANSFERS = """\
foretrace: 1
name: many
workload: {type: transfers, ops: [{op: "copy:h2h", bytes: 1 MB, count: COUNT}]}
cluster: {nodes: NODES, node: {gpu: epyc-zen4-core, host: epyc-zen4-vm, nic: loopback-tcp}}
backends: {node*.gpu*: {use: roofline}}
"""


@pytest.mark.parametrize("verb", ["validate", "plan", "run"])
@pytest.mark.parametrize(("nodes", "count", "what", "less"), [
    (10**12, 1, "cluster.nodes: 1,000,000,000,000 machines", "machines"),
    (1, 10**12, "memory: 1,000,000,000,000 ops", "ranks or iterations"),
])  # fmt: skip
def test_a_few_zeros_too_many_are_refused_at_once(cli, here, verb, nodes, count, what, less):
    text = TRANSFERS.replace("COUNT", str(count)).replace("NODES", str(nodes))
    (here / "many.yaml").write_text(text)
    code, _, err = cli(verb, "many.yaml")
    assert code == 2
    assert f"{what} need about " in err
    assert f"use fewer {less}, or raise run.memory" in err


def test_free_memory_is_what_there_is():
    there = free_memory()
    assert there > 0
    require_memory(there / 4, 2, None, "two")
    with pytest.raises(ScenarioError, match="use fewer workers, "):
        require_memory(there, 2, None, "two")


# Plug-ins

BACKEND = '''
from foretrace import Backend, Timing, backend

@backend("constant-of-a-test")
class Constant(Backend):
    """Every op takes as long.

    Parameters
    ----------
    each : float
        Seconds.
    """

    source = "assumed: a test"

    def __init__(self, *, each: float):
        self.each = each

    def timing(self, ops, now=0.0):
        return Timing.of([self.each] * len(ops))
'''
NUMBERS = itertools.count()
USES = """\
plugins: [mine.py]
backends: {node*.gpu*: {use: constant-of-a-test, each: 0.25}}
"""


@pytest.fixture
def plugged(here):
    name = f"constant-{next(NUMBERS)}"
    (here / "mine.py").write_text(BACKEND.replace("constant-of-a-test", name))
    (here / "tiny.yaml").write_text(MINIMAL + USES.replace("constant-of-a-test", name))
    yield here
    BACKENDS.pop(name, None)


def test_a_file_adds_a_backend(plugged, cli):
    code, out, err = cli("run", "tiny.yaml", "--json", "--set", "backends.node*.gpu*.each=0.5")
    assert code == 0, err
    told = json.loads(out)["points"]["base"]
    assert told["metrics"]["iteration_time.p50"]["value"] > 1.0
    assert "assumed: a test" in told["sources"]


def test_a_plug_in_works_in_the_workers_of_a_sweep(plugged, cli):
    sweep = "sweep={vary: {backends.node*.gpu*.each: [0.25, 0.5]}}"
    code, out, err = cli("sweep", "tiny.yaml", "--set", sweep, "--workers", "local:2", "--json")
    assert code == 0, err
    values = [p["values"]["iteration_time.p50"] for p in json.loads(out)["points"]]
    assert values[1] > 1.9 * values[0] - 1e-3


def test_a_plug_in_that_is_edited_is_read_again_and_is_another_run(plugged):
    one = load("tiny.yaml").digest()
    text = (plugged / "mine.py").read_text()
    (plugged / "mine.py").write_text(text.replace("assumed: a test", "assumed: another"))
    other = load("tiny.yaml")
    assert other.digest() != one
    assert next(iter(other.backends.values())).make().source == "assumed: another"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "plug-in 'mine.py' cannot be read: No such file or directory; correct the path"),
        (
            "1/0",
            "plug-in 'mine.py' fails in line 1: ZeroDivisionError: division by zero; fix it, "
            "or remove it from 'plugins'",
        ),
        ("import nothing_of_that_name", "plug-in 'mine.py' fails in line 1: ModuleNotFoundError"),
        ("def (", "plug-in 'mine.py' fails in line 1: "),
    ],
)
def test_a_plug_in_that_fails_is_a_named_error_with_its_place(cli, here, text, says):
    (here / "tiny.yaml").write_text(MINIMAL + "plugins: [mine.py]\n")
    if text is not None:
        (here / "mine.py").write_text(text)
    code, _, err = cli("validate", "tiny.yaml")
    assert code == 2
    assert says in err
    assert "tiny.yaml:5:11  plugins.0" in err


def test_an_installed_plug_in_that_fails_is_named_with_its_cure(monkeypatch):
    broken = EntryPoint("broken", "nothing_of_that_name:x", "foretrace.backends")
    monkeypatch.setattr(installed_plugins, "entry_points", lambda group: [broken])
    with pytest.raises(
        ScenarioError, match="plug-in 'broken' of an installed package fails: ModuleNotFoundError: "
    ):
        installed_plugins.load_installed("foretrace.backends")
    assert (
        "ModuleNotFoundError"
        in installed_plugins.installed_plugin_problems("foretrace.backends")["broken"]
    )


# The terminal


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion(shell):
    command = [sys.executable, "-m", "foretrace", "--show-completion"]
    env = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        [*command, shell], capture_output=True, text=True, check=False, env={**_env(), **env}
    )
    assert done.returncode == 0, done.stderr
    assert "FORETRACE" in done.stdout.upper()


def _env():
    import os

    return dict(os.environ)


def test_what_is_piped_has_no_colour_and_no_bar(cli):
    sweep = "sweep={vary: {cluster.node.host.cores: [1, 2]}}"
    _, out, err = cli("sweep", "tiny.yaml", "--set", sweep, "--workers", "local:1")
    assert "\x1b" not in out + err
    assert [line.split()[0] for line in err.splitlines()] == ["workers", "points"]


# Odd things that people type


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (
            ("run", "tiny.yml"),
            "cannot read 'tiny.yml': No such file or directory; did you mean",
        ),
        (("run", "."), "cannot read '.': Is a directory; known here: tiny.yaml"),
        (
            ("run", "tiny.yaml", "--out", "tiny.yaml"),
            "tiny.yaml/tiny: cannot be written (Not a",
        ),
        (("catalog", "h100"), "no kind 'h100'; foretrace catalog gpu h100-sxm5-80g"),
        (("compare", "tiny.yaml"), "tiny: is a single run without variants (what_if)"),
        (
            ("compare", "tiny.yaml", "--fail-if", "makespan > 3 s"),
            "--fail-if: '3 s' is not a relative change; write it like '+3 %', or put a limit on "
            "the value itself under expect",
        ),
        (
            ("run", "tiny.yaml", "--set", "cost={items: [{what: switch, each: 1 USD/hour}]}"),
            "cost.items: 'switch' has a price, but cluster.fabric has no switch",
        ),
    ],
)
def test_what_is_typed_wrong_is_answered_with_what_was_meant(cli, typed, says):
    code, _, err = cli(*typed)
    assert code == 2
    assert says in err
    assert "running base" not in err or typed[0] == "compare"


def test_runs_of_a_scenario_that_has_none_are_said_to_be_none_of_it(cli):
    assert "no saved runs of nobody in runs" in cli("ls", "nobody")[2]


def test_a_table_that_is_not_there_is_missed_before_a_run(cli):
    bound = "backends={node0.gpu0: {use: table, file: nowhere.csv}}"
    code, out, err = cli("validate", "tiny.yaml", "--set", bound)
    assert code == 2
    assert "nowhere.csv'; correct the path" in out + err


def test_a_narrow_terminal_loses_no_number(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as if it were one
    code, out, _ = cli("run", "tiny.yaml")
    assert code == 0
    assert "…" not in out
    assert "iteration time" in out
