"""Segments: what is laid one after another at once is what was laid one by one."""

from dataclasses import replace

import numpy as np
import pytest
from foretrace.models.training.description.description import Transformer
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.program.segments import (
    OpTable,
    Segment,
    SegmentBuilder,
    works_segment,
)
from foretrace.models.training.program.step_graph import step_graph
from hypothesis import given
from hypothesis import strategies as st

TINY = Transformer(hidden=8, layers=4, heads=2, vocabulary=10, inner=32)
NOTHING = works_segment([])


def part(number, hung):
    """A segment of a few ops, with parallel ops, some of which are left open."""
    build = SegmentBuilder()
    build.append(works_segment([(number, 0), (number + 1, 1), (number, 0)]))
    for queue in hung:
        row = build.add_parallel_op(9 + queue, queue)
        if queue == 2:
            build.leave_open(row)
    return build.segment()


PARTS = [NOTHING, *(part(n, hung) for n, hung in ((0, ()), (3, (1,)), (5, (2, 1)), (7, (2, 2))))]
laid = st.lists(st.sampled_from(PARTS), max_size=9)


def columns(of: Segment):
    """A segment as plain lists; edges by the row that is waited for."""
    edges = of.edges[np.argsort(of.edges[:, 0], kind="stable")]
    rest = (of.ops, of.entries, of.ends, of.open)
    return edges.tolist(), [np.asarray(x).tolist() for x in rest], dict(of.queues)


@given(laid, laid)
def test_parts_laid_at_once_are_as_if_laid_one_by_one(before, after):
    at_once, one_by_one = SegmentBuilder(), SegmentBuilder()
    for some in (before, after):
        at_once.append_each(some)
        at_once.op(1)
        for each in some:
            one_by_one.append(each)
        one_by_one.op(1)
    assert at_once.count == one_by_one.count
    assert columns(at_once.segment()) == columns(one_by_one.segment())


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb-h1", "dualpipe"])
def test_turns_are_written_once_however_many_micro_batches_there_are(monkeypatch, schedule):
    asked = [0]
    number = OpTable.number

    def counted(table, row):
        asked[0] += 1
        return number(table, row)

    monkeypatch.setattr(OpTable, "number", counted)
    counts, start = [], ParallelPlan(batch=8, sequence=4, pipeline=2, schedule=schedule)
    for batch in (8, 32):
        asked[0] = 0
        step_graph.cache_clear()
        step_graph(TINY, replace(start, batch=batch))
        counts.append(asked[0])
    assert counts[0] == counts[1] > 0
