"""What `trace info` says."""

from dataclasses import replace
from glob import glob

import pytest
from by_day import every
from foretrace import read_trace
from foretrace.scenarios.workloads.trace_files import bundled_trace_folder
from foretrace.traces.formats import kineto
from foretrace.traces.infer.trace_info import memory_peak

SAID = {
    "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 8, "Out msg nelems": 8,
    "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
}  # fmt: skip
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def one(script, world=1, **said):
    s = script(world=world, deviceProperties=[{"name": "A GPU"}])
    s.step(3, 0, 1000)
    s.op("aten::mm", 0, 1000)
    s.launch(5, 10, 80, stream=20, name=NCCL, **said)
    s.step(4, 1000, 3000)
    s.op("aten::mm", 1000, 3000)
    return s


def test_a_trace_says_what_it_holds(script, tmp_path):
    info = one(script, **SAID | {"Process Group Ranks": "[0]"}).read(tmp_path).info()
    assert str(info).splitlines()[:8] == [
        "ranks      0 of 1",
        "device     A GPU",
        "events     6 in 0.004 s",
        "steps      3 to 4, median 2 ms",
        "host time  work 1, wait 0, poll 0, unknown 0 (fractions of its threads' time)",
        "network    1 collectives, backend nccl",
        "memory     peak unknown",
        "usable for replay yes; scale_to yes; memory no: no memory events with totals; record with "
        "profile_memory=True",
    ]
    note = "note       no shapes, so models can time few ops; record with record_shapes=True"
    assert str(info).splitlines()[-1] == note
    assert info.step_times == pytest.approx((1e-3, 3e-3))
    assert info.facts["gap_share"] == 0


def test_of_how_many_ranks_it_is_one_is_said_where_nobody_recorded_it(script, tmp_path):
    """It said "0 of an unknown number", which one reads as no ranks."""
    recorded = script(deviceProperties=[{"name": "A GPU"}])
    recorded.step(3, 0, 1000)
    recorded.launch(5, 10, 80)
    info = replace(recorded.read(tmp_path).info(), world=None)
    assert str(info).splitlines()[0] == "ranks      0; the number of ranks is not recorded"


def test_replay_with_missing_ranks_says_what_to_set(script, tmp_path):
    info = one(script, world=2, **SAID).read(tmp_path).info()
    assert str(info.find_use("replay")) == "replay yes: rank 1 was not recorded; set missing_ranks"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "scale_to no: no group sizes"),
        ({**SAID, "In msg nelems": 0, "Out msg nelems": 0}, "scale_to no: no message sizes"),
    ],
)
def test_scaling_needs_groups_and_sizes(script, tmp_path, said, why):
    assert str(one(script, **said).read(tmp_path).info().find_use("scale_to")) == why


def test_scaling_needs_collectives(script, tmp_path):
    s = script()
    s.op("aten::mm", 0, 10)
    assert str(s.read(tmp_path).info().find_use("scale_to")) == (
        "scale_to no: no collectives, so it is unknown what ranks exchange"
    )


def test_one_process_can_be_scaled_by_its_gradients():
    """It was said to exchange nothing, while ``docs/howto.md`` scales exactly this one (B5)."""
    info = read_trace(bundled_trace_folder("foretrace:gpt")).info()
    assert str(info.find_use("scale_to")) == "scale_to yes"


def test_a_trace_without_launches_can_only_be_serialised(script, tmp_path):
    s = script()
    s.add("kernel", "k", 0, 10, pid=0, tid=7, stream=7)
    info = s.read(tmp_path).info()
    assert str(info.find_use("replay")) == (
        "replay no: GPU work without launches; serialise: true keeps recorded order"
    )


def test_memory_peaks_are_by_device(script, tmp_path):
    s = script()
    s.op("a", 0, 10)
    for at, kind, device, total in ((1, 1, 0, 300), (2, 1, 0, 900), (3, 1, 1, 20), (4, 0, -1, 64)):
        e = s.add(
            "cpu_instant_event",
            "[memory]",
            at,
            0,
            **{"Bytes": 8, "Device Type": kind, "Device Id": device, "Total Allocated": total},
        )
        e["ph"] = "i"
    assert memory_peak(s.read(tmp_path)) == {"gpu0": 900, "gpu1": 20, "host": 64}


def test_unmarked_steps_are_said_to_be_one(script, tmp_path):
    s = script()
    s.op("a", 0, 10)
    assert "steps      not marked; the whole trace is one" in str(s.read(tmp_path).info())


def test_ranks_that_do_not_match_still_have_an_info(script, tmp_path):
    """TraceInfo reports what is wrong where a graph is refused."""
    a, b = one(script, **SAID), one(script, **SAID)
    b.rank = 1
    b.document["distributedInfo"]["rank"] = 1
    b.launch(500, 510, 80, stream=20, name=NCCL, **SAID)
    info = kineto.read([a.write(tmp_path), b.write(tmp_path)]).info()
    assert str(info.find_use("replay")) == (
        "replay no: rank0.json.gz: rank 0 has 1 collectives of group '0', others 2; record the "
        "same steps on every rank"
    )
    assert info.facts == {}


def test_the_median_of_several_ranks_says_whose_it_is(script, tmp_path):
    """Eight ranks of 12.5 to 19.9 ms were all said to take the first one's 14.46."""
    files = []
    for rank, lasts in ((0, 1000), (1, 3000)):
        s = script(rank=rank, world=2)
        s.step(3, 0, lasts)
        s.op("aten::mm", 0, lasts)
        files.append(s.write(tmp_path))
    text = str(kineto.read(files).info())
    assert "steps      3 to 3, median 1 ms on rank 0, 1 to 3 ms over 2\n" in text


def launched_on_two_streams(s):
    """Kernels whose launches are known, on two streams, with time that nothing explains."""
    s.step(1, 0, 100)
    for at in range(0, 50, 10):
        s.launch(at, at + 3, 5, stream=7)
    s.launch(55, 58, 90, stream=8)
    s.launch(60, 160, 40, stream=7)
    return s


def without_launches(s):
    s.step(1, 0, 100)
    for start, stream in ((0, 7), (20, 8), (50, 7)):
        s.add("kernel", "k", start, 10, pid=0, tid=stream, stream=stream, correlation=1 + start)
    return s


@pytest.mark.parametrize("recorded", [launched_on_two_streams, without_launches])
def test_the_gap_share_that_is_told_is_that_of_a_run(script, tmp_path, recorded):
    trace = recorded(script()).read(tmp_path)
    told = trace.info().facts["gap_share"]
    assert told > 0
    assert trace.graph(serialise=True).facts["gap_share"] == told


@pytest.mark.parametrize("files", every(2, ["dlrm-8xV100/kineto/rank*", "dlrm-V100x2-rank1/test"]))
def test_the_gap_share_that_is_told_is_that_of_a_run_of_recorded_ranks(data, files):
    trace = kineto.read(sorted(glob(str(data / f"{files}.json.gz"))))
    told = trace.info().facts["gap_share"]
    for order in (False, True):
        graph = trace.graph(missing_ranks="recorded_waits", serialise=order)
        assert graph.facts["gap_share"] == told > 0
