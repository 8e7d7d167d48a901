"""Chakra files give the same graph back; what is broken in them is named."""

import gzip
import json

import numpy as np
import pytest
from foretrace.sim.errors import TraceError
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.traces.formats.chakra import read, write
from foretrace.traces.formats.chakra.files import load_rank_file, save_rank_file
from foretrace.traces.formats.chakra.messages import (
    NodeType,
    attribute_values,
    make_attribute,
    message_classes,
)
from hypothesis import given
from hypothesis import strategies as st

AMOUNT = st.sampled_from([float("nan"), 0.0, 1.0, 0.1, 1e12, 3.7e9 + 0.5])
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "barrier")


@st.composite
def graphs(draw):
    """Up to 20 ops on up to 4 ranks; what one rank learns of another comes by message."""
    ranks = draw(st.integers(1, 4))
    build, on, heard = Builder("any"), {r: [] for r in range(ranks)}, set()

    def some(rank):
        return draw(st.lists(st.sampled_from(on[rank]), max_size=3)) if on[rank] else []

    on[0].append(build.op(Kind.COMPUTE))
    step = 0  # nothing waits for what a later one does
    for _ in range(draw(st.integers(0, 20))):
        rank, stream = draw(st.integers(0, ranks - 1)), draw(st.integers(0, 3))
        what = draw(st.sampled_from([*Kind]))
        step = draw(st.integers(step, 2))
        common = {
            "name": draw(st.sampled_from(["", "mm", "a b/c"])),
            "duration": draw(st.sampled_from([float("nan"), 0.0, 1e-7, 1.5e-6, 0.1])),
            "bytes": draw(AMOUNT),
            "period": step,
            "release": draw(st.sampled_from([0.0, 0.25])),
        }
        if what == Kind.COLLECTIVE:
            group = draw(st.lists(st.integers(0, ranks - 1), min_size=1, unique=True))
            name = draw(st.sampled_from(COLLECTIVES))
            members = [Member(r, stream, tuple(some(r))) for r in group]
            row = build.collective(members, signature=f"collective:{name} fp32[8]", **common)
            for r in group:
                on[r].append(row)
            continue
        peer = -1
        if what in (Kind.SEND, Kind.RECV):
            if ranks == 1:
                continue
            peer = draw(st.sampled_from([r for r in range(ranks) if r != rank]))
        after, common["flop"] = some(rank), draw(AMOUNT)
        if what == Kind.RECV:
            to = {"rank": peer, "peer": rank, "period": step}
            sent = build.op(Kind.SEND, after=some(peer), bytes=draw(AMOUNT), **to)
            on[peer].append(sent)
            after = [*(op for op in after if op not in heard), sent]
        row = build.op(what, rank=rank, stream=stream, after=after, peer=peer, **common)
        on[rank].append(row)
        if what == Kind.SEND and draw(st.booleans()):
            on[peer].append(row)  # heard without a receive
            heard.add(row)
    build.set_stream_kind(0, 1, "network")
    return build.graph(gap_share=0.25)


def assert_same(a, b):
    x, y = a.explicit, b.explicit
    for column in ("kind", "rank", "stream", "period", "flop", "bytes", "duration"):
        np.testing.assert_array_equal(getattr(x.ops, column), getattr(y.ops, column), column)
    for name in ("release", "peer"):
        np.testing.assert_array_equal(getattr(x, name), getattr(y, name), name)
    for name in ("op", "rank", "stream"):
        np.testing.assert_array_equal(getattr(x.places, name), getattr(y.places, name), name)
    np.testing.assert_array_equal(x.successors.indptr, y.successors.indptr)
    assert [sorted(r) for r in x.successors] == [sorted(r) for r in y.successors]
    rows = range(len(a))
    assert [a.label(i) for i in rows] == [b.label(i) for i in rows]
    assert [a.ops.signature_text(i) for i in rows] == [b.ops.signature_text(i) for i in rows]
    assert (a.name, a.streams, a.facts) == (b.name, b.streams, b.facts)


@given(graph=graphs(), form=st.sampled_from(["et", "json"]))
def test_write_then_read_is_the_same_graph(graph, form, tmp_path_factory):
    folder = tmp_path_factory.mktemp("chakra")
    write(graph, folder, form=form)
    assert_same(graph, read(f"{folder}/trace.*.{form}"))


def test_gzipped_files_are_read(tmp_path):
    build = Builder("one")
    build.op(Kind.COMPUTE, duration=1e-3)
    (path, _) = write(build.graph(), tmp_path)
    (tmp_path / "z.0.et.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert_same(build.graph(), read(tmp_path / "z"))


def test_rounded_durations_of_a_stream_keep_their_sum(tmp_path):
    build = Builder("many")
    for _ in range(1000):
        build.op(Kind.COMPUTE, duration=0.3e-6)
    (path, _) = write(build.graph(), tmp_path)
    assert sum(node.duration_micros for node in load_rank_file(path)[1]) == 300


def test_unequal_parts_of_an_all_to_all_come_back(tmp_path):
    """Chakra has no field for them: they are in an attribute of ours."""
    build = Builder("uneven")
    members = [Member(0), Member(1)]
    text = "collective:all-to-all splits=0,2/1,0 fp32[8]"
    build.collective(members, bytes=32.0, signature=text, duration=1e-6)
    write(build.graph(), tmp_path)
    assert read(f"{tmp_path}/trace.*.et").ops.signature_text(0) == text


def test_collectives_are_written_as_astra_sim_counts_them(tmp_path):
    build = Builder("pair")
    members = [Member(0), Member(1)]
    build.collective(members, bytes=8e6, signature="collective:all-gather fp32[2000000]")
    build.collective(members, bytes=8e6, signature="collective:all-reduce fp32[2000000]")
    *paths, groups = write(build.graph(), tmp_path)
    sizes = [attribute_values(node)["comm_size"] for node in load_rank_file(paths[1])[1]]
    assert sizes == [4_000_000, 8_000_000]
    assert json.loads(groups.read_text()) == {"1": [0, 1]}


def node(number, kind, *, waits=(), micros=0, name="", **said):
    made = message_classes().Node(
        id=number, name=name, type=kind, data_deps=waits, duration_micros=micros
    )
    made.attr.extend(make_attribute(k, v) for k, v in said.items())
    return made


@pytest.fixture
def foreign(tmp_path):
    """Write one file a rank, as another program would; the prefix to read."""

    def put(*ranks, version="0.0.4"):
        for rank, nodes in enumerate(ranks):
            save_rank_file(
                tmp_path / f"x.{rank}.et", message_classes().GlobalMetadata(version=version), nodes
            )
        return tmp_path / "x"

    return put


def test_a_chakra_trace_of_another_program_is_read(foreign):
    collective = {"comm_type": 2, "comm_size": 1000, "is_cpu_op": False}
    graph = read(
        foreign(
            [
                node(7, NodeType.COMP, micros=5, name="mm", num_ops=10, tensor_size=4),
                node(8, NodeType.COMM_COLL, waits=[7], **collective),
                node(9, NodeType.COMM_SEND, waits=[8], comm_dst=1, comm_tag=3, comm_size=64),
            ],
            [
                node(1, NodeType.COMP, micros=2, is_cpu_op=True),
                node(2, NodeType.COMM_COLL, **collective),
                node(3, NodeType.COMM_RECV, waits=[1], comm_src=0, comm_tag=3, comm_size=64),
                node(4, NodeType.MEM_LOAD, waits=[3], tensor_size=128),
            ],
        )
    )
    ops = graph.ops
    assert ops.kind_names == ["compute", "collective", "send", "host", "recv", "copy"]
    assert ops.bytes.tolist()[:3] == [4.0, 2000.0, 64.0]
    assert graph.explicit.members[1].tolist() == [0, 1]
    assert ops.signature_text(1) == "collective:all-gather uint8[2000]"
    np.testing.assert_array_equal(ops.duration[:2], [5e-6, np.nan])
    receives = [int(i) for i in np.flatnonzero(graph.explicit.successors.values == 4)]
    assert graph.explicit.successors.owner[receives].tolist() == [2, 3]
    assert (graph.streams[1, 1], graph.streams[0, 3]) == ("host", "network")


def test_ranks_that_send_unequal_parts_of_an_all_to_all_keep_them(foreign):
    collective = {"comm_type": 6, "is_cpu_op": False}
    ranks = ([node(1, NodeType.COMM_COLL, comm_size=size, **collective)] for size in (300, 100))
    ops = read(foreign(*ranks)).ops
    assert ops.signature_text(0) == "collective:all-to-all send=300,100 uint8[200]"
    assert ops.bytes.tolist() == [200.0]


def test_an_edge_between_ranks_that_is_no_message_is_refused(tmp_path):
    build = Builder("impossible")
    first = build.op(Kind.COMPUTE, rank=0)
    build.op(Kind.COMPUTE, rank=1, after=[first])
    with pytest.raises(TraceError, match="op 1 of rank 1 waits for op 0 of rank 0 without a mess"):
        write(build.graph(), tmp_path)


def test_a_collective_without_a_name_is_refused(tmp_path):
    build = Builder("nameless")
    build.collective([Member(0), Member(1)], bytes=8)
    said = "op 0 is a collective 'unknown', which Chakra does not have; write one of all-reduce"
    with pytest.raises(TraceError, match=said):
        write(build.graph(), tmp_path)
