"""``foretrace compare``: saved runs, variants, tables and thresholds."""

import json

import pytest


def test_saved_runs_are_compared(saved, cli):
    one = saved("runs")
    other = saved("runs", "--set", "cluster.override.node0.gpu0.slowdown=2")
    code, out, _ = cli("compare", one, other, "--json")
    rows = json.loads(out)["rows"]
    values = [row["iteration_time.p50"] for row in rows]
    assert code == 0
    assert rows[1]["iteration_time.p50 change"] == pytest.approx(values[1] / values[0] - 1)
    assert values[1] > values[0]
    assert rows[0]["settings"] == {}
    assert [row["name"] for row in rows] == [f"tiny/{one.name}", f"tiny/{other.name}"]
    assert rows[1]["settings"] == {"cluster.override.node0.gpu0.slowdown": ["", "2"]}


def test_a_folder_of_runs_is_no_run_but_names_them(saved, cli):
    run = saved("runs")
    code, _, err = cli("compare", run.parent)
    assert code == 2
    assert str(run) in err


def test_variants_of_one_run_are_compared(saved, cli):
    code, out, _ = cli("compare", saved("runs"))
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["run", "base", "slow"]
    assert "slow: why: compute " in out
    assert "cluster.override.node0.gpu0.slowdown" in out


def test_compare_writes_a_markdown_table(saved, cli):
    _, out, _ = cli("compare", saved("runs"), "--md")
    lines = out.splitlines()
    assert set(lines[1].split()) == {"|", "---"}
    assert len({line.count("|") for line in lines[:4]}) == 1
    assert lines[3].startswith("| slow | ")


def test_fail_if_decides_the_exit_code(saved, cli):
    run = saved("runs")
    assert cli("compare", run, "--fail-if", "iteration_time.p50 > +100 %")[0] == 0
    code, _, err = cli("compare", run, "--fail-if", "iteration_time.p50 > +3 %")
    assert code == 5
    assert err == "FAIL  slow: iteration_time.p50 > +3 %\n"


def test_fail_if_names_a_metric_that_a_run_lacks(saved, cli):
    code, _, err = cli("compare", saved("runs"), "--fail-if", "nic.utilization.p95 > +3 %")
    assert code == 2
    assert "nic.utilization.p95" in err


def test_a_comparison_is_also_a_page(saved, cli, folder):
    run = saved("runs")
    assert cli("compare", run, "-o", "c.html")[0] == 0
    page = (folder / "c.html").read_text()
    assert "<h1>slow compared with base</h1>" in page
    assert "cluster.override.node0.gpu0.slowdown" in page
    code, _, err = cli("compare", run, "-o", "nowhere/c.html")
    assert code == 2
    assert "nowhere/c.html: cannot be written" in err


def test_variants_are_compared_with_another_than_the_base(cli):
    code, out, _ = cli("compare", "tiny.yaml", "--with", "slow", "--json")
    rows = json.loads(out)["rows"]
    assert (code, [r["name"] for r in rows]) == (0, ["slow", "base"])
    assert rows[1]["iteration_time.p50 change"] < -0.2
    assert [pair[0] for pair in rows[1]["settings"].values()] == ["1.5"]
    assert (
        "no variant 'x'; write one of base, slow" in cli("compare", "tiny.yaml", "--with", "x")[2]
    )


def test_a_scenario_that_was_run_is_compared_from_its_saved_run(cli):
    """A run with what would help takes minutes; the first of two says what it does."""
    _, first, told = cli("compare", "tiny.yaml", "--out", "first")
    assert "running slow" in told
    assert cli("run", "tiny.yaml", "--out", "first")[0] == 0
    assert cli("compare", "tiny.yaml", "--out", "first") == (0, first, "")


def test_a_quick_comparison_runs_nothing_with_parts_faster_or_wrong(cli):
    code, out, told = cli("compare", "tiny.yaml", "--quick", "--out", "quick")
    assert (code, "slow: why: compute " in out) == (0, True)
    assert "parts faster or wrong" not in told
