"""Measuring: blocks, starts, stopping, limits; what is kept when something fails."""

import itertools
import random

import numpy as np
import pytest
from foretrace.hil.driver import Driver, Missing, Ready
from foretrace.hil.drivers.recording_driver import RecordingDriver
from foretrace.hil.measuring import conditions, measurement
from foretrace.hil.measuring.device_lock import lock_device
from foretrace.hil.measuring.spread import (
    difference_between_starts,
    half_width,
    medians_settled,
    samples_by_key,
    start_medians,
)
from foretrace.hil.measuring.work_list import WorkList, touched_bytes
from foretrace.hil.recording import FailedOp, Recording, read
from foretrace.hil.sample import Request, Sample
from foretrace.sim.errors import DriverFault, RecordingError

A, B = Request("host:a uint8[100]", 2), Request("host:b uint8[200]", 2)


class Scripted(Driver):
    """Answers by a rule, and remembers what it was asked."""

    def __init__(self, rule=lambda asked: 100.0, state=None):
        self.rule, self.state, self.asked = rule, state or Ready(), []
        self.opened = self.closed = 0

    def probe(self):
        return self.state

    def describe(self):
        return {"device": "box0", "host": "box", "version": "1"}

    def open(self, spec):
        self.opened += 1

    def timing(self, requests):
        (request,) = requests
        self.asked.append(request.signature)
        value = self.rule(len(self.asked))
        return [Sample(request.signature, np.full(request.n, value), "cpu")]

    def close(self):
        self.closed += 1


@pytest.fixture(autouse=True)
def idle(monkeypatch):
    monkeypatch.setattr(conditions, "cores_used_by_others", lambda: 0.0)


def work(**rest):
    return WorkList("scripted", (A, B), **{"starts": 2, "most_starts": 2, "blocks": 4, **rest})


def test_a_steady_op_needs_three_warm_up_batches_and_three_measured_ones():
    driver = Scripted()
    found = measurement.measure(work(starts=1, most_starts=1), lambda: driver)
    assert driver.asked[:6] == [A.signature] * 3 + [B.signature] * 3
    assert len(driver.asked) == 6 + 2 * 3
    assert len(found.samples) == 6
    assert (found.device, found.host, found.versions) == ("box0", "box", {"version": "1"})
    assert found.ended == ""


def test_an_op_that_is_not_steady_gets_all_blocks_and_more_starts():
    noise = random.Random(1)
    drivers = [Scripted(lambda asked: noise.uniform(100, 200)) for _ in range(5)]
    more = iter(drivers)
    found = measurement.measure(work(most_starts=5, bar=0.01), lambda: next(more))
    assert [d.opened for d in drivers] == [d.closed for d in drivers] == [1] * 5
    assert len(found.samples) == 5 * 4 * 2


def test_no_further_start_once_the_required_precision_is_reached():
    steady = itertools.repeat(Scripted())
    found = measurement.measure(work(most_starts=9), lambda: next(steady))
    assert {s.start for s in found.samples} == {0, 1}


def test_blocks_have_each_op_once_in_an_order_that_the_seed_says():
    def order(seed):
        driver = Scripted(lambda asked: 100.0 + 50 * (asked % 7))
        measurement.measure(
            work(seed=seed, starts=1, most_starts=1, blocks=6, bar=1e-6), lambda: driver
        )
        return driver.asked[-12:]

    blocks = np.array(order(3)).reshape(6, 2)
    assert all(sorted(block) == [A.signature, B.signature] for block in blocks)
    assert order(3) == order(3)
    assert len({tuple(block) for block in blocks}) == 2


def test_what_was_measured_before_a_fault_is_kept_and_says_why():
    def rule(asked):
        if asked > 10:
            raise DriverFault("died", "the agent ended")
        return 100.0

    driver = Scripted(rule)
    found = measurement.measure(work(), lambda: driver)
    assert len(found.samples) == 4
    assert found.ended == "died: the agent ended"
    assert driver.closed == 1


def test_an_op_at_which_the_device_fails_is_one_row_and_the_others_are_measured(tmp_path):
    class Picky(Scripted):
        def timing(self, requests):
            if requests[0] == A and len(self.asked) > 5:
                raise DriverFault("broken", "4 of 64 ops failed")
            return super().timing(requests)

    found = measurement.measure(work(), Picky)
    assert found.failed == ((A.signature, "warm", "broken: 4 of 64 ops failed"),)
    assert found.ended == ""
    assert len(samples_by_key(found.samples)[B.key]) > 4
    found.write(tmp_path / "kept.rec.gz")
    assert read(tmp_path / "kept.rec.gz").failed == found.failed


def test_a_recording_says_of_an_op_that_it_failed_then():
    kept = Recording("scripted", "box0", "box", "2026-01-31T12:00:00Z", {}, (sample(1.0),),
                     failed=(FailedOp(B.signature, "warm", "broken: no answer"),))  # fmt: skip
    with pytest.raises(RecordingError, match=r"failed when it was recorded \(broken: no answer\)"):
        RecordingDriver.of(kept).timing([B])


def test_if_every_op_fails_the_first_fault_is_raised():
    def rule(asked):
        raise DriverFault("unsupported", f"question {asked}")

    with pytest.raises(DriverFault, match=r"^unsupported: question 1$"):
        measurement.measure(work(), lambda: Scripted(rule))


def test_a_fault_before_anything_was_measured_is_an_error():
    def rule(asked):
        raise DriverFault("hung", "no answer")

    with pytest.raises(DriverFault, match="hung"):
        measurement.measure(work(), lambda: Scripted(rule))


def test_the_time_limit_ends_a_measurement_and_keeps_it():
    driver = Scripted()
    made = measurement.Measurement(work(seconds=8), lambda: driver, now=lambda: len(driver.asked))
    found = made.run()
    assert found.ended == "time limit of 8 s"
    assert len(found.samples) == 3  # of nine batches six were warm-up


def test_the_time_limit_also_bounds_the_last_batch():
    """What is left, or four times the longest answer so far; never the ten minutes of an agent."""
    driver, limits = Scripted(), []
    driver.rule = lambda asked: limits.append(driver.limit) or 100.0
    measurement.Measurement(work(seconds=9), lambda: driver, now=lambda: len(driver.asked)).run()
    assert limits == [9, 8, 7, 6, 5, 5, 5, 5, 5, 5]


def test_a_rate_limit_waits_until_what_was_moved_is_within_it(monkeypatch):
    slept = []
    monkeypatch.setattr(measurement.time, "sleep", slept.append)
    asked = WorkList("scripted", (A,), rate=100.0, starts=1, most_starts=1)
    measurement.Measurement(asked, Scripted, now=lambda: 0.0).run()
    assert slept == [2.0 * n for n in range(1, 7)]  # 2 x 100 B a batch at 100 B/s


def test_a_batch_that_touches_too_much_is_refused_before_the_device_is_opened():
    driver = Scripted()
    with pytest.raises(DriverFault, match="a batch of 2 touches 400 B, 300 B are allowed"):
        measurement.measure(work(bytes=300.0), lambda: driver)
    assert driver.opened == 0


def test_a_missing_device_is_an_error_with_its_cure():
    gone = Scripted(state=Missing("missing", "no box here", "buy one"))
    with pytest.raises(DriverFault, match=r"^missing: no box here; buy one$"):
        measurement.measure(work(), lambda: gone)
    assert gone.closed == 1


def test_a_busy_machine_is_refused(monkeypatch):
    monkeypatch.setattr(conditions, "cores_used_by_others", lambda: 1.5)
    driver = Scripted()
    with pytest.raises(DriverFault, match=r"busy: scripted: others use 1\.5 cores"):
        measurement.measure(work(), lambda: driver)
    assert (driver.opened, driver.closed) == (0, 1)
    assert measurement.measure(work(busy=2.0), Scripted).ended == ""


def test_two_runs_cannot_have_one_device():
    with (
        lock_device("box0"),
        pytest.raises(DriverFault, match="busy: box0: measured by process"),
        lock_device("box0"),
    ):
        pass
    with lock_device("box0"), lock_device("box1"):
        pass


def sample(median, start=0, **rest):
    return Sample("host:a", np.full(3, median), rest.pop("clock", "wall"), start=start, **rest)


def test_throttled_samples_are_kept_but_not_used():
    hot = conditions.with_conditions(sample(900.0), {"throttled": 3})
    assert hot.flags == ("throttled",)
    assert hot.facts["throttled"] == 3
    assert start_medians([sample(100.0), hot]) == [100.0]


def test_a_clock_jump_flags_wall_clock_samples_taken_meanwhile():
    steady = {"monotonic": 10.0, "real": 1000.0, "boot": 10.0}
    later = {"monotonic": 10.5, "real": 1000.5, "boot": 10.5}
    assert conditions.clock_drift(steady, later) == 0.0
    assert conditions.clock_drift(steady, {**later, "real": 4600.5}) == pytest.approx(3600.0)
    assert conditions.clock_drift(steady, {**later, "boot": 70.5}) == pytest.approx(60.0)
    assert conditions.with_conditions(sample(1.0), {"jump": 60.0}).flags == ("clock-jump",)
    assert conditions.with_conditions(sample(1.0, clock="cpu"), {"jump": 60.0}).flags == ()


def test_the_two_halves_of_starts_give_a_lower_bound_of_resolvable_differences():
    samples = [sample(m, start) for start, m in enumerate([100.0, 110.0, 102.0, 108.0])]
    assert difference_between_starts(samples)["host:a", "warm"] == pytest.approx(109 / 101 - 1)
    assert np.isnan(difference_between_starts(samples[:1])["host:a", "warm"])
    assert list(samples_by_key(samples)) == [("host:a", "warm")]


def test_the_half_width_follows_the_t_distribution():
    assert half_width([90.0, 110.0]) == pytest.approx(
        12.71 * 10 * np.sqrt(2) / np.sqrt(2) / 100, 1e-3
    )
    assert half_width([1.0]) == np.inf
    assert half_width([100.0] * 20) == 0.0
    assert not medians_settled([100.0, 100.0])
    assert not medians_settled([100.0, 103.0, 100.0])


def test_a_work_list_survives_writing_and_reading_and_refuses_invalid_values(tmp_path):
    asked = work(note="why")
    (tmp_path / "work.json").write_text(asked.text())
    assert WorkList.read(tmp_path / "work.json") == asked
    assert touched_bytes(A) == 200
    for text in ("", "[]", "{}", asked.text().replace("foretrace-work", "x")):
        with pytest.raises(RecordingError, match=r"x\.json: is not a work list"):
            WorkList.read_text(text, "x.json")
    with pytest.raises(RecordingError, match="No such file"):
        WorkList.read(tmp_path / "none.json")
    with pytest.raises(ValueError, match="request each op once"):
        WorkList("host", (A, A))
