"""Lateness in collectives: which rank arrives last, and how long the others wait for it."""

import pytest
from foretrace.reports.texts.waiting import last_arriver_sentence
from foretrace.scenarios.studies.summaries.late_ranks import waiting_by_rank
from foretrace.sim.analysis.arrivals import lateness
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

GPUS = tuple(Component(f"node0.gpu{i}", "gpu", slots=1) for i in range(4))
SYSTEM = System(
    (*GPUS, Component("fabric", "fabric")), tuple(g.name for g in GPUS), fabric="fabric"
)


class Recorded(Backend):
    """Backend whose ops take their recorded duration."""

    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration)


def run(*steps, keep="ops"):
    """Run steps with one compute time per rank, each followed by a collective of half a second."""
    build, last = Builder("steps"), ()
    for times in steps:
        own = [build.op(Kind.COMPUTE, rank=r, duration=t, after=last) for r, t in enumerate(times)]
        last = (build.collective([Member(r, 0, (op,)) for r, op in enumerate(own)], duration=0.5),)
    return Simulation(SYSTEM, {"*": Recorded()}).run(build.graph(), keep=keep)


SLOW = ([1, 1, 1, 3], [1, 1, 1, 2], [1, 1.5, 1, 1], [1, 1, 1, 1])


def test_the_last_arriver_is_charged_with_the_waits_of_the_others():
    found = lateness(run(*SLOW))
    assert found.last.tolist() == [0, 1, 0, 2]
    assert found.late.tolist() == pytest.approx([0.0, 1.5, 0.0, 6.0 + 3.0])
    assert found.collectives == 3  # for the fourth nobody waited
    assert found.straggler == 3


def test_several_that_arrive_last_share_the_time():
    found = lateness(run([1, 1, 3, 3]))
    assert found.late.tolist() == [0.0, 0.0, 2.0, 2.0]
    assert found.last.tolist() == [0, 0, 1, 1]
    assert found.straggler is None


def test_the_answer_names_the_straggler():
    told = waiting_by_rank(run(*SLOW))
    assert last_arriver_sentence({"late": told}) == (
        "Rank 3 arrives last in 2 of 3 collectives; the others wait 9 s for it in total."
    )
    row = told["ranks"][3]
    assert (row["own"], row["waiting"], row["last"]) == (7.0, 0.5, 2)
    assert told["ranks"][0]["waiting"] == 3.5


def test_each_collective_names_its_last_arriver_and_the_waiting_of_every_rank():
    first, second, third = waiting_by_rank(run(*SLOW))["met"]
    assert (first["last"], first["tied"], first["waits"]) == (3, 1, [2.0, 2.0, 2.0, 0.0])
    assert (second["last"], second["waited"]) == (3, 3.0)
    assert third["waits"] == pytest.approx([0.5, 0.0, 0.5, 0.5])


def test_a_rank_that_starts_late_is_reported():
    build = Builder("late")
    own = [build.op(Kind.COMPUTE, rank=r, duration=1.0, release=2.0 * (r == 2)) for r in range(4)]
    build.collective([Member(r, 0, (op,)) for r, op in enumerate(own)], duration=0.5)
    told = waiting_by_rank(Simulation(SYSTEM, {"*": Recorded()}).run(build.graph()))
    assert [one["begins"] for one in told["ranks"]] == [0.0, 0.0, 2.0, 0.0]
    assert last_arriver_sentence({"late": told}).endswith("It begins 2 s after the first rank.")


def test_without_waiting_there_is_no_lateness():
    assert waiting_by_rank(run([1, 1, 1, 1])) is None
    assert last_arriver_sentence({}) == ""


def test_a_run_without_op_rows_has_no_lateness():
    assert waiting_by_rank(run(*SLOW, keep="none")) is None
