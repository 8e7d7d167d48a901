"""The lab, booted: real drivers answer, in the right order and within wide bounds.

Numbers are judged on the committed recordings; here the machines have to work. What is not
built is skipped with its name, and ``make lab-test`` builds it first.
"""

import numpy as np
import pytest
from foretrace.hil.coupling.coupled import couple
from foretrace.hil.coupling.coverage import sample_coverage
from foretrace.hil.coupling.device_adapter import Swap
from foretrace.hil.coupling.journal import JournalReader, JournalWriter
from foretrace.hil.coupling.live_driver import LiveDriver
from foretrace.hil.driver import Ready
from foretrace.hil.lab import build_cache, qemu
from foretrace.hil.lab.booted_agent import boot_driver
from foretrace.hil.lab.campaign_recording import bundled_recording, op_medians
from foretrace.hil.sample import Request
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.topology import FabricSpec as Joined
from foretrace.models.network.topology.topology import NodeSpec, cluster
from foretrace.sim.errors import DriverFault
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.run.simulation import Simulation

pytestmark = pytest.mark.hardware("lab")
UML = (build_cache.UML_KERNEL, build_cache.ROOT)
QEMU = (qemu.PROGRAM, build_cache.GUEST_KERNEL, build_cache.GUEST_INITRD, build_cache.GUEST_DISK)


def machine(name, driver, **settings):
    """A machine of the lab, or a skip that says what is not built."""
    lacking = [
        part
        for part in (UML if name == "uml" else QEMU)
        if not (build_cache.lab_folder() / part).exists()
    ]
    if lacking:
        pytest.skip(f"THE LAB IS NOT BUILT: {name} lacks {', '.join(lacking)}; foretrace lab up")
    return boot_driver(name, driver, settings)


def median(driver, signature, n=3):
    (sample,) = driver.timing([Request(signature, n)])
    return sample.median


@pytest.fixture(scope="module")
def booted_once():
    driver = machine("uml", "switch", ends="5")
    yield driver
    driver.close()


@pytest.fixture
def virtual(booted_once):
    """The machine with nothing open, however the test before ended."""
    yield booted_once
    booted_once._send_request("close")


def test_writes_cross_the_real_bridge_and_its_counters_say_so(virtual):
    virtual.open({"ends": "verbs", "rate": "1gbit", "delay_us": 1.0})
    (sample,) = virtual.timing([Request("send:rdma-write uint8[65536]", 3)])
    assert sample.clock == "timetravel"
    assert sample.facts["port2.bytes"] > 5 * 65536
    assert 500e3 < sample.median < 700e3
    kept_median = op_medians(bundled_recording("timetravel-1gbit"))[sample.key]
    assert sample.median == pytest.approx(kept_median, rel=0.1)


def test_two_writes_into_one_port_take_twice_as_long(virtual):
    virtual.open({"ends": "verbs", "rate": "10gbit", "senders": "rxe1,rxe3"})
    alone = median(virtual, "send:rdma-write flows=1 uint8[1048576]")
    both = median(virtual, "send:rdma-write flows=2 uint8[1048576]")
    assert both == pytest.approx(2 * alone, rel=0.05)


def test_a_slower_port_and_a_longer_message_take_longer(virtual):
    found = {}
    for rate in ("10gbit", "1gbit"):
        virtual.open({"ends": "verbs", "rate": rate})
        for size in (4096, 262144):
            found[rate, size] = median(virtual, f"send:rdma-write uint8[{size}]")
        virtual._send_request("close")
    assert found["10gbit", 4096] < found["1gbit", 4096] < found["1gbit", 262144]
    assert found["10gbit", 262144] < found["1gbit", 262144]


FAIR = {"ends": "verbs", "rate": "10gbit", "senders": "rxe1,rxe3", "queue": "fair"}
WRITE = "send:rdma-write uint8[1048576]"


def test_a_port_that_serves_flows_in_turn_makes_both_writes_take_twice_as_long(virtual):
    virtual.open(FAIR)
    alone = median(virtual, WRITE)
    both = virtual.together([Request(WRITE, 3)] * 2)
    assert [s.median / alone for s in both] == pytest.approx([2, 2], rel=0.03)


def test_a_port_that_serves_in_order_lets_one_write_end_a_window_earlier(virtual):
    """Soft-RoCE hands the port up to 64 packets of 4 KiB at once; the last ones are of one."""
    virtual.open({**FAIR, "queue": "netem"})
    alone = median(virtual, WRITE)
    first, last = sorted(s.median for s in virtual.together([Request(WRITE, 3)] * 2))
    assert last == pytest.approx(2 * alone, rel=0.01)
    assert last - first == pytest.approx(64 * 4154 * 8 / 10, rel=0.1)  # ns at 10 Gb/s


@pytest.mark.parametrize("sharing", ["exclusive", "solo", "concurrent"])
def test_in_coupled_mode_two_equal_writes_take_twice_as_long(virtual, sharing):
    virtual.open(FAIR)
    live = JournalWriter("fabric", LiveDriver(virtual, "a bridge"))
    alone = float(driven(live, virtual, sharing, 1)[0].max())
    live.entries.clear()
    ends, columns = driven(live, virtual, sharing, 2)
    wanted = [1, 2] if sharing == "exclusive" else [2, 2]  # one waits, or both share
    assert sorted(ends / alone) == pytest.approx(wanted, rel=0.03)
    for engine in ("core", "reference"):
        again = driven(
            JournalReader("fabric", live.entries, "journal"), virtual, sharing, 2, engine
        )[1]
        assert again.end.tobytes() == columns.end.tobytes()


def driven(asked, driver, sharing, flows, engine="core"):
    """Writes of several nodes into one, driven by a device: s of each end, and the columns."""
    nic = Nic(bandwidth=1.25e9, latency=1e-6)
    system = cluster(
        3, NodeSpec(nics=1, nic=nic), Joined(Switch(bandwidth=1.25e9, latency=0.0, ports=8))
    )
    build = Builder("writes into one port")
    for rank in range(1, 1 + flows):
        build.op(Kind.SEND, rank=rank, peer=0, bytes=1 << 20, signature=WRITE)
    swap = Swap("fabric", asked, sharing, sample_coverage(system, "fabric"), answers=driver.answers)
    made = couple(system, {"fabric": Fabric()}, [swap])
    simulation = Simulation(made.system, made.backends, engine=engine)
    columns = simulation.run(build.graph(), *made.processes).columns
    return columns.end * 1e-12, columns


def test_open_vswitch_forwards_in_the_place_of_the_bridge_and_leaves_it_as_it_was(virtual):
    times = {}
    for number, datapath in enumerate(("bridge", "ovs", "bridge")):
        virtual.open({"ends": "verbs", "rate": "10gbit", "datapath": datapath})
        assert virtual.describe()["device"] == datapath
        (sample,) = virtual.timing([Request("send:rdma-write uint8[262144]", 3)])
        assert sample.facts["port2.bytes"] > 3 * 262144
        times[number] = sample.median
        virtual._send_request("close")
    assert times[1] == pytest.approx(times[0], rel=0.05)
    assert times[2] == pytest.approx(times[0], rel=0.01)


def test_streams_are_spread_over_spines_by_routes_of_equal_cost(virtual):
    virtual.open({"ends": "sockets", "hosts": 5, "spines": 2, "rate": "1gbit"})
    (one,) = virtual.timing([Request("send:stream uint8[1048576]")])
    uplinks = [n for k, n in one.facts.items() if k.endswith(".bytes") and n > 10_000]
    assert len(uplinks) == 1  # a stream has one way; neighbours say hello on the other
    many = virtual.together([Request("send:stream uint8[1048576]")] * 16)
    share = {k: v for k, v in many[0].facts.items() if k.endswith(".bytes")}
    assert set(share) == {"up1.bytes", "up2.bytes"}
    assert sum(share.values()) > 2 * 16 * 1048576  # warmed up, then measured


def test_perftest_is_refused_where_the_counter_is_not_of_virtual_time():
    driver = machine("uml", "perftest")
    try:
        with pytest.raises(DriverFault, match="cycle counter, which does not follow virtual time"):
            driver.open({})
    finally:
        driver.channel.close()


def test_polling_is_refused_in_virtual_time(virtual):
    with pytest.raises(DriverFault, match="polling never ends under the clock timetravel"):
        virtual.open({"ends": "verbs", "completions": "poll"})


WAYS = [
    ({"metric": "half_rtt"}, "send:rdma-send uint8[64]"),
    ({"metric": "bandwidth"}, "send:rdma-write depth=16 qps=2 uint8[65536]"),
    ({"metric": "message_rate"}, "send:rdma-read depth=4 uint8[64]"),
    ({"transport": "uc"}, "send:rdma-write uint8[4096]"),
    ({"transport": "uc"}, "send:rdma-send uint8[4096]"),
    ({"transport": "ud"}, "send:rdma-send uint8[1024]"),
    ({}, "send:rdma-send uint8[4096]"),
    ({}, "send:rdma-read uint8[4096]"),
]


def test_every_transport_metric_and_op_of_rdma_answers():
    driver = machine("uml", "verbs")
    try:
        for spec, op in WAYS:
            driver.open(spec)
            (sample,) = driver.timing([Request(op, 2)])
            assert sample.metric == spec.get("metric", "completion")
            assert np.all(sample.ns > 0), op
            driver._send_request("close")
    finally:
        driver.channel.close()


RATES = [
    ({}, "send:rdma-write depth=8 batch=4 qps=2 uint8[64]"),
    ({}, "send:rdma-send depth=8 qps=2 uint8[64]"),
    ({"srq": 1}, "send:rdma-send depth=8 qps=4 batch=2 uint8[64]"),
    ({"transport": "ud"}, "send:rdma-send depth=8 uint8[64]"),
]


def test_batches_and_receives_of_several_queue_pairs_on_a_real_kernel():
    driver = machine("uml", "verbs")
    try:
        for spec, op in RATES:
            driver.open({**spec, "metric": "message_rate"})
            assert median(driver, op, 2) > 0
            driver._send_request("close")
        driver.open({})
        large = median(driver, "send:rdma-write uint8[65536]")
        driver._send_request("close")
        driver.open({"path_mtu": 512})
        assert median(driver, "send:rdma-write uint8[65536]") > large
    finally:
        driver.channel.close()


def test_packets_out_of_order_are_sent_again():
    """RC goes back to the first one that is missing; a lost end waits for a timer."""
    driver = machine("uml", "switch", addresses="2")
    port = {"ends": "verbs", "rate": "10gbit", "delay_us": 5.0}
    times = {}
    try:
        for reorder in (0, 5):
            driver.open({**port, "reorder": reorder, "gid": 2})
            assert driver.describe()["way"].startswith("GID 2 RoCE v2")
            times[reorder] = median(driver, "send:rdma-write uint8[1048576]")
            driver._send_request("close")
    finally:
        driver.channel.close()
    assert 800e3 < times[0] < 1000e3
    assert times[5] > 10 * times[0]


PORT = {"ends": "verbs", "rate": "10gbit", "delay_us": 5.0}
READ = "send:rdma-read uint8[1048576]"
OVER_TCP = [
    ({}, "send:rdma-write uint8[65536]"),
    ({}, "send:rdma-send uint8[64]"),
    ({"metric": "half_rtt"}, "send:rdma-send uint8[64]"),
    ({"metric": "bandwidth"}, "send:rdma-write depth=16 qps=2 uint8[65536]"),
    ({"metric": "message_rate", "srq": 1}, "send:rdma-send depth=8 qps=2 uint8[64]"),
]


def test_soft_iwarp_answers_beside_soft_roce():
    """A second provider on the same bridge, whose queue pairs are TCP connections: a read crosses
    the port like any other, and packets out of order cost it little, because TCP sorts them."""
    driver, times = machine("uml", "switch", provider="siw"), {}
    try:
        for spec, op in OVER_TCP:
            driver.open({**PORT, **spec})
            assert driver.describe()["way"] == "rdma_cm over nic1"
            assert median(driver, op) > 0
            driver._send_request("close")
        for reorder in (0, 5):
            driver.open({**PORT, "reorder": reorder})
            (sample,) = driver.timing([Request(READ, 3)])
            assert sample.facts["port1.bytes"] > 3 * 1048576
            times[reorder] = sample.median
            driver._send_request("close")
        driver.open({**PORT, "metric": "bandwidth"})
        streamed = median(driver, "send:rdma-write depth=16 qps=2 uint8[65536]")
    finally:
        driver.channel.close()
    bits = 8 * 1048576
    assert bits / 10 < times[0] < 1.1 * bits / 10  # ns at 10 Gb/s
    assert times[0] < times[5] < 5 * times[0]
    assert streamed < 1.2 * 8 * 65536 / 10  # its last ones are with TCP, not yet over the wire


def test_a_write_over_a_vlan_goes_by_the_gid_of_its_interface_and_takes_the_longer_way():
    """On the kernel's own GID table; unnamed it is the first address of the port's interface.

    Instructions are counted: what the kernel does for the tag of each packet is seen, and little.
    """
    driver, times = machine("qemu", "verbs", addresses="2", vlan="100"), {}
    ways = (({}, "GID 1 RoCE v2 nic1"), ({"gid": 2}, "GID 2 RoCE v2 nic1"),
            ({"gid": 4}, "GID 4 RoCE v2 vlan1"))  # fmt: skip
    try:
        for spec, way in ways:
            driver.open(spec)
            assert driver.describe()["way"] == way
            _, sample = driver.timing([Request(WRITE, 1), Request(WRITE, 5)])  # warm, then timed
            assert sample.clock == "icount"
            times[way] = sample.median
            driver._send_request("close")
    finally:
        driver.channel.close()
    first, second, tagged = (times[way] for _, way in ways)
    assert second == pytest.approx(first, rel=0.01)
    assert max(first, second) < tagged < 1.1 * first  # 256 packets: 1.2 to 1.4 % were seen


REDUCE = "collective:all-reduce fp32[1048576]"


def test_gloo_takes_longer_with_more_ranks_and_tells_when_they_came():
    """Never quicker than the bytes on a port; wide above: a call may lose a scheduler's tick."""
    driver, found = machine("uml", "collective"), []
    try:
        for ranks in (2, 4, 8):
            driver.open({"ranks": ranks, "rate": "10gbit", "delay_us": 5.0})
            (sample,) = driver.timing([Request(REDUCE, 5)])
            found.append(sample.median)
            assert sample.median > 2 * (ranks - 1) / ranks * 4 * 1048576 / 1.25
            then = op_medians(bundled_recording(f"gloo-{ranks}x10gbit"))[sample.key]
            assert 0.7 * then < sample.median < 2.5 * then
            assert [len(call) for call in sample.facts["came_ns"]] == [ranks] * 5
            driver._send_request("close")
    finally:
        driver.channel.close()
    assert found == sorted(found)


@pytest.fixture(scope="module")
def counted():
    driver = machine("qemu", "verbs")
    driver.open({})
    yield driver
    driver.close()


def test_counted_writes_are_where_they_were(counted):
    (sample,) = counted.timing([Request("send:rdma-write uint8[65536]", 3)])
    assert sample.clock == "icount"
    assert sample.median == pytest.approx(
        op_medians(bundled_recording("icount-verbs"))[sample.key], rel=0.3
    )


def test_machine_code_takes_fewer_instructions_than_python(counted):
    python = median(counted, "send:rdma-write uint8[64]", 5)
    counted._send_request("close")
    counted.open({"timed": "machine-code"})
    (sample,) = counted.timing([Request("send:rdma-write uint8[64]", 5)])
    assert 0.5 * python < sample.median < 0.9 * python
    assert sample.facts["own_ns"] < 1500
    counted._send_request("close")
    counted.open({})


def test_each_call_that_sets_up_takes_its_own_time(counted):
    calls = (
        "open",
        "alloc-pd",
        "create-cq",
        "create-qp",
        "modify-init",
        "modify-rtr",
        "modify-rts",
    )
    times = [median(counted, f"host:verbs-{call} uint8[64]") for call in calls]
    assert min(times) > 1e3
    small, large = (median(counted, f"host:verbs-reg-mr uint8[{n}]") for n in (4096, 4 << 20))
    assert large > small


def test_perftest_takes_the_same_way_without_python():
    """The same metric of the same op: C takes less of it, and the wire's part is the same."""
    driver = machine("qemu", "perftest")
    try:
        asked = [Request(f"send:rdma-send uint8[{n}]", 3) for n in (64, 65536)]
        driver.open({})
        small, large = (s.median for s in driver.timing(asked))
        driver._send_request("close")
        driver.open({"metric": "bandwidth"})
        streamed = median(driver, "send:rdma-write depth=16 uint8[65536]", 1)
    finally:
        driver.channel.close()
    verbs = machine("qemu", "verbs")
    try:
        verbs.open({"metric": "half_rtt", "completions": "sleep"})
        python_small, python_large = (s.median for s in verbs.timing(asked))
    finally:
        verbs.channel.close()
    assert small < python_small
    assert large - small == pytest.approx(python_large - python_small, rel=0.3)
    assert 0.2 * large < streamed < 5 * large


def test_pages_move_to_the_expander_and_back():
    driver = machine("qemu", "cxl", cxl="1")
    try:
        assert isinstance(driver.probe(), Ready)
        driver.open({})
        assert driver.describe()["memory"] == "emulated"
        asked = [Request(f"copy:{way} uint8[{n}]", 2) for way in ("h2c", "c2h")
                 for n in (4096, 262144)]  # fmt: skip
        found = driver.timing(asked)
        assert [s.facts["placed"] for s in found] == [1.0] * 4
        assert found[0].median < found[1].median
        (walk,) = driver.timing([Request("host:memory-chase tier=far uint8[65536]", 2)])
        assert walk.flags == ("emulated",)
        assert np.all(walk.ns > 0)
    finally:
        driver.close()


def test_memory_is_interleaved_with_the_expander():
    """Pages in turn on the machine's own node and on the CXL region's; their times are emulated."""
    driver = machine("qemu", "memory", cxl="1")
    try:
        driver.open({"nodes": "0,1"})
        assert driver.describe()["device"] == "node0-node1"
        ops = ("memory-stream threads=1 reads=50", "memory-under-load threads=0 reads=100")
        for sample in driver.timing([Request(f"host:{op} uint8[1048576]", 1) for op in ops]):
            assert (sample.facts["node0"], sample.facts["node1"]) == (0.5, 0.5)
            assert sample.flags == ("emulated",)
            assert np.all(sample.ns > 0)
    finally:
        driver.close()
