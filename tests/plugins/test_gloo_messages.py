"""gloo's messages on ports that send in arrival order; test_lab.py compares with measured runs."""

from math import ceil

import pytest
from foretrace.plugins.gloo import messages
from foretrace.plugins.gloo.messages import (
    AROUND,
    BURST,
    PAYLOAD,
    PREAMBLE,
    Lan,
    all_reduce_end_times,
)

RATE, DELAY = 1.25e9, 5e-6
MIB = 1 << 20


def lan(n, message=0.0, processors=0):
    return Lan(n, RATE, DELAY, message, processors)


def took(n, size, late=0.0, **known):
    """Time from the last rank's call to the last rank's end."""
    call_times = [[0.0]] * (n - 1) + [[late]]
    return max(max(row) for row in all_reduce_end_times(lan(n, **known), size, call_times)) - late


def wire(size):
    """Seconds that a burst occupies a port."""
    return (size + AROUND * max(1, ceil(size / PAYLOAD))) / RATE


def bound(n, size):
    """Lower bound: time of all headers and bytes at the busiest port."""
    return 2 * (n - 1) / n * size * (PAYLOAD + AROUND) / PAYLOAD / RATE


def test_a_busy_port_serves_earlier_messages_first():
    net, seen = lan(2), []
    net.send(0, BURST, lambda: seen.append(net.now))
    net.send(0, PREAMBLE, lambda: seen.append(net.now))
    net.send(1, PREAMBLE, lambda: seen.append(net.now))
    net.run()
    alone = DELAY + wire(PREAMBLE)
    assert seen == pytest.approx([alone, DELAY + wire(BURST), DELAY + wire(BURST) + wire(PREAMBLE)])


def test_ranks_that_share_a_processor_handle_one_message_at_a_time():
    seen = {}
    for processors in (0, 1):
        net = lan(4, message=1e-6, processors=processors)
        for rank in range(4):
            net.occupy_processor(rank, lambda: seen.setdefault(processors, []).append(net.now))  # noqa: B023
        net.run()
    assert seen[0] == pytest.approx([1e-6] * 4)
    assert seen[1] == pytest.approx([1e-6, 2e-6, 3e-6, 4e-6])


def test_two_ranks_match_a_hand_calculation():
    """Two segments per lap, one burst each; each notification travels with the segment before."""
    size, segment = 4 * 1000, PREAMBLE + 1000
    asked = DELAY + 3 * wire(PREAMBLE)  # the second word is the third message of its port
    both = asked + DELAY + wire(PREAMBLE) + 2 * wire(segment)
    assert took(2, size) > both
    lap = took(2, size) / 2
    assert lap == pytest.approx(both, rel=0.2)


def test_every_port_carries_its_share_and_nothing_twice(monkeypatch):
    """Each rank receives 2(n-1)/n of the bytes, and a preamble with every segment."""
    carried = {}
    send = Lan.send

    def counted(self, to, size, then, *told):
        carried[to] = carried.get(to, 0) + size
        send(self, to, size, then, *told)

    monkeypatch.setattr(Lan, "send", counted)
    n, size = 4, 4 * MIB
    took(n, size)
    segments = 2 * 2 * (n - 1)  # two a part, in each lap n - 1 parts
    words = 2 * segments  # ready to receive, ready to send
    expected = 2 * (n - 1) / n * size + PREAMBLE * (segments + words)
    assert carried == dict.fromkeys(range(n), expected)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
@pytest.mark.parametrize("size", [65536, MIB, 16 * MIB])
@pytest.mark.parametrize("late", [0.0, 40e-6])
def test_no_ring_beats_its_bandwidth_bound(n, size, late):
    assert took(n, size, late) > bound(n, size)


@pytest.mark.parametrize("n", [3, 4, 8])
def test_a_late_rank_keeps_a_link_of_the_ring_idle(n):
    """With two ranks there is no data of another neighbour to wait behind."""
    size = 4 * MIB
    assert took(n, size) < 1.05 * bound(n, size)
    assert took(n, size, late=DELAY / 2) < 1.05 * bound(n, size)
    assert took(n, size, late=40e-6) > 1.15 * bound(n, size)
    assert took(2, size, late=40e-6) == pytest.approx(took(2, size), rel=0.01)


def test_notifications_that_overtake_data_cost_a_late_ring_nothing(monkeypatch):
    """Control experiment: without the delayed notifications, a late ring loses no time."""
    assert took(4, 4 * MIB, late=40e-6) > 1.15 * bound(4, 4 * MIB)
    send = Lan.send

    def passing(self, to, size, then, *told):
        if size == PREAMBLE:
            self.schedule(self.now + self.delay, then, *told)
        else:
            send(self, to, size, then, *told)

    monkeypatch.setattr(Lan, "send", passing)
    assert took(4, 4 * MIB, late=40e-6) < 1.05 * bound(4, 4 * MIB)


def test_more_messages_than_threads_wait():
    """Two all-reduces at once share the ports; the third begins when one has ended."""
    one = took(2, MIB)
    ends = all_reduce_end_times(lan(2), MIB, [[0.0, 0.0, 0.0]] * 2)
    assert messages.THREADS == 2
    for first, second, third in ends:
        assert 1.5 * one < second < 2.1 * one
        assert first <= second < third
        assert third > 2.5 * one


def test_all_reduces_far_apart_do_not_affect_each_other():
    one = took(4, MIB)
    ends = all_reduce_end_times(lan(4), MIB, [[0.0, 1.0]] * 4)
    assert max(row[1] for row in ends) - 1.0 == pytest.approx(one, rel=1e-6)


def test_the_same_arrivals_give_the_same_ends():
    call_times = [[0.0], [7e-6], [31e-6], [2e-6]]
    first, again = (all_reduce_end_times(lan(4, 2e-6, 1), MIB, call_times) for _ in range(2))
    assert first == again
    assert min(min(row) for row in first) > 31e-6
