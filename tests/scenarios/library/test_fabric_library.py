"""Scenarios of the library about fabrics: question, what is expected, what shows the cause."""

from functools import cache

import pytest
from foretrace.reports.section import shown_sections
from foretrace.reports.texts.study import StudyShown
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.run.run import study

NAMES = ("hot-tenant", "failing-spine", "slow-nic", "thin-spine", "hash-collisions",
         "experts-fabric", "crowded-experts")  # fmt: skip
MS = 1e-3


@cache
def done(name):
    return study(load(name, set=["run.quick=true"]))


def points(name):
    return done(name).summary.to_dict()["points"]


def times(name, metric):
    return {k: p["metrics"][metric]["value"] / MS for k, p in points(name).items()}


def slowed_at(point):
    """(job, by whom, where): ms."""
    return {
        (job, one["job"], one["part"]): round(one["seconds"] / MS, 6)
        for job, found in point["jobs"].items()
        for one in found["slowed_at"]
    }


@pytest.mark.parametrize("name", NAMES)
def test_each_asks_a_question_and_meets_what_it_expects(name):
    scenario = load(name)
    assert scenario.question.endswith("?")
    assert scenario.expect
    judged = [one for point in points(name).values() for one in point["expect"]]
    assert judged
    assert all(one["met"] for one in judged)


def test_a_hot_tenant_slows_training_at_one_link_and_sprayed_not_at_all():
    found = points("hot-tenant")
    assert list(slowed_at(found["base"])) == [("train", "tenant", "spine0.leaf2")]
    assert slowed_at(found["sprayed"]) == slowed_at(found["quiet"]) == {}
    took = times("hot-tenant", "train.iteration_time.p50")
    assert took["sprayed"] == pytest.approx(took["quiet"])
    assert took["base"] > 1.1 * took["quiet"]


def test_the_page_says_who_slowed_whom_and_where():
    made = done("hot-tenant")
    run = {"resolved": "", "command": "", "run": "0", "title": "", "timeline_cut": ""}
    shown = StudyShown(made.summary.to_dict(), made.results, run)
    (section,) = shown_sections("run", shown, ["blame"])
    table = section.blocks[-1]
    assert [c.name for c in table.columns][:3] == ["job", "slowed by", "at"]
    assert [[str(c) for c in row] for row in table.rows] == [
        ["train", "tenant", "spine0.leaf2", "30.7 ms", "0 s", "0 s"]
    ]


def test_a_spine_that_reboots_costs_what_nobody_notices():
    took = times("failing-spine", "makespan")
    assert took["whole"] < took["base"] < took["noticed-late"] < took["unnoticed"]
    assert took["unnoticed"] == pytest.approx(took["whole"] + 40)
    assert points("failing-spine")["unnoticed"]["blame"]["leaf0.spine1"] == pytest.approx(40 * MS)


def test_a_slow_nic_is_what_everybody_waits_for():
    """A ring passes 2 (n - 1)/n of the data over each NIC; trees let the slow one send once."""
    took = times("slow-nic", "iteration_time.p50")
    ring = 2 * 15 / 16 * 256e6 / 50e9 / MS
    assert took["healthy"] == pytest.approx(ring, rel=0.01)
    assert took["base"] == pytest.approx(256e6 / 5e9 / MS, rel=0.01)
    assert took["without-it"] < took["healthy"]
    assert max(points("slow-nic")["base"]["blame"].items(), key=lambda one: one[1])[0] == (
        "node15.nic0.tx"
    )


def test_thin_uplinks_slow_an_all_to_all_and_no_ring():
    took = times("thin-spine", "iteration_time.p50")
    assert took["base"] == pytest.approx(31 / 32 * 256e6 / 50e9 / MS, rel=0.01)
    assert took["quarter"] == pytest.approx(
        12.8, rel=0.01
    )  # 26 of 32 to others: 25/31 over 4 of 13
    assert took["base"] < took["half"] < took["quarter"]
    assert took["all-reduce-quarter"] == pytest.approx(took["all-reduce"], rel=0.01)
    fabric = {k: p["fabric"]["switches"] for k, p in points("thin-spine").items()}
    assert fabric["quarter"]["spine"] < fabric["base"]["spine"]


def test_hashed_flows_wait_for_those_that_they_met_and_for_nobody_else():
    took = times("hash-collisions", "makespan")
    alone = 100e6 / 50e9 / MS
    assert took["all-ways"] == pytest.approx(alone, rel=0.01)
    for name, most in (("base", 2), ("other-hash", 3)):
        assert took[name] == pytest.approx(most * alone, rel=0.01)
        met = slowed_at(points("hash-collisions")[name])
        assert {(b, a, at) for a, b, at in met} == set(met)  # each the other, on the same link
        assert set(met.values()) == {2.0}
    assert slowed_at(points("hash-collisions")["all-ways"]) == {}


def test_experts_are_quicker_over_rails_where_flows_are_hashed():
    took = times("experts-fabric", "iteration_time.p50")
    assert took["base"] < took["fat-tree"]
    assert took["rail-sprayed"] == pytest.approx(took["fat-tree-sprayed"])
    switches = [p["fabric"]["switches"] for p in points("experts-fabric").values()]
    assert switches[0] == switches[1]


def test_a_crowded_expert_holds_all_up_at_its_port_and_even_ones_nobody():
    """Of 992 parts 124 are for rank 0, 24 of whose senders are behind its NIC: 64 MB of each."""
    took = times("crowded-experts", "iteration_time.p50")
    assert took["base"] == pytest.approx(24 * 64e6 * 124 / 992 / 50e9 / MS, rel=0.01)
    assert took["even"] == pytest.approx(24 / 32 * 64e6 / 50e9 / MS, rel=0.01)
    assert took["copied"] == pytest.approx(24 * 64e6 * 40 / 992 / 50e9 / MS, rel=0.01)
    blamed = points("crowded-experts")["base"]["blame"]
    assert max(blamed, key=blamed.get) == "node0.nic0.rx"


def test_boxes_of_the_answers_job_add_up_to_its_headline():
    """They were those of all ranks over the whole run: 80 ms where the headline says 10."""
    point = study(load("hot-tenant", set=["run.quick=true"])).summary.points["base"]
    headline = point["metrics"]["train.iteration_time.p50"]["value"]
    assert sum(box["mean"] for box in point["activity"].values()) == pytest.approx(headline)
