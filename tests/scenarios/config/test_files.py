"""What is in a file that a scenario names is part of what a run is named by: no stale answer."""

import json
import os
from pathlib import Path

import pytest
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.config.reading.files import content_digest, named_files
from foretrace.scenarios.config.reading.tree import dotted_path_text
from foretrace.scenarios.studies.run.run_folder import run_key
from foretrace.scenarios.studies.sweep.sweep_folder import outcome_store
from foretrace.scenarios.studies.sweep.sweeping import SweepInProgress
from foretrace.scenarios.studies.variants.variants import build_variant, run_with_replicas

SCENARIO = """\
foretrace: 1
name: tabled
workload:
  type: transfers
  ops: [{op: "copy:h2h", bytes: 1 MiB}]
cluster: {nodes: 1, node: {gpu: {model: epyc-zen4-core, count: 1}, host: {cores: 1}}}
backends: {node0.gpu0: {use: table, file: tables/times.csv}}
"""
TABLE = 'signature,seconds\n"copy:h2h uint8[1048576]",{}\n'
SWEEP = "sweep: {vary: {cluster.node.host.cores: [1, 2]}}\n"


class Here:
    name = "here"

    def run(self, work, tasks):
        for one in tasks:
            yield one, work(one)


@pytest.fixture
def tabled(tmp_path, monkeypatch):
    """Writes a scenario in a folder of its own, and the table beside it."""
    folder = tmp_path / "study"
    (folder / "tables").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def write(seconds, more="", name="times"):
        (folder / "s.yaml").write_text(SCENARIO + more)
        (folder / "tables" / f"{name}.csv").write_text(TABLE.format(seconds))
        return load("study/s.yaml")

    return write


def took(scenario):
    return run_with_replicas(build_variant(scenario)).result.makespan


def test_a_table_is_read_from_the_folder_of_the_file_that_names_it(tabled):
    assert took(tabled(0.25)) == 0.25


def test_a_run_whose_table_was_written_anew_is_another_run(tabled):
    one = run_key(tabled(0.25))
    assert run_key(tabled(0.25)) == one
    other = tabled(0.75)
    assert run_key(other) != one
    assert took(other) == 0.75


@pytest.mark.parametrize(
    "more",
    [
        "what_if: [{name: b, backends: {node0.gpu0: {use: table, file: tables/other.csv}}}]\n",
        "what_if: [{name: b, set: {backends.node0.gpu0.file: tables/other.csv}}]\n",
        "what_if: [{name: b, set: {backends: {node0.gpu0: {file: tables/other.csv}}}}]\n",
    ],
)
def test_a_file_of_a_variant_counts_too_and_has_a_place(tabled, more, tmp_path, monkeypatch):
    def named_by(seconds):
        tabled(seconds, name="other")
        return tabled(0.25, more)

    before = run_key(named_by(0.5))
    one = named_by(0.9)
    assert run_key(one) != before
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "resolved.yaml").write_text(json.dumps(one.resolved()))
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = load("resolved.yaml")
    assert [took(v) for v in again.variants()] == [0.25, 0.9]


def swept(scenario):
    kept = outcome_store(Path("out"), scenario)
    with kept:
        return SweepInProgress(scenario, kept, Here()).try_all_points()


def test_points_of_another_table_are_run_again(tabled):
    first = swept(tabled(0.25, SWEEP))
    assert all(t.cached for t in swept(tabled(0.25, SWEEP)).trials)
    again = swept(tabled(0.75, SWEEP))
    assert not any(t.cached for t in again.trials)
    ratio = again.base.values["makespan"] / first.base.values["makespan"]
    assert ratio == pytest.approx(3.0)


def test_a_file_can_vary_and_what_is_in_it_counts(tabled):
    vary = "sweep: {vary: {backends.node0.gpu0.file: [tables/times.csv, tables/other.csv]}}\n"
    tabled(0.5, name="other")
    first = swept(tabled(0.25, vary))
    assert [t.values["makespan"] for t in first.trials] == [0.25, 0.5]
    tabled(1.0, name="other")
    again = swept(tabled(0.25, vary))
    assert [t.cached for t in again.trials] == [True, False]
    assert again.trials[1].values["makespan"] == 1.0


def test_where_a_file_lies_is_no_matter(tabled, tmp_path, monkeypatch):
    one = run_key(tabled(0.25))
    (tmp_path / "study").rename(tmp_path / "moved")
    assert run_key(load("moved/s.yaml")) == one


def test_a_folder_and_a_pattern_are_what_is_in_them(tmp_path):
    assert content_digest(str(tmp_path / "no")) == ""
    (tmp_path / "a.txt").write_text("1")
    one, folder = content_digest(str(tmp_path / "*.txt")), content_digest(str(tmp_path))
    (tmp_path / "b.txt").write_text("2")
    assert content_digest(str(tmp_path / "*.txt")) != one
    assert content_digest(str(tmp_path)) != folder


def test_a_file_written_anew_within_its_size_is_another(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("1")
    one = content_digest(str(file))
    file.write_text("2")
    os.utime(file, ns=(1, 1))
    assert content_digest(str(file)) != one


def test_every_place_that_names_a_file_is_known():
    told = {
        "workload": {"trace": "a", "starts": "b"},
        "plugins": ["c"],
        "hil": {"journal": "d", "swap": [{"recording": "e"}]},
        "backends": {"node*.gpu*": {"use": "table", "file": "f"}, "x": "roofline"},
        "processes": [{"use": "p", "file": "g"}],
        "what_if": [{"set": {"workload.trace": "h"}, "backends": {"y": {"file": "i"}}}],
        "sweep": {"vary": {"workload.trace, cluster.nodes": [["j", 1]], "workload.starts": ["k"]}},
        "name": "l",
    }
    assert sorted(text for _, text in named_files(told)) == list("abcdefghijk")
    assert dotted_path_text(next(p for p, t in named_files(told) if t == "j")).startswith(
        "sweep.vary.workload"
    )
