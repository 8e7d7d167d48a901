"""Expansion in arrays against the same written plainly: op by op, round by round."""

from dataclasses import replace
from graphlib import TopologicalSorter

import numpy as np
import pytest
from foretrace.models.network.collective.algorithms import ALGORITHMS
from foretrace.models.network.collective.expand import expand
from foretrace.models.network.collective.steps import FROM_SWITCH, SEGMENTS, SWITCH, TO_SWITCH
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.op_time_overrides import OpTimeOverrides
from foretrace.sim.facts.ops import DTYPES, Kind
from foretrace.sim.facts.signature import parse_signature
from hypothesis import given, settings
from hypothesis import strategies as st

EVERY = [a for named in ALGORITHMS.values() for a in named.values()]


# --- plainly ----------------------------------------------------------------------------------


def rounds(algorithm, *shape):
    """(from, to, share of S) of every message, round by round."""
    steps = [step for step in algorithm.steps(*shape) for _ in range(step.times)]
    segments = SEGMENTS if algorithm.pipelined else 1
    for now in range(len(steps) + segments - 1):
        sends = []
        for step in steps[max(now - segments + 1, 0) : now + 1]:
            share = np.broadcast_to(step.parts / step.of / segments, len(step.source))
            sends += zip(step.source.tolist(), step.target.tolist(), share.tolist(), strict=True)
        yield sends


def choose(graph, op, ranks, names, nodes):
    """The collective, its rounds, and its members in the order of the algorithm."""
    collective, n = parse_signature(graph.ops.signature_text(op)).name, len(ranks)
    if n == 1:
        return collective, [], [0]
    there = [nodes[r] for r in ranks] if nodes else []
    order = sorted(range(len(there)), key=lambda m: there.index(there[m]))
    widths = {there.count(node) for node in there}
    nests = len(set(there)) > 1 and len(widths) == 1
    for name in names:
        one = ALGORITHMS[collective].get(name)
        if one and one.usable(n) and (nests or not one.nested):
            shape = (n, *widths) if one.nested else (n,)
            return collective, rounds(one, *shape), order if one.nested else range(n)
    raise AssertionError(f"none of {names} does {collective} of {n}")


def ends_of(a, b, ranks):
    if b == SWITCH:
        return ranks[a], ranks[(a + 1) % len(ranks)], TO_SWITCH
    if a == SWITCH:
        return ranks[(b + 1) % len(ranks)], ranks[b], FROM_SWITCH
    return ranks[a], ranks[b], ""


def plainly(graph, algorithms, nodes=()):
    """What ``expand`` means: an op after the other."""
    block, build, new, waits = graph.explicit, Builder(graph.name), {}, {}
    stream = 1 + max(block.stream.tolist())
    for op in range(len(block)):
        for place in block.successors[op].tolist():
            waits.setdefault(place, []).append(op)
    sorter = TopologicalSorter()
    for place, op in enumerate(block.op_of_place.tolist()):
        sorter.add(op, *waits.get(place, ()))

    def before(place):
        return [new[op] for op in waits.get(place, ())]

    for op in sorter.static_order():
        release, period = float(block.release[op]), int(block.ops.period[op])
        if block.ops.kind[op] != Kind.COLLECTIVE:
            columns = {c: getattr(block.ops, c)[op].item() for c in DTYPES}
            del columns["label"], columns["signature"]
            new[op] = build.op(
                Kind(columns.pop("kind")), **columns, after=before(op), release=release,
                label=graph.label(op) if block.ops.label[op] >= 0 else None,
                signature=block.ops.signature_text(op), peer=int(block.peer[op]),
            )  # fmt: skip
            continue
        places = [op, *(len(block) + np.flatnonzero(block.places.op == op)).tolist()]
        ranks = block.rank[places].tolist()
        collective, sent, order = choose(graph, op, ranks, algorithms.split(", "), nodes)
        places, ranks = [places[m] for m in order], [ranks[m] for m in order]
        own = [before(p) for p in places]
        got = [*own, [row for rows in own for row in rows]]  # the last one is the switch
        same = {"stream": stream, "label": graph.label(op), "period": period}
        for now, sends in enumerate(sent):
            came = [[] for _ in got]
            for a, b, share in sends:
                sender, receiver, side = ends_of(a, b, ranks)
                row = build.op(
                    Kind.SEND, rank=sender, peer=receiver,
                    after=got[a] if now else [*got[a], *got[b]],
                    bytes=float(block.ops.bytes[op]) * share if share else 0.0,
                    signature=f"send:{collective}{side}",
                    release=0.0 if now else release, **same,
                )  # fmt: skip
                came[a].append(row)
                came[b].append(row)
            got = [some or old for some, old in zip(came, got, strict=True)]
        end = {row for rows in got for row in rows}
        new[op] = build.op(
            Kind.DELAY, rank=ranks[0], after=end, duration=0.0, release=release, **same
        )
    for (rank, number), kind in graph.streams.items():
        build.set_stream_kind(rank, number, kind)
    for rank in range(graph.ranks):
        build.set_stream_kind(rank, stream, "network")
    return build.graph(**graph.facts), new


def columns_of(graph):
    """All that a graph says, by name."""
    block, ops = graph.explicit, graph.ops
    told = {c: getattr(ops, c) for c in DTYPES if c not in ("label", "signature")}
    told |= {"release": block.release, "peer": block.peer}
    told = {name: column.tolist() for name, column in told.items()}
    told |= {"indptr": block.successors.indptr.tolist(), "after": block.successors.values.tolist()}
    named = [graph.label(row) if ops.label[row] >= 0 else None for row in range(len(graph))]
    signed = [ops.signature_text(row) for row in range(len(graph))]
    told |= {"label": named, "signature": signed, "signatures": sorted(ops.signatures)}
    told |= {"types": [getattr(ops, c).dtype.type for c in DTYPES], "places": len(block.places)}
    return told | {"streams": dict(graph.streams), "facts": dict(graph.facts), "name": graph.name}


def assert_same(graph, algorithms, nodes=()):
    sends, (plain, _) = expand(graph, algorithms, nodes), plainly(graph, algorithms, nodes)
    found, wanted = columns_of(sends), columns_of(plain)
    for name, column in wanted.items():
        np.testing.assert_equal(found[name], column, name)


# --- the same ---------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", EVERY, ids=lambda a: f"{a.collective}-{a.name}")
def test_a_collective_is_written_out_as_plainly(algorithm):
    """Members in an odd order, each with what it waits for; and an op that waits for the end."""
    for n in (2, 3, 4, 6):
        nodes = [f"node{r % (3 if n == 3 else 2)}" for r in range(n)]
        if not algorithm.usable(n) or (algorithm.nested and n == 2):
            continue
        build = Builder("one")
        before = [build.op(Kind.COMPUTE, rank=r, duration=1e-3) for r in range(n)]
        members = [Member(r, 9, (before[r],)) for r in reversed(range(n))]
        said = f"collective:{algorithm.collective}"
        both = build.collective(members, bytes=1e6, signature=said, release=1.0, period=2)
        build.op(Kind.COMPUTE, rank=n - 1, duration=1e-3, after=[both])
        assert_same(build.graph(), algorithm.name, nodes)


@st.composite
def graphs(draw):
    """Ops and collectives of several ranks that wait for some before them, written in any order."""
    ranks, build, made = draw(st.integers(2, 6)), Builder("some"), draw(st.integers(1, 7))
    free = draw(st.permutations(range(made)))  # rows are not in topological order

    def waits(k):
        return tuple(j for j in range(made) if free[j] < free[k] and draw(st.booleans()))

    build.set_stream_kind(0, 0, "compute")
    for k in range(made):
        facts = {
            "name": draw(st.sampled_from(["", "collective", "a name"])),
            "period": draw(st.integers(-1, 2)),
            "release": draw(st.sampled_from([0.0, 0.5])),
            "bytes": draw(st.sampled_from([np.nan, 0.0, 1e6])),
        }
        if draw(st.booleans()):
            rank = draw(st.integers(0, ranks - 1))
            build.op(
                Kind.COMPUTE, rank=rank, after=waits(k), flop=1.0, **facts,
                signature=draw(st.sampled_from(["", "compute:aten::mm"])),
            )  # fmt: skip
            continue
        group = draw(st.permutations(range(ranks)))[: draw(st.integers(1, ranks))]
        members = [Member(r, draw(st.integers(0, 2)), waits(k)) for r in group]
        collective = draw(st.sampled_from(["all-reduce", "all-to-all", "broadcast", "reduce"]))
        build.collective(members, signature=f"collective:{collective}", **facts)
    return build.graph(why="made up")


@pytest.mark.nightly
@given(
    graphs(),
    st.sampled_from([
        "ring, pairwise, chain",
        "hierarchical, two-shot, grouped, binomial",
        "chain-tree, tree, pairwise",
        "in-switch, halving-doubling, ring, hierarchical, pairwise, binomial",
    ]),
    st.lists(st.sampled_from("ab"), min_size=6, max_size=6),
)  # fmt: skip
@settings(max_examples=40)
def test_graphs_are_written_out_as_plainly(graph, algorithms, nodes):
    assert_same(graph, algorithms, nodes)


def test_times_that_are_said_stay_with_their_ops():
    build = Builder("said")
    ring = build.collective([Member(0), Member(1)], bytes=1.0, signature="collective:all-gather")
    slow = build.op(Kind.COMPUTE, duration=1.0, after=[ring])
    quick = build.op(Kind.COMPUTE, duration=1.0)
    graph = build.graph()
    times = (
        OpTimeOverrides.none(len(graph))
        .with_time(np.array([quick]), 0.25)
        .with_factor(np.array([slow]), 3.0)
    )
    _, new = plainly(graph, "ring")
    found = expand(replace(graph, times=times), "ring").times
    assert found.factor[new[slow]] == 3.0
    assert found.time[new[quick]] == 0.25
    assert np.count_nonzero(found.factor != 1) == 1 == np.count_nonzero(found.is_given)
