"""Timeline data matches the run and fits into the page."""

import base64
import json
import zlib

import numpy as np
from foretrace.reports.figures.packed_bars import TimelineBars, limit_bars, packed_bars
from foretrace.reports.figures.timeline_source import timeline_data
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

WIDTHS = (2, 4, 4, 1, 4, 4, 4, 4, 4)  # of: lane, gap, length, kind, name, ops, slack, met, wait


class Recorded(Backend):
    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration)


def unpacked(body):
    """Columns of packed bars, decoded like the script does."""
    data, n, at, found = zlib.decompress(base64.b64decode(body["packed"])), body["n"], 0, []
    for width in WIDTHS:
        planes = np.frombuffer(data, np.uint8, width * n, at).reshape(width, n)
        whole = np.zeros((n, 4), np.uint8)
        whole[:, :width] = planes.T
        found.append(whole.view("<u4").ravel().astype(np.int64))
        at += width * n
    new, gap, length, kind, name, ops, slack, met, wait = found
    gap = gap.astype(np.uint32).view(np.int32).astype(np.int64)
    lane, tick, bars = -1, 0, []
    for i in range(n):
        if new[i]:
            lane, tick = lane + int(new[i]), 0
        start = tick + int(gap[i])
        tick = start + int(length[i])
        bars.append((lane, start, tick, int(kind[i]), int(name[i]) - 1, int(ops[i]),
                     int(length[i] - slack[i]), int(met[i]) - 1, int(wait[i]) >> 1,
                     int(wait[i]) & 1))  # fmt: skip
    return bars


def meetings(body):
    """Members, last arrivers, first of these, and longest wait in s, for each collective."""
    data = zlib.decompress(base64.b64decode(body["packed"]))[sum(WIDTHS) * body["n"] :]
    planes = np.frombuffer(data, np.uint8).reshape(4, 4, -1)
    whole = np.ascontiguousarray(planes.transpose(0, 2, 1)).view("<u4")[..., 0].astype(float)
    whole[3] = (whole[3] * body["step"]).round(6)
    return [tuple(one) for one in whole.T.tolist()]


def late_rank():
    """Three ranks that compute for 1, 2 and 3 s before a collective of 1 s."""
    build = Builder("late")
    own = [build.op(Kind.COMPUTE, rank=r, duration=1.0 + r) for r in range(3)]
    build.collective([Member(r, 0, (own[r],)) for r in range(3)], duration=1.0)
    gpus = tuple(Component(f"node0.gpu{r}", "gpu", slots=1) for r in range(3))
    system = System(
        (*gpus, Component("fabric", "fabric")), tuple(g.name for g in gpus), fabric="fabric"
    )
    return Simulation(system, {"*": Recorded()}, "reference").run(build.graph())


def test_waiting_is_a_bar_of_its_own_from_the_arrival_to_the_start():
    data = timeline_data({"base": late_rank()})
    waiting = [k["name"] for k in data["kinds"]].index("waiting")
    waits = {
        (bar[0], round(bar[1] * data["step"], 6), round(bar[2] * data["step"], 6))
        for bar in unpacked(data)
        if bar[3] == waiting
    }
    assert waits == {(0, 1.0, 3.0), (1, 2.0, 3.0)}
    assert "2 waits are drawn" in data["said"]


def test_bars_of_a_collective_know_it_who_came_last_and_who_waited():
    data = timeline_data({"base": late_rank(), "other": late_rank()})
    assert meetings(data) == [(3, 1, 2, 2.0)] * 2  # of each variant one
    network = [k["name"] for k in data["kinds"]].index("communication")
    members = [bar for bar in unpacked(data) if bar[3] == network]
    assert [(bar[7], round(bar[8] * data["step"], 6), bar[9]) for bar in members] == [
        (0, 2.0, 0), (0, 1.0, 0), (0, 0.0, 1), (1, 2.0, 0), (1, 1.0, 0), (1, 0.0, 1),
    ]  # fmt: skip
    others = {bar[7] for bar in unpacked(data) if bar[1] == 0}
    assert others == {-1}


def test_collectives_of_which_nothing_is_drawn_are_left_out():
    whole, few = (timeline_data({"base": late_rank()}, max_bars=most) for most in (100, 2))
    assert whole["meetings"] == 1
    assert {bar[7] for bar in unpacked(few)} <= {-1, *range(few["meetings"])}


def test_every_variant_has_rows_and_lanes_of_its_own():
    data = timeline_data({"base": late_rank(), "other": late_rank()})
    assert [r["name"] for r in data["rows"] if r["level"] == 0] == ["base", "other"]
    assert [r["lane"] for r in data["rows"] if "lane" in r] == list(range(6))
    assert {bar[0] for bar in unpacked(data)} == set(range(6))


def test_packed_bars_come_back():
    rng = np.random.default_rng(3)
    start = rng.integers(0, 10**7, 500)
    given = TimelineBars.of_ops(
        rng.integers(0, 9, 500), start, start + rng.integers(1, 10**5, 500),
        rng.integers(0, 6, 500), rng.integers(-1, 40, 500), rng.integers(-1, 9, 500),
        rng.integers(0, 10**6, 500), rng.integers(0, 2, 500),
    )  # fmt: skip
    body = packed_bars(given, (0, 10**7 + 10**5), 1e-12, [])
    same = [tuple(map(int, row)) for row in zip(*given, strict=True)]
    assert unpacked(body) == same


def test_merged_bars_keep_all_time_and_all_ops():
    rng = np.random.default_rng(5)
    length = rng.integers(1, 400, 5_000)
    end = np.cumsum(length + rng.integers(0, 50, 5_000))
    zero = np.zeros(5_000, int)
    bars = TimelineBars.of_ops(zero, end - length, end, rng.integers(0, 5, 5_000), zero)
    few, least = limit_bars(bars, 1_000)
    assert len(few.lane) <= 1_000
    assert least > 0
    assert (few.busy.sum(), few.ops.sum()) == (length.sum(), 5_000)
    assert np.all(few.start[1:] >= few.end[:-1])


def test_a_hundred_thousand_bars_leave_room_in_two_megabytes():
    rng = np.random.default_rng(1)
    lane = np.repeat(np.arange(50), 2_000)
    length = rng.integers(10**4, 10**8, 100_000)
    end = np.cumsum(length.reshape(50, -1) + 10**5, axis=1).ravel()
    for met in (-1, np.tile(np.arange(2_000), 50)):  # nobody meets, and everybody all the time
        wait = rng.integers(0, 10**7, 100_000) * (met >= 0)
        bars = TimelineBars.of_ops(lane, end - length, end, lane % 5, lane, met, wait, wait > 0)
        body = packed_bars(bars, (0, int(end.max())), 1e-12, [])
        assert len(json.dumps(body)) < 1_200_000
