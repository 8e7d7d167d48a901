"""Recorded all-to-all of unequal parts."""

from glob import glob

import numpy as np
import pytest
from foretrace.sim.errors import TraceError
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.traces.formats import kineto
from foretrace.traces.transform.anonymise import anonymise
from foretrace.traces.transform.scale import Layout, scale

KERNEL = "ncclDevKernel_SendRecv"


def member(script, rank, sent, received, splits="[]", world=2, **said):
    """One rank that takes part in an all-to-all, as PyTorch 2.4 and later record it."""
    s = script(rank=rank, world=world)
    s.step(1, 0, 200)
    s.op("train", 0, 200)
    told = {"Collective name": "all_to_allv", "dtype": "Float", "In msg nelems": sent,
            "Out msg nelems": received, "In split size": splits, "Group size": world,
            "Process Group Name": "0", "Process Group Ranks": str([*range(world)])}  # fmt: skip
    s.launch(45, 50, 70, stream=20, name=KERNEL, **{**told, **said})
    return s


def read(tmp_path, *scripts):
    return kineto.read([s.write(tmp_path) for s in scripts])


def exchange(trace, **settings):
    """Signature and bytes of its one collective."""
    graph = trace.graph(**settings)
    (row,) = np.flatnonzero(graph.ops.kind == Kind.COLLECTIVE)
    return graph.ops.signature_text(row), graph.ops.bytes[row]


def test_each_ranks_splits_give_what_it_sends_to_the_others(script, tmp_path):
    """Splits count rows of a tensor: of eight elements here."""
    trace = read(tmp_path, member(script, 0, 32, 16, "[1, 3]"), member(script, 1, 8, 24, "[1, 0]"))
    found = exchange(trace)
    assert found == ("collective:all-to-all splits=1,3/1,0 fp32[20]", 80.0)
    assert exchange(anonymise(trace)) == found


def test_splits_may_be_a_list_and_no_text(script, tmp_path):
    trace = read(tmp_path, member(script, 0, 32, 16, [1, 3]), member(script, 1, 8, 24, [1, 0]))
    assert exchange(trace)[0] == "collective:all-to-all splits=1,3/1,0 fp32[20]"


def test_older_profilers_tell_them_as_arguments_of_the_operator(script, tmp_path):
    """As an execution trace does (``add_execution_traces``)."""

    def older(rank, sent, received, splits):
        s = script(rank=rank, world=2)
        s.step(1, 0, 200)
        s.op("train", 0, 200)
        told = {"Input Dims": [[received // 8, 8], [sent // 8, 8], [], [], [], []],
                "Input type": ["float", "float", "", "ScalarList", "ScalarList", "Scalar"],
                "Concrete Inputs": ["", "", "", "[]", splits, "-1"]}  # fmt: skip
        s.op("c10d::alltoall_base_", 40, 9, **told)
        s.launch(45, 50, 70, stream=20, name=KERNEL)
        return s

    found = exchange(read(tmp_path, older(0, 32, 16, "[1, 3]"), older(1, 8, 24, "[1, 0]")))
    assert found == ("collective:all-to-all splits=1,3/1,0 fp32[20]", 80.0)
    sums = exchange(read(tmp_path, older(0, 32, 16, ""), older(1, 8, 24, "")))
    assert sums[0] == "collective:all-to-all send=4,1 receive=2,3 fp32[20]"


def test_without_splits_the_total_sent_and_received_is_used(script, tmp_path):
    trace = read(tmp_path, member(script, 0, 30, 10), member(script, 1, 20, 40))
    assert exchange(trace) == ("collective:all-to-all send=3,2 receive=1,4 fp32[25]", 100.0)


def test_a_list_with_numbers_left_out_tells_the_sums_alone(script, tmp_path):
    """Profilers write the first and the last numbers of long lists."""
    trace = read(tmp_path, member(script, 0, 30, 10, "[20, ..., 10]"),
                 member(script, 1, 20, 40, "[5, ..., 15]"))  # fmt: skip
    assert exchange(trace)[0] == "collective:all-to-all send=3,2 receive=1,4 fp32[25]"


@pytest.mark.parametrize("splits", ["[]", "[8, 8]"])
def test_an_all_to_all_with_equal_parts_gives_none(script, tmp_path, splits):
    trace = read(tmp_path, member(script, 0, 16, 16, splits), member(script, 1, 16, 16, splits))
    assert exchange(trace) == ("collective:all-to-all fp32[16]", 64.0)


def test_a_rank_that_was_not_recorded_leaves_parts_equal(script, tmp_path):
    trace = read(tmp_path, member(script, 0, 32, 16, "[1, 3]"))
    for policy in ("recorded_waits", "like_recorded"):
        found = exchange(trace, missing_ranks=policy)
        assert found == ("collective:all-to-all fp32[32]", 128.0)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ((32, 16, "[1, 3, 2]"), (8, 24, "[1, 0]"),
         "rank0.json.gz: rank 0: an all-to-all of 2 ranks is split into 3 parts; record the same"),
        ((33, 16, "[1, 3]"), (8, 24, "[1, 0]"),
         "rank0.json.gz: rank 0: the splits of an all-to-all add up to 4, but 33 elements"),
        ((32, 16, "[-1, 3]"), (8, 24, "[1, 0]"), "add up to 2, but 32 elements are sent"),
        ((32, 16, "[1, 3]"), (8, 23, "[1, 0]"),
         "rank1.json.gz: rank 1: receives 23 elements of an all-to-all, but the ranks sent it 24; "
         "record"),
        ((32, 16), (8, 23), "in an all-to-all, 2 ranks sent 40 elements but received 39; record"),
        ((32, 16, "[1, x]"), (8, 24, "[1, 0]"),
         r"rank0.json.gz: splits of an all-to-all are '\[1, x\]', which is no list of numbers"),
    ],
)  # fmt: skip
def test_splits_that_do_not_fit_are_refused_with_their_rank(script, tmp_path, one, other, said):
    trace = read(tmp_path, member(script, 0, *one), member(script, 1, *other))
    with pytest.raises(TraceError, match=said):
        trace.graph()


def test_unequal_parts_of_replicas_cannot_be_resized():
    build = Builder("pair")
    members = [Member(r) for r in range(2)]
    uneven = "collective:all-to-all receive=3,1 fp32[1000000]"
    build.collective(members, bytes=4e6, signature=uneven, name="tokens")
    graph = build.graph()
    assert scale(graph, Layout(data=2), 2).ranks == 2
    said = r"pair: op 0 \(tokens\) exchanges unequal parts among 2 ranks \(receive\); the parts"
    with pytest.raises(TraceError, match=said):
        scale(graph, Layout(data=2), 8)


def test_gradients_of_uneven_tables_go_to_the_rank_that_holds_most_of_them(data):
    """Kineto has no splits there; the execution trace of the same run (``et/``) lists them:
    96, 224, 288, 1664, 592, 96, 192, 240 from each of eight ranks, as the sums say, too."""
    trace = kineto.read(sorted(glob(str(data / "dlrm-8xV100/kineto/rank*.json.gz"))))
    signatures = trace.graph().ops.signatures
    exchanges = [s for s in signatures if s.startswith("collective:all-to-all ")]
    assert "collective:all-to-all receive=6,14,18,104,37,6,12,15 int32[3392]" in exchanges
    assert sum("=" in s for s in exchanges) == 1  # the others are equal
