"""Devices in place of components: who shares, who queues, and the run again from its journal."""

import numpy as np
import pytest
from devices import Noisy, Queue, Wire
from foretrace.hil.coupling.coupled import couple
from foretrace.hil.coupling.coverage import Subtraction, sample_coverage
from foretrace.hil.coupling.device_adapter import Swap, fit_latency_bandwidth
from foretrace.hil.coupling.journal import JournalReader, JournalWriter, read_journal, write_journal
from foretrace.hil.coupling.live_driver import LiveDriver
from foretrace.models.memory.copy import Copy
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.topology import FabricSpec as Joined
from foretrace.models.network.topology.topology import GpuSpec, NodeSpec, cluster
from foretrace.sim.errors import DriverFault, RecordingError, ScenarioError
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.run.simulation import Simulation

MB, SHARING = 1e6, ("exclusive", "solo", "concurrent")
PAIR = ("node1.nic0", "leaf0")


def machine(nodes=3, nic_link=None):
    nic = Nic(bandwidth=10e9, latency=1e-6)
    switch = Switch(bandwidth=10e9, latency=1e-6, ports=8)
    return cluster(nodes, NodeSpec(nics=1, nic=nic, nic_link=nic_link), Joined(switch))


def transfers(sizes, to=1):
    build = Builder("transfers")
    for size in sizes:
        build.op(Kind.SEND, rank=0, peer=to, bytes=size)
    return build.graph()


def coupled(driver, graph, engine="core", system=None, asked=None, **told):
    system = system or machine()
    told = {"covers": sample_coverage(system, "node0.nic0", PAIR), **told}
    swap = Swap(
        "node0.nic0", asked or LiveDriver(driver, "a wire"), driver.sharing,
        answers=driver.answers, **told,
    )  # fmt: skip
    made = couple(system, {"fabric": Fabric()}, [swap])
    simulation = Simulation(made.system, made.backends, engine=engine)
    return simulation.run(graph, *made.processes), made


@pytest.mark.parametrize("engine", ["core", "reference"])
@pytest.mark.parametrize("sharing", SHARING)
def test_two_equal_transfers_through_one_port_take_twice_as_long(sharing, engine):
    alone, _ = coupled(Wire(sharing), transfers([MB]), engine)
    both, _ = coupled(Wire(sharing), transfers([MB, MB]), engine)
    assert alone.makespan == pytest.approx(1e-3, rel=1e-6)
    assert both.makespan == pytest.approx(2e-3, rel=1e-6)
    spent = both.columns.end - both.columns.ready
    wanted = [1e9, 2e9] if sharing == "exclusive" else [2e9, 2e9]  # one waits, or both share
    assert sorted(spent.tolist()) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_ops_of_a_set_end_when_the_device_said_though_some_leave_before_others(engine):
    """A port that serves in order: the second waits for the first, and is not half done by then."""
    result, _ = coupled(Queue("concurrent"), transfers([MB, MB, 2 * MB]), engine)
    ends = (result.columns.end * 1e-12).tolist()
    assert ends == pytest.approx([1e-3, 2e-3, 4e-3], rel=1e-6)


def in_a_row(sizes):
    build = Builder("one after the other")
    last = ()
    for size in sizes:
        last = (build.op(Kind.SEND, rank=0, peer=1, bytes=size, after=last),)
    return build.graph()


@pytest.mark.parametrize("sharing", SHARING)
def test_equal_ops_are_asked_one_by_one_and_a_set_is_measured_once(sharing):
    driver = Wire(sharing)
    coupled(driver, in_a_row([MB] * 5))
    asked = [signature for signature, _ in driver.asked if signature == "send:send uint8[1000000]"]
    assert len(asked) == (1 if sharing == "concurrent" else 5)


def test_a_transfer_that_joins_late_slows_the_first_from_then_on():
    build = Builder("late")
    build.op(Kind.SEND, rank=0, peer=1, bytes=2 * MB)
    build.op(Kind.SEND, rank=0, peer=1, bytes=2 * MB, release=1e-3)
    result, _ = coupled(Wire("concurrent"), build.graph())
    assert (result.columns.end * 1e-12).tolist() == pytest.approx([3e-3, 4e-3], rel=1e-6)


def test_beyond_what_a_concurrent_device_takes_ops_queue():
    result, _ = coupled(Wire("concurrent"), transfers([MB] * 4), max_in_flight=2)
    ends = sorted((result.columns.end * 1e-12).tolist())
    assert ends == pytest.approx([2e-3, 2e-3, 4e-3, 4e-3], rel=1e-6)


@pytest.mark.parametrize("sharing", ["solo", "concurrent"])
def test_where_another_shared_component_binds_the_lower_rate_wins(sharing):
    bus = Link(bandwidth=0.25e9, latency=0.0)  # between GPU and NIC, not in the sample
    result, _ = coupled(Wire(sharing), transfers([MB]), system=machine(nic_link=bus))
    assert result.makespan == pytest.approx(4e-3, rel=1e-6)


def test_a_solo_device_splits_what_does_not_grow_with_size():
    result, made = coupled(Wire("solo", latency_ns=50_000.0), transfers([MB, MB]))
    assert result.makespan == pytest.approx(50e-6 + 2e-3, rel=1e-3)
    assert "contention modelled" in made.backends["fabric"].source
    assert fit_latency_bandwidth(
        [64, 4096, 65536], [1e-6 + s / 1e9 for s in (64, 4096, 65536)]
    ) == pytest.approx((1e-6, 1e9))


def test_what_the_device_does_not_cover_stays_modelled():
    build = Builder("elsewhere")
    build.op(Kind.SEND, rank=2, peer=1, bytes=MB)
    system = machine()
    driver = Wire("exclusive")
    told = {"covers": sample_coverage(system, "node0.nic0", ())}
    result, made = coupled(driver, build.graph(), system=system, **told)
    assert driver.asked == []
    assert made.adapters[0].answered == 0
    assert result.makespan < 0.2e-3  # the model's NIC has 10 GB/s


def test_a_partly_covered_route_is_refused_unless_the_rest_is_subtracted():
    system = machine()
    with pytest.raises(ScenarioError, match=r"contains node1\.nic0, which an op across .*node2"):
        coupled(Wire(), transfers([MB], to=2), system=system)
    off = {"node1.nic0": Subtraction(1e-4, 1e-5)}
    told = {"covers": sample_coverage(system, "node0.nic0", PAIR, off)}
    result, _ = coupled(Wire(), transfers([MB], to=2), system=system, **told)
    nic = 1e-6  # of node2, which stays modelled
    assert result.makespan == pytest.approx(1e-3 - 1e-4 + nic, rel=1e-6)


def test_two_devices_that_would_count_the_same_thing_are_refused():
    system = machine(2)
    swaps = [
        Swap(n, LiveDriver(Wire(), "a wire"), "exclusive", sample_coverage(system, n, more))
        for n, more in (("node0.nic0", ("node1.nic0",)), ("node1.nic0", ()))
    ]
    made = couple(system, {"fabric": Fabric()}, swaps)
    with pytest.raises(ScenarioError, match="counted twice"):
        Simulation(made.system, made.backends).run(transfers([MB]), *made.processes)


def test_an_op_that_the_device_cannot_do_is_refused_or_left_to_the_model_when_said():
    build = Builder("read")
    build.op(Kind.SEND, rank=0, peer=1, bytes=MB, signature="send:read uint8[1000000]")
    with pytest.raises(DriverFault, match="cannot execute 'send:read"):
        coupled(Wire(), build.graph())
    result, made = coupled(Wire(), build.graph(), others="model")
    assert (made.adapters[0].others, made.adapters[0].answered) == (1, 0)
    assert result.makespan < 0.2e-3


@pytest.mark.parametrize("sharing", SHARING)
def test_a_run_from_its_journal_gives_the_same_bytes_on_both_engines(sharing, tmp_path):
    system = machine(2)
    sizes = [MB, 2 * MB, MB, 3 * MB, MB]
    told = {"covers": sample_coverage(system, "node0.nic0", PAIR), "max_in_flight": 2}
    live = JournalWriter("node0.nic0", LiveDriver(Noisy(sharing), "a wire"))
    first, _ = coupled(Noisy(sharing), transfers(sizes), system=system, asked=live, **told)
    write_journal(tmp_path / "journal.jsonl", live.entries)
    kept = read_journal(tmp_path / "journal.jsonl")
    assert kept == live.entries
    for engine in ("core", "reference"):
        reader = JournalReader("node0.nic0", kept, "journal")
        again = JournalWriter("node0.nic0", reader)
        result, _ = coupled(
            Wire(sharing), transfers(sizes), engine, system=system, asked=again, **told
        )
        for name in ("ready", "start", "end"):
            assert getattr(result.columns, name).tobytes() == getattr(first.columns, name).tobytes()
        write_journal(tmp_path / engine, again.entries)
        assert (tmp_path / engine).read_bytes() == (tmp_path / "journal.jsonl").read_bytes()


def test_a_journal_of_another_run_is_refused(tmp_path):
    live = JournalWriter("node0.nic0", LiveDriver(Wire(), "a wire"))
    coupled(Wire(), transfers([MB]), asked=live)
    with pytest.raises(RecordingError, match="differs from the one that was journalled"):
        coupled(
            Wire(), transfers([2 * MB]), asked=JournalReader("node0.nic0", live.entries, "journal")
        )
    with pytest.raises(RecordingError, match="this run makes one more"):
        coupled(
            Wire(), transfers([MB] * 2), asked=JournalReader("node0.nic0", live.entries, "journal")
        )
    (tmp_path / "cut").write_text('{"foretrace": "journal", "schema": 1}\n{"component"')
    with pytest.raises(RecordingError, match="is no journal"):
        read_journal(tmp_path / "cut")


def test_a_journal_that_was_edited_is_refused_and_one_without_a_checksum_is_read(tmp_path):
    live = JournalWriter("node0.nic0", LiveDriver(Wire(), "a wire"))
    coupled(Wire(), transfers([MB]), asked=live)
    path = tmp_path / "journal.jsonl"
    write_journal(path, live.entries)
    first, _, body = path.read_text().partition("\n")
    path.write_text(first + "\n" + body.replace("1000000.0", "1000.0"))
    with pytest.raises(RecordingError, match="its checksum does not fit its lines"):
        read_journal(path)
    path.write_text('{"foretrace": "journal", "schema": 1}\n' + body)
    assert read_journal(path) == live.entries


def test_a_memory_in_place_of_a_modelled_one_leaves_the_rest_of_the_way():
    from foretrace.models.memory.memory import Memory

    bus = Link(bandwidth=0.5e9, latency=1e-6)
    slow = Memory(bandwidth=64e9, latency=1e-6)
    node = NodeSpec(host_link=bus, cxl=slow)
    system = cluster(1, node)
    build = Builder("from CXL memory")
    build.op(Kind.COPY, bytes=MB, signature="copy:c2d uint8[1000000]")
    swap = Swap(
        "node0.cxl",
        LiveDriver(Wire("solo"), "a memory"),
        "solo",
        sample_coverage(system, "node0.cxl"),
    )
    made = couple(system, {"*": Copy()}, [swap])
    result = Simulation(made.system, made.backends).run(build.graph(), *made.processes)
    assert made.adapters[0].answered == 1
    assert result.makespan == pytest.approx(1e-6 + 2e-3, rel=1e-3)  # 0.5 GB/s, not the device's 1


def test_ops_of_a_gpu_queue_for_an_exclusive_device():
    system = cluster(1, NodeSpec(gpu=GpuSpec(streams=4)))
    build = Builder("kernels")
    for _ in range(3):
        build.op(Kind.COMPUTE, bytes=MB, signature="copy:h2h uint8[1000000]")
    swap = Swap(
        "node0.gpu0",
        LiveDriver(Wire(), "a device"),
        "exclusive",
        sample_coverage(system, "node0.gpu0"),
    )
    made = couple(system, {"node*.gpu*": Copy()}, [swap])
    result = Simulation(made.system, made.backends).run(build.graph(), *made.processes)
    assert np.sort(result.columns.end).tolist() == [10**9, 2 * 10**9, 3 * 10**9]
