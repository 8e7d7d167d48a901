"""Messages between processes: when they arrive, in which order, and who gets them."""

import pytest
import simpy
from foretrace.sim.engine_api import interface
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.job import Job
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.run.workload import Needs, Workload

SYSTEM = System((Component("kv", "memory", capacity=1, unit="block"),), ())


@pytest.fixture(params=["reference", "core"])
def run(request):
    return Simulation(SYSTEM, {}, engine=request.param).run


def test_messages_wait_in_order_until_they_are_received(run):
    seen = []

    def sends(sim):
        for k in range(3):
            sim.mailbox("b").send(k, 10 * k, -k)
        yield sim.wait(2.0)
        sim.mailbox("b").send(9, answer_to="a")

    def receives(sim):
        yield sim.wait(1.0)
        for _ in range(4):
            message = yield sim.mailbox("b").receive()
            seen.append((sim.now, *message))

    run(None, sends, receives)
    assert seen == [
        (1.0, 0, 0, 0, ""), (1.0, 1, 10, -1, ""), (1.0, 2, 20, -2, ""), (2.0, 9, 0, 0, "a")
    ]  # fmt: skip


def test_who_waited_first_gets_the_first_message(run):
    seen = []

    def receives(name):
        def waits(sim):
            message = yield sim.mailbox("b").receive()
            seen.append((name, message.a))

        return waits

    def sends(sim):
        yield sim.wait(1.0)
        for k in range(3):
            sim.mailbox("b").send(k)

    run(None, receives("x"), receives("y"), receives("z"), sends)
    assert seen == [("x", 0), ("y", 1), ("z", 2)]


def test_messages_arrive_after_grants_and_before_thresholds_and_settled(run):
    seen = []

    def woken_by(name, event):
        def waits(sim):
            made = event(sim)
            if name == "message":
                sim.mailbox("b").send(1)
            yield made
            seen.append((name, sim.now))

        return waits

    run(
        None,
        woken_by("settled", lambda sim: sim.settled()),
        woken_by("threshold", lambda sim: sim.reaches("held", "kv", at_least=0)),
        woken_by("message", lambda sim: sim.mailbox("b").receive()),
        woken_by("grant", lambda sim: sim.acquire("kv", 1)),
    )
    assert seen == [("grant", 0.0), ("message", 0.0), ("threshold", 0.0), ("settled", 0.0)]


def test_who_waits_no_more_takes_no_message(run):
    seen = []

    def impatient(sim):
        found = sim.mailbox("b").receive()
        yield found | sim.wait(1.0)
        seen.append(("impatient", found.triggered))

    def patient(sim):
        yield sim.wait(3.0)
        message = yield sim.mailbox("b").receive()
        seen.append(("patient", message.a))

    def sends(sim):
        yield sim.wait(2.0)
        sim.mailbox("b").send(5)

    run(None, impatient, patient, sends)
    assert seen == [("impatient", False), ("patient", 5)]


def test_an_interrupted_process_leaves_its_message_for_the_next(run):
    """The interrupt comes in the instant in which it receives."""
    seen = []

    def receives(sim):
        yield sim.wait(1.0)
        try:
            yield sim.mailbox("b").receive()
        except simpy.Interrupt:
            seen.append("interrupted")
        yield sim.wait(1.0)
        seen.append((yield sim.mailbox("b").receive()).a)

    def acts(sim):
        (other,) = sim.start([receives])
        sim.mailbox("b").send(1)
        sim.mailbox("b").send(2)
        yield sim.env.timeout(0)
        yield sim.wait(1.0)
        other.interrupt()
        yield sim.wait(2.0)
        seen.append((yield sim.mailbox("b").receive()).a)

    run(None, acts)
    assert seen == ["interrupted", 1, 2]


def test_a_message_to_oneself_takes_a_turn(run):
    seen = []

    def talks(sim):
        box = sim.mailbox("b")
        box.send(1)
        found = box.receive()
        yield sim.env.timeout(0)
        seen.append(found.triggered)
        yield found
        seen.append(sim.now)

    run(None, talks)
    assert seen == [False, 0.0]


def test_each_job_has_its_own_mailboxes(run):
    class Talks(Workload):
        needs = Needs({})

        def __init__(self, number):
            self.number = number

        def start(self, job):
            def talks(sim):
                sim.mailbox("b").send(self.number)
                message = yield sim.mailbox("b").receive()
                sim.emit("got", message.a, "1")

            return talks

    result = run([Job("x", Talks(1)), Job("y", Talks(2))])
    assert [result.of(name).emitted.samples["got"].tolist() for name in "xy"] == [[1.0], [2.0]]


@pytest.mark.parametrize("value", ["a", 1.5, 2**63, None])
def test_what_is_no_integer_cannot_be_sent(run, value):
    def sends(sim):
        sim.mailbox("b").send(0, value)
        yield sim.wait(1.0)

    with pytest.raises(SimulationError, match=f"mailbox b: a message contains {value!r}; send"):
        run(None, sends)


def test_processes_that_answer_each_other_at_one_instant_for_ever_are_refused(run, monkeypatch):
    monkeypatch.setattr(interface, "MAX_TURNS", 300)

    def player(own, other):
        def plays(sim):
            sim.mailbox(other).send(1)
            while True:
                yield sim.mailbox(own).receive()
                sim.mailbox(other).send(1)

        return plays

    with pytest.raises(SimulationError, match="plays: 301 turns at tick 0"):
        run(None, player("a", "b"), player("b", "a"))
