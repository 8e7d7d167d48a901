"""A run that has its answer ends with it, whatever cannot be explained or drawn."""

import json
import logging
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import foretrace
import pytest
from answer_server import FAULTY, PLUGIN, SERVER
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.config.plugin_loading import unload_plugin_file
from foretrace.scenarios.studies.run import explanations, run
from foretrace.scenarios.studies.run.run import study
from foretrace.sim.run import held_graphs, session

BY_DAY, NIGHTLY = 8, 200
PLUGINS = Path(foretrace.__file__).resolve().parent / "docs/examples/plugins"


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder with the scenario of a server; a function that writes the plug-in with more."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SERVER)
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN)
    yield file
    unload_plugin_file(file)


@pytest.fixture
def few_rows(monkeypatch):
    """Rows of steered runs are freed early, and too many to be kept at once."""
    for module in (held_graphs, session):
        monkeypatch.setattr(module, "MOST_OPS", 4_000)
    monkeypatch.setattr(held_graphs, "AT_ONCE", 1_000)


def saved(folder):
    (found,) = folder.glob("runs/*/*/summary.json")
    return json.loads(found.read_text()), found.parent


def test_a_run_past_the_limit_of_rows_ends_with_its_answer_and_an_explained_window(
    server, few_rows, cli, tmp_path
):
    kept = study(load("s.yaml", set=["run.keep=ops"])).summary.to_dict()["points"]["base"]
    code, out, err = cli("run", "s.yaml")
    assert code == 0, err
    told, folder = saved(tmp_path)
    base = told["points"]["base"]
    for metric in ("latency.p50", "latency.p99"):
        assert base["metrics"][metric]["value"] == kept["metrics"][metric]["value"]
    assert "unexplained" not in told
    window = base["window"]
    assert window["repeated"] == "the part of the run before the worst sample of latency"
    assert window["length"] == pytest.approx(base["metrics"]["latency.p99"]["value"], rel=0.5)
    assert sum(base["blame"].values()) == pytest.approx(window["length"])
    assert max(base["blame"], key=base["blame"].get) == "node0.gpu0"
    assert "in the part of the run before the worst sample of latency" in " ".join(out.split())
    page = (folder / "report.html").read_text()
    assert "run again for its ops" in page
    assert "one row per op: rows of its 600 ops were not kept" in page
    assert cli("report", str(folder))[0] == 0


def test_two_runs_of_a_repeated_window_have_equal_files(server, few_rows, cli, tmp_path):
    for out in ("one", "two"):
        assert cli("run", "s.yaml", "--out", out)[0] == 0
    one, two = (next(tmp_path.glob(f"{out}/*/*/summary.json")) for out in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    for name in ("timeline.pftrace",):
        assert (one.parent / name).read_bytes() == (two.parent / name).read_bytes()


def test_a_quick_run_is_not_repeated_and_says_so(server, few_rows, cli, tmp_path, monkeypatch):
    runs = []
    from foretrace.sim.run.simulation import Simulation

    whole = Simulation._run_window
    monkeypatch.setattr(Simulation, "_run_window", lambda *a: runs.append(1) or whole(*a))
    code, out, _ = cli("run", "s.yaml", "--quick")
    assert (code, runs) == (0, [])
    assert "Blame of base is missing: rows of its 600 ops were not kept" in " ".join(out.split())
    told, _ = saved(tmp_path)
    assert told["points"]["base"]["metrics"]["latency.p99"]["value"] > 0
    assert told["points"]["base"]["blame"] == {}
    assert "leave out --quick" in told["unexplained"][0]["why"]


def test_a_section_with_a_mistake_ends_no_run_and_is_named(server, cli, tmp_path, caplog):
    server.write_text(PLUGIN + FAULTY)
    code, out, err = cli("run", "s.yaml", "--quick")
    assert code == 2
    assert err.rstrip().endswith("failed in a plug-in; the answer is saved")
    assert "latency p99 is" in out
    told, folder = saved(tmp_path)
    (fault,) = told["unexplained"]
    assert (fault["what"], fault["kind"]) == ("section answer-faulty of the page", "plug-in")
    assert "plug-in 'mine.py' fails in line" in fault["why"]
    assert "Left out, since it failed (KeyError: 'of a test')." in (
        folder / "report.html"
    ).read_text().replace("&#39;", "'")
    assert any(record.exc_info for record in caplog.records)


def test_a_section_with_a_mistake_is_named_on_the_page_of_a_sweep(server, cli, tmp_path):
    server.write_text(PLUGIN + FAULTY.replace('Faulty")', 'Faulty", page="sweep")'))
    code, out, err = cli("sweep", "s.yaml", "--set", "sweep={vary: {workload.requests: [20, 30]}}")
    assert code == 2, err
    assert err.rstrip().endswith("failed in a plug-in; the answer is saved")
    (folder,) = tmp_path.glob("runs/server/sweep-*")
    (fault,) = json.loads((folder / "summary.json").read_text())["unexplained"]
    assert fault["what"] == "section answer-faulty of the page"
    assert "Left out, since it failed" in (folder / "report.html").read_text()
    assert str(folder.relative_to(tmp_path)) in out


def test_a_section_with_a_mistake_is_named_on_the_page_of_a_comparison(server, cli, tmp_path):
    server.write_text(PLUGIN + FAULTY.replace('Faulty")', 'Faulty", page="comparison")'))
    (tmp_path / "t.yaml").write_text(SERVER.replace("300", "200"))
    code, out, err = cli("compare", "s.yaml", "t.yaml", "--quick", "-o", "page.html")
    assert code == 2, err
    assert err.rstrip().endswith("failed in a plug-in; the answer is saved")
    assert "Left out, since it failed" in (tmp_path / "page.html").read_text()
    assert "latency p99" in out


def test_a_stream_of_items_is_answered_and_explained_without_an_op(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("packet_pipeline.py", "packet_pipeline.yaml"):
        (tmp_path / name).write_text((PLUGINS / name).read_text())
    file = tmp_path / "packet_pipeline.py"
    before = file.read_text()
    file.write_text(before.replace("            yield sim.submit(build.graph()).done\n", ""))
    assert file.read_text() != before
    try:
        few = ("--set", "workload.packets=2000", "--set", "what_if=[]")
        code, out, err = cli("run", "packet_pipeline.yaml", *few)
    finally:
        unload_plugin_file(file)
    assert code == 0, err
    assert out.startswith("As described, latency p99 is ")
    assert "rank" not in out
    assert "critical path" not in out
    told, folder = saved(tmp_path)
    assert "unexplained" not in told
    page = (folder / "report.html").read_text()
    assert "slow-path" in page
    assert "Blame" not in page


@pytest.mark.parametrize("part", ["_blame", "_breakdown", "effect_of_faster_components"])
def test_an_explanation_that_fails_by_a_bug_is_logged_and_ends_no_run(
    server, cli, tmp_path, monkeypatch, caplog, part
):
    def broken(*_, **__):
        raise ZeroDivisionError("of a test")

    monkeypatch.setattr(explanations, part, broken)
    code, out, err = cli("run", "s.yaml")
    assert code == 1
    assert "this is a bug in foretrace; the answer is saved" in err
    assert "latency p99 is" in out
    (fault,) = saved(tmp_path)[0]["unexplained"]
    assert fault["kind"] == "bug"
    assert fault["why"].startswith("ZeroDivisionError: of a test")
    assert "ZeroDivisionError" in caplog.text
    assert cli("run", "s.yaml")[0] == 1  # as often as it is read


def test_a_page_that_cannot_be_made_is_a_plain_one(server, cli, tmp_path, monkeypatch):
    from foretrace.scenarios.studies.run import run_folder

    def broken(*_):
        raise TypeError("of a test")

    monkeypatch.setattr(run_folder, "run_page", broken)
    assert cli("run", "s.yaml", "--quick")[0] == 1
    told, folder = saved(tmp_path)
    assert told["unexplained"][0]["what"] == "the page"
    assert "<p>As described, latency p99 is" in (folder / "report.html").read_text()


def test_what_a_device_answered_is_not_run_again(server, cli, tmp_path, monkeypatch):
    asked = 'backends={"node*.gpu*": {use: answer-online}}'
    code, out, _ = cli("run", "s.yaml", "--set", asked, "--keep", "ranks")
    assert code == 0
    said = " ".join(out.split())
    assert "The effect of faster parts" in said
    assert "Blame of base is missing" in said
    told, _ = saved(tmp_path)
    whys = {one["what"]: one["why"] for one in told["unexplained"]}
    assert set(whys) >= {"blame", "the effect of faster parts"}
    assert "or another online backend answered" in whys["blame"]
    assert "would be measured again" in whys["the effect of faster parts"]


def test_the_answer_is_saved_before_it_is_explained(server, cli, tmp_path, monkeypatch):
    """Explaining is interrupted: the folder has the answer, and says what is missing."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run.Explainer, "explain", interrupted)
    assert cli("run", "s.yaml", "--keep", "ops")[0] == 130
    told, folder = saved(tmp_path)
    assert told["points"]["base"]["metrics"]["latency.p99"]["value"] > 0
    assert (folder / "ops.base.parquet").is_file()
    code, _, err = cli("report", str(folder))
    assert code == 0
    assert err.startswith("The answer is not explained: the command ended before it explained")
    assert "The answer is not explained" in (tmp_path / "report.html").read_text()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert cli("run", "s.yaml", "--keep", "ops")[0] == 0
    assert "unexplained" not in saved(tmp_path)[0]


KILLED = """
import os, signal, sys
from foretrace.scenarios.studies.run import run
def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)
run.Explainer.explain = killed
sys.argv = ["foretrace", "run", "s.yaml"]
from foretrace.scenarios.cli.app import main
main()
"""


def test_a_run_that_is_killed_after_its_answer_is_opened_by_report(server, cli, tmp_path):
    found = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, timeout=300, check=False)
    assert found.returncode == -signal.SIGKILL
    told, folder = saved(tmp_path)
    assert told["points"]["base"]["metrics"]["latency.p50"]["value"] > 0
    assert json.loads((folder / "manifest.json").read_text())["run"] == folder.name
    code, _, err = cli("report", "server")
    assert code == 0
    assert "not explained" in err
    assert (tmp_path / "report.html").read_text().endswith("</html>\n")


def test_a_time_limit_that_ends_the_explanation_keeps_the_answer(
    server, cli, tmp_path, monkeypatch
):
    def late(*_, **__):
        signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(explanations, "effect_of_faster_components", late)
    code, out, err = cli("run", "s.yaml", "--set", "run.time_limit=600 s")
    assert code == 3
    assert err.rstrip().endswith("; not finished: the explanation")
    assert "Base is not explained" in out or "base is not explained" in out
    told, _ = saved(tmp_path)
    assert told["unexplained"][0]["kind"] == "stopped"
    assert "unfinished" not in told


def test_a_long_run_is_explained_within_its_budget(server, few_rows, cli, tmp_path, monkeypatch):
    from foretrace.scenarios.studies.run import plan

    monkeypatch.setattr(plan, "SMALL", 0)
    told = study("s.yaml").summary.to_dict()
    assert told["points"]["base"]["faster"] == []
    assert told["points"]["base"]["blame"]
    (left_out,) = told["unexplained"]
    assert left_out["what"] == "the effect of faster parts"
    assert "may be 4 times the run's own; set run.explain to" in left_out["why"]
    number = left_out["why"].partition("set run.explain to ")[2].partition(",")[0]
    again = study(load("s.yaml", set=[f"run.explain={number}"])).summary.to_dict()
    assert "unexplained" not in again
    assert again["points"]["base"]["faster"]


def test_plan_states_the_budget_of_explaining(server, cli):
    code, out, _ = cli("plan", "s.yaml")
    assert code == 0
    assert "run.explain" in out


# Random programs of every kind.

KINDS = ("server", "steered server", "jobs", "steps", "steered steps", "transfers", "steered both")


def random_program(draw):
    """A scenario of a random kind: a process, graphs with or without processes, or several jobs."""
    kind, node = draw.choice(KINDS), {"gpu": {"streams": 1}, "host": {"cores": 1}}
    tree = {
        "foretrace": 1, "name": "random", "plugins": ["mine.py"],
        "cluster": {"nodes": 1, "node": node},
        "backends": {"node*.gpu*": {"use": "answer-millisecond"}},
        "run": {"seed": draw.randrange(100), "replicas": draw.choice([1, 1, 2]),
                "quick": draw.random() < 0.5,
                "engine": draw.choice(["core", "core", "reference"])},
    }  # fmt: skip
    if kind.startswith("steered"):
        tree["processes"] = ["answer-pause"]
    if draw.random() < 0.3:
        tree["what_if"] = [{"name": "other", "set": {"cluster.node.host.cores": 2}}]
    if "server" in kind:
        tree["workload"] = {"type": "answer-server", "requests": draw.randrange(1, 200)}
    elif "steps" in kind:
        steps = draw.choice([1, 9, 1_200])
        tree["workload"] = {"type": "answer-steps", "steps": steps}
        tree["run"]["engine"] = "core"
    elif kind == "jobs":
        node["gpu"]["count"] = 2
        tree["jobs"] = {
            name: {"workload": {"type": "answer-server", "requests": draw.randrange(1, 80)}}
            for name in "ab"
        }
    else:
        node["nic"] = {"bandwidth": "25 GB/s", "latency": "1 us"}
        tree["cluster"]["nodes"] = 2
        sends = [{"op": "send:write", "bytes": "1 MiB", "from": [0], "to": 1}]
        tree["workload"] = {"type": "transfers", "ops": sends}
    return tree


def answers_of_every_detail(seed, folder, cli):
    tree, values = random_program(random.Random(seed)), {}
    (folder / "s.yaml").write_text(json.dumps(tree))
    for keep in ("ops", "ranks", "none", None):
        asked = ["--keep", keep] if keep else []
        code, out, err = cli("run", "s.yaml", "--json", "--out", str(keep), *asked)
        assert code == 0, (seed, keep, tree, err)
        told = json.loads(out)
        values[keep] = {
            name: point["metrics"][told["answer"]["metric"]]["value"]
            for name, point in told["points"].items()
        }
        for one in told.get("unexplained", ()):
            assert one["kind"] == "cannot", (seed, keep, tree, one)
            assert one["why"]
    assert len({json.dumps(v) for v in values.values()}) == 1, (seed, tree, values)


@pytest.mark.parametrize("seed", range(BY_DAY))
def test_random_programs_end_with_their_answer_at_every_detail(
    server, few_rows, cli, tmp_path, seed
):
    answers_of_every_detail(seed, tmp_path, cli)


@pytest.mark.nightly
def test_two_hundred_random_programs_end_with_their_answer(server, few_rows, cli, tmp_path):
    first = random.Random().randrange(10**9)
    for seed in range(first, first + NIGHTLY):
        answers_of_every_detail(seed, tmp_path, cli)


@pytest.mark.nightly
def test_a_run_of_more_ops_than_are_kept_is_explained_within_its_budget(server, cli, tmp_path):
    """170,000 graphs, by the limits as they are; the quick run takes 1.2 times the simulation."""
    many = ["--set", "workload.requests=170000"]
    scenario = load("s.yaml", set=[many[1], "run.quick=true"])
    from foretrace.scenarios.studies.variants.variants import build_variant

    began = time.process_time()
    build_variant(scenario).run()
    alone = time.process_time() - began
    began = time.process_time()
    assert cli("run", "s.yaml", "--quick", *many)[0] == 0
    assert time.process_time() - began < 1.2 * alone + 2.0
    began = time.process_time()
    assert cli("run", "s.yaml", "--out", "full", *many)[0] == 0
    logging.getLogger(__name__).info("full: %s s", time.process_time() - began)
    assert time.process_time() - began < (1 + scenario.run.explain) * alone + 5.0
    (file,) = tmp_path.glob("full/*/*/summary.json")
    assert "repeated" in json.loads(file.read_text())["points"]["base"]["window"]


def test_a_component_per_rank_of_a_process_is_refused_with_what_to_write(server, cli):
    """All jobs ran on the first GPU, and the placement was not read."""
    code, _, err = cli("run", "s.yaml", "--set", "placement.ranks=[node0.gpu0]")
    assert code == 2
    assert "placement.ranks: node0.gpu0, but workload 'answer-server' is a process" in err
    job = "jobs={a: {workload: {type: answer-server}, placement: {ranks: [node0.gpu0]}}}"
    text = (
        Path("s.yaml").read_text().replace("workload: {type: answer-server, requests: 300}\n", "")
    )
    Path("s.yaml").write_text(text)
    code, _, err = cli("run", "s.yaml", "--set", job)
    assert code == 2
    assert "write jobs.a.on: {gpu: [node0.gpu0]}" in err
