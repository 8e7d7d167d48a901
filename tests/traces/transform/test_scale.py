"""A recorded step on other numbers of data-parallel ranks."""

import numpy as np
import pytest
from foretrace.sim.errors import TraceError
from foretrace.sim.facts.graph import Builder, Graph, Member
from foretrace.sim.facts.ops import Kind
from foretrace.traces.transform.scale import Layout, scale


def two_by_two() -> Graph:
    """Tensor 2 x data 2: compute, a collective in each replica, one across, compute."""
    build = Builder("2x2")
    work = [build.op(Kind.COMPUTE, rank=r, duration=1.0 + r) for r in range(4)]
    within = [
        build.collective([Member(r, 1, (work[r],)) for r in g], bytes=10) for g in ((0, 1), (2, 3))
    ]
    across = [
        build.collective([Member(r, 2, (within[r // 2],)) for r in g], bytes=20)
        for g in ((0, 2), (1, 3))
    ]
    for r in range(4):
        build.op(Kind.COMPUTE, rank=r, duration=0.5, after=[across[r % 2]])
    return build.graph()


def groups(graph: Graph) -> list[list[int]]:
    block = graph.explicit
    rows = np.flatnonzero(block.ops.kind == Kind.COLLECTIVE)
    return sorted(block.members[int(i)].tolist() for i in rows)


@pytest.mark.parametrize("data", [1, 2, 3, 4, 9])
def test_groups_within_a_replica_are_copied_and_groups_across_grow(data):
    graph = scale(two_by_two(), Layout(tensor=2, data=2), data)
    within = [[2 * d, 2 * d + 1] for d in range(data)]
    across = [list(range(t, 2 * data, 2)) for t in range(2)]
    assert groups(graph) == sorted(within + across)
    assert graph.ranks == 2 * data
    assert int((graph.ops.kind == Kind.COMPUTE).sum()) == 2 * 2 * data


def test_as_many_replicas_as_recorded_change_nothing():
    before, after = two_by_two(), scale(two_by_two(), Layout(tensor=2, data=2), 2)
    assert groups(after) == groups(before)
    assert np.nansum(after.ops.duration) == np.nansum(before.ops.duration)
    assert len(after) == len(before)
    assert len(after.explicit.successors.values) == len(before.explicit.successors.values)


def test_new_ranks_do_what_the_recorded_ones_at_their_place_do():
    ops = scale(two_by_two(), Layout(tensor=2, data=2), 4).ops
    first = {int(r): float(d) for r, d in zip(ops.rank, ops.duration, strict=True) if d >= 1}
    assert first == {0: 1, 1: 2, 2: 3, 3: 4, 4: 1, 5: 2, 6: 3, 7: 4}


def test_a_layout_that_does_not_fit_is_refused():
    with pytest.raises(TraceError, match=r"4 ranks were recorded, but tensor 1 x data 2"):
        scale(two_by_two(), Layout(data=2), 4)


def test_a_collective_over_some_replicas_cannot_be_resized():
    build = Builder("some")
    work = [build.op(Kind.COMPUTE, rank=r, duration=1.0) for r in range(3)]
    build.collective([Member(r, 0, (work[r],)) for r in range(2)], bytes=1, name="odd")
    with pytest.raises(TraceError, match=r"op 3 \(odd\) joins 2 of 3 data-parallel replicas"):
        scale(build.graph(), Layout(data=3), 6)


def sharing(name):
    build = Builder("shards")
    work = [build.op(Kind.COMPUTE, rank=r, duration=1.0) for r in range(2)]
    members = [Member(r, 0, (work[r],)) for r in range(2)]
    build.collective(members, bytes=80, signature=f"collective:{name} fp32[20]")
    return build.graph()


@pytest.mark.parametrize("name", ["all-gather", "reduce-scatter", "all-to-all"])
def test_shares_of_other_numbers_of_replicas_were_not_recorded_and_are_refused(name):
    with pytest.raises(
        TraceError, match=rf"op 2 \({name}\) distributes shards over 2 .* with 8 replicas"
    ):
        scale(sharing(name), Layout(data=2), 8)
    assert groups(scale(sharing(name), Layout(data=2), 2)) == [[0, 1]]
    assert groups(scale(sharing("all-reduce"), Layout(data=2), 8)) == [list(range(8))]
