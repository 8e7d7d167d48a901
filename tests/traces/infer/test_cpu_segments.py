"""Host time cut into pieces: the vectorised way against a naive twin, instant by instant."""

import numpy as np
from foretrace.traces.infer.events.call_tree import call_tree
from foretrace.traces.infer.events.cpu_segments import (
    CutPoints,
    WaitSpans,
    cpu_segments,
    segment_naming_tree,
)
from foretrace.traces.infer.waits.thread_waits import union_of_spans
from hypothesis import given
from hypothesis import strategies as st

END = 24  # ticks of a naive timeline


@st.composite
def forests(draw):
    """Events of two threads that nest, as (lane, start, end)."""
    found = []

    def fill(lane, low, high, depth):
        at = low
        while at < high and draw(st.booleans()):
            start = draw(st.integers(at, high - 1))
            end = draw(st.integers(start, high))
            found.append((lane, start, end))
            if depth and end > start:
                fill(lane, start, end, depth - 1)
            at = max(end, start + 1)

    for lane in (0, 1):
        fill(lane, 0, END, 2)
    return found


def rows(events):
    lane, start, end = (np.array([e[i] for e in events], np.int64) for i in range(3))
    return call_tree(np.arange(len(events)), lane, start, end)


def innermost(tree, lane, tick, shown):
    """Row of the smallest shown event around one tick; later ones win ties."""
    at = [
        (int(tree.end[i] - tree.start[i]), -i, int(tree.row[i]))
        for i in np.flatnonzero(shown).tolist()
        if tree.lane[i] == lane and tree.start[i] <= tick < tree.end[i]
    ]
    return min(at)[2] if at else -1


@given(forests())
def test_the_call_tree_follows_nesting_in_time(events):
    tree = rows(events)
    for i, p in enumerate(tree.parent.tolist()):
        if p >= 0:
            assert tree.lane[p] == tree.lane[i]
            assert tree.start[p] <= tree.start[i]
            assert tree.end[i] <= tree.end[p]
            assert tree.depth[i] == tree.depth[p] + 1
    naive = [
        sum(
            innermost(tree, int(tree.lane[i]), t, np.ones(len(tree.row), bool)) == tree.row[i]
            for t in range(END)
        )
        for i in range(len(tree.row))
    ]
    assert tree.self_ticks().tolist() == naive


@given(
    forests(),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, END)), max_size=4),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, END), st.integers(0, 6)), max_size=2),
)
def test_segments_cover_each_tick_once_and_name_the_running_operator(events, points, pauses):
    tree = rows(events)
    everything = np.ones(len(tree.row), np.bool_)
    shown = segment_naming_tree(tree, ~everything, ~everything)  # nobody stands for another
    cuts = CutPoints(*(np.array([c[i] for c in points], np.int64) for i in range(2)))
    lane, start, lasts = (np.array([p[i] for p in pauses], np.int64) for i in range(3))
    waits = WaitSpans(lane, start, start + lasts)
    found = cpu_segments(shown, cuts, waits, everything)  # every event alone: nothing is merged
    work = found.wait < 0
    assert sorted(found.wait[~work].tolist()) == list(range(len(pauses)))
    covered = set()
    for lane, low, high, owner in zip(*(c[work].tolist() for c in found[:4]), strict=True):
        assert not any(lane == c and low < t < high for c, t in points), "cut at every mark"
        for tick in range(low, high):
            assert (lane, tick) not in covered
            covered.add((lane, tick))
            assert owner == innermost(tree, lane, tick, everything)
            assert not any(lane == p and s <= tick < s + n for p, s, n in pauses), (
                "waits are left out"
            )
    for i in range(len(tree.row)):
        for tick in range(int(tree.start[i]), int(tree.end[i])):
            lane = int(tree.lane[i])
            waited = any(lane == p and s <= tick < s + n for p, s, n in pauses)
            assert waited or (lane, tick) in covered


@given(
    forests(), st.lists(st.tuples(st.integers(0, 1), st.integers(0, END)), min_size=1, max_size=6)
)
def test_a_cut_finds_the_segment_that_ended_last(events, points):
    cuts = CutPoints(*(np.array([c[i] for c in points], np.int64) for i in range(2)))
    none = np.empty(0, np.int64)
    tree = rows(events)
    shown = segment_naming_tree(tree, np.zeros(len(tree.row), bool), np.zeros(len(tree.row), bool))
    found = cpu_segments(shown, cuts, WaitSpans(none, none, none), np.zeros(len(tree.row), bool))
    for (lane, time), at in zip(points, found.last_segment_before(cuts).tolist(), strict=True):
        before = [
            i for i in range(len(found.lane)) if found.lane[i] == lane and found.end[i] <= time
        ]
        assert at == (max(before) if before else -1)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=8))
def test_a_union_covers_the_same_ticks(spans):
    start = np.array([s for s, _ in spans], np.int64)
    end = start + np.array([n for _, n in spans], np.int64)
    found = union_of_spans(start, end)
    covered = {t for s, n in spans for t in range(s, s + n)}
    assert {t for s, e in zip(*found, strict=True) for t in range(s, e)} == covered
    assert (found.start[1:] > found.end[:-1]).all()
