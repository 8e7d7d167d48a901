"""Messages between compiled processes in the compiled loop equal those of the reference engine."""

from typing import NamedTuple

import numpy as np
import pytest
from foretrace.sim.core.policies import desk_mail, desk_return, mail_layout, policy_driver
from foretrace.sim.core.policies.policy_driver import PolicyLoop
from foretrace.sim.facts.system import Component, System
from foretrace.sim.kernel import policy
from foretrace.sim.kernel.jit import LINKED
from foretrace.sim.run.policies.compiled_process import CompiledProcess, Mail
from foretrace.sim.run.simulation import Simulation

pytestmark = pytest.mark.skipif(not LINKED, reason="kernels are not linked: Python calls them")

POOL = "node0.pool"
SYSTEM = System((Component(POOL, "memory", capacity=2, unit="block"),), ())
METRICS = ("tag", "a", "b", "c", "free")


class Calls(NamedTuple):
    left: np.ndarray
    burst: np.ndarray


@policy.policy_kernel
def sends(state, event, turn):
    """Send messages in bursts of several sizes, and count the answers."""
    kind, left = event[policy.KIND], state.left
    if kind == policy.MESSAGE:
        for k in range(4):
            policy.emit(turn, k, event[(policy.TAG, policy.A, policy.B, policy.C)[k]])
        return policy.GO_ON
    left[0] -= 1
    for k in range(state.burst[left[0] % len(state.burst)]):
        policy.send(turn, (k + left[0]) % 3, left[0], k, -(2**63) + k)
    if left[0] == 0:
        return policy.DONE
    policy.after(turn, left[0] % 4, 0)
    return policy.GO_ON


@policy.policy_kernel
def answers(state, event, turn):
    """Emit each message, and answer every third."""
    if event[policy.KIND] != policy.MESSAGE:
        return policy.GO_ON
    state.left[0] += 1
    policy.emit(turn, 0, event[policy.TAG] + 10)
    policy.emit(turn, 1, event[policy.A])
    policy.emit(turn, 2, event[policy.B])
    policy.emit(turn, 3, event[policy.C])
    if event[policy.TAG] >= 0 and state.left[0] % 3 == 0:
        policy.send(turn, event[policy.TAG], state.left[0], event[policy.A], 7)
    return policy.GO_ON


def process(kernel, name, to, inbox, burst=(1,), left=0):
    return CompiledProcess(
        kernel,
        Calls(np.array([left], np.int64), np.array(burst, np.int64)),
        parts=[POOL],
        metrics=METRICS,
        mail=Mail(to, inbox),
        actions=2048,
        name=name,
    )


def senders(left, burst):
    """A process that sends to three mailboxes; two processes read one of them, one its own."""
    return [
        process(sends, "sender", ("x", "y", "z"), "z", burst, left),
        process(answers, "first", ("unread", "z"), "x"),
        process(answers, "second", ("z", "x"), "x"),
        process(answers, "third", (), "y"),
    ]


@pytest.fixture
def codes(monkeypatch):
    """Why each loop ended, and the messages that it sent."""
    found = []
    back = PolicyLoop._return_to_simpy

    def note(loop, code, error):
        found.append((code, loop.desk.mail.now.item(0) - loop.mail.room.sent))
        back(loop, code, error)

    monkeypatch.setattr(PolicyLoop, "_return_to_simpy", note)
    monkeypatch.setattr(policy_driver, "DULL", -(10**9))  # however few calls a loop makes
    return found


def emitted(engine, *processes):
    """What processes emitted, in order."""
    return list(Simulation(SYSTEM, {}, engine, 1e-9).run(None, *processes).emitted)


@pytest.mark.parametrize("burst", [(1, 2, 0), (4, 0, 600)])
def test_messages_arrive_as_on_the_reference_engine(burst, codes):
    found = emitted("core", *senders(60, burst))
    assert found == emitted("reference", *senders(60, burst))
    assert sum(sent for _, sent in codes) > 20 * sum(burst)
    assert [code for code, _ in codes] == [desk_return.dl.SLOW]  # the end of the sender


def test_rows_of_letters_are_used_again(monkeypatch):
    rows, back = [], PolicyLoop._return_to_simpy

    def note(loop, code, error):
        mail = loop.desk.mail
        rows.append((len(mail.letters), len(mail.delivered), mail.now.item(mail_layout.DELIVERED)))
        back(loop, code, error)

    monkeypatch.setattr(PolicyLoop, "_return_to_simpy", note)
    emitted("core", *senders(400, (1, 2, 0)))
    room = desk_mail.LETTERS_AT_ONCE
    assert all(letters == delivered == room for letters, delivered, _ in rows)
    assert all(count <= room for *_, count in rows)


def asks(sim):
    """A generator that reads one of the mailboxes now and then, and writes to others."""
    for k in range(30):
        yield sim.env.timeout(7)
        sim.mailbox("x").send(k, 1, 2, answer_to="y")
        sim.mailbox("z").send(k)
        message = sim.mailbox(("x", "y", "unread")[k % 3]).receive()
        got = yield message | sim.env.timeout(k % 5)
        if message in got:
            sim.emit("got", message.value.b)


def test_messages_of_generators_arrive_in_the_same_order(codes):
    made = emitted("core", *senders(150, (1, 2, 0, 5)), asks)
    assert made == emitted("reference", *senders(150, (1, 2, 0, 5)), asks)
    assert sum(sent for _, sent in codes) > 50
    names = [name for name, *_ in made]
    assert names.count("got") > 3


@policy.policy_kernel
def waits(state, event, turn):
    """Request two blocks, and emit what comes first: them or messages."""
    policy.emit(turn, 0, event[policy.KIND])
    policy.emit(turn, 4, policy.free(turn, 0))
    if event[policy.KIND] == policy.GRANT:
        state.left[0] -= 1
        if state.left[0] == 0:
            return policy.DONE
        policy.after(turn, 2, 0)
    elif event[policy.KIND] == policy.TIMER:
        policy.release(turn, 0, 2)
    if event[policy.KIND] in (policy.START, policy.TIMER):
        policy.acquire(turn, 0, 2, 0)
    return policy.GO_ON


@policy.policy_kernel
def hands_over(state, event, turn):
    """Take a block, and later release it and send messages in one call."""
    left = state.left
    left[0] -= 1
    if left[0] == 0:
        return policy.DONE
    if left[0] % 2 and policy.take(turn, 0, 1):
        state.burst[0] = 1
    elif left[0] % 2 == 0:
        for k in range(3):
            policy.send(turn, k % 2, left[0], k, 0)
        if state.burst[0]:
            policy.release(turn, 0, 1)
            state.burst[0] = 0
    policy.after(turn, 3, 0)
    return policy.GO_ON


def test_messages_arrive_behind_the_grants_of_their_turn(codes):
    def processes():
        return [
            process(hands_over, "hands over", ("w", "v"), "", (0,), 40),
            process(waits, "waits", (), "w", left=20),
            process(answers, "reads", (), "v"),
            process(answers, "also reads", (), "w"),
        ]

    assert emitted("core", *processes()) == emitted("reference", *processes())
    assert any(sent for _, sent in codes)


@policy.policy_kernel
def breaks_at_a_message(state, event, turn):
    if event[policy.KIND] == policy.MESSAGE:
        raise ValueError("unreadable")
    return policy.GO_ON


def test_an_error_at_a_message_names_the_process(codes):
    broken = [
        process(sends, "sender", ("x", "y", "z"), "", (1,), 9),
        process(breaks_at_a_message, "broken", (), "x"),
    ]
    with pytest.raises(Exception, match="broken: its kernel raised ValueError: unreadable"):
        emitted("core", *broken)


@policy.policy_kernel
def settles(state, event, turn):
    """Settle at each message, and at each third time once more; emit each event."""
    policy.emit(turn, 0, event[policy.KIND])
    policy.emit(turn, 1, event[policy.TAG])
    policy.emit(turn, 2, event[policy.A])
    if event[policy.KIND] == policy.MESSAGE:
        policy.settle(turn, event[policy.B])
    if event[policy.KIND] == policy.SETTLED and state.burst[0] > 0:
        state.left[0] += 1
        if state.left[0] % 3 == 0:
            policy.settle(turn, state.left[0])
    return policy.GO_ON


def test_what_settles_stays_in_the_loop(codes):
    def processes():
        return [
            process(sends, "sender", ("x", "y", "z"), "", (7, 1, 12, 3), 40),
            process(settles, "first", (), "x"),
            process(settles, "second", (), "x"),
            process(settles, "third", (), "y", (0,)),
            process(settles, "fourth", (), "z"),
        ]

    assert emitted("core", *processes()) == emitted("reference", *processes())
    assert len(codes) <= 2


@policy.policy_kernel
def settles_and_cancels(state, event, turn):
    """Emit each event; at every other message, do what only Python can do."""
    policy.emit(turn, 0, event[policy.KIND])
    policy.emit(turn, 1, event[policy.A])
    policy.emit(turn, 2, event[policy.B])
    if event[policy.KIND] == policy.MESSAGE:
        state.left[0] += 1
        policy.settle(turn, state.left[0])
        if state.left[0] % state.burst[0] == 0:
            policy.after(turn, 0, 0)
            policy.cancel(turn, 0)
    return policy.GO_ON


def test_python_goes_on_among_the_messages_of_a_turn(codes):
    def processes():
        readers = [("first", "x", 2), ("second", "x", 3), ("third", "y", 5), ("fourth", "z", 2)]
        return [
            process(sends, "sender", ("x", "y", "z"), "", (7, 1, 12, 3), 40),
            *[
                process(settles_and_cancels, name, (), box, (often,))
                for name, box, often in readers
            ],
        ]

    assert emitted("core", *processes()) == emitted("reference", *processes())
    assert len(codes) > 20


@policy.policy_kernel
def settles_among_messages(state, event, turn):
    """Settle in the turn of the sender's messages, under tags of all sizes; emit each event."""
    policy.emit(turn, 0, event[policy.KIND])
    policy.emit(turn, 1, event[policy.TAG] % 1000)
    policy.emit(turn, 2, event[policy.A])
    if event[policy.KIND] == policy.START:
        policy.after(turn, 1, 0)
    if event[policy.KIND] == policy.TIMER:
        state.left[0] -= 1
        policy.settle(turn, state.left[0] * state.burst[0])
        if state.left[0] > 0:
            policy.after(turn, 1, 0)
    return policy.GO_ON


@pytest.mark.parametrize("tags", [1, -(10**12) - 7, 2**56 + 3])
def test_what_settles_comes_behind_the_messages_of_its_turn(tags, codes):
    def processes():
        return [
            process(settles_among_messages, "first", (), "x", (tags,), 40),
            process(sends, "sender", ("x", "y", "z"), "z", (3, 1, 2), 40),
            process(settles_among_messages, "second", (), "y", (tags,), 40),
        ]

    assert emitted("core", *processes()) == emitted("reference", *processes())
    assert len(codes) <= 2
