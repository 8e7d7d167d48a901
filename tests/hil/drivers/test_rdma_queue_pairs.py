"""Several queue pairs: what is outstanding on each, whatever completes first, late or failed."""

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from foretrace.hil.driver_registry import make_driver
from foretrace.hil.drivers.rdma import rdma_loop, rdma_ports
from foretrace.hil.drivers.rdma.rdma_ops import message_stream_time
from foretrace.hil.sample import Request
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, cluster
from foretrace.scenarios.config.sections.hil import SwapSection
from foretrace.scenarios.studies.accuracy.open_devices import driver_options
from foretrace.sim.errors import DriverFault
from pyverbs_stand_in import Network, install
from rdma_tables import TABLES, write_table

WRITE = "send:rdma-write depth={} qps={} uint8[64]"


@pytest.fixture
def network(monkeypatch, tmp_path):
    """A stand-in of two RoCE devices, of which a test says how they complete."""

    def made(seed=0, table=TABLES[0], **how):
        network = Network(seed, **how)
        for name in network.names:
            write_table(tmp_path / str(seed), table, name)
        monkeypatch.setattr(rdma_ports, "DEVICES", tmp_path / str(seed))
        return install(monkeypatch, network)

    return made


def verbs(**spec):
    driver = make_driver("verbs")
    driver.open({"metric": "message_rate", **spec})
    return driver


@pytest.mark.parametrize("schedules", [500, pytest.param(5_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("timed", ["python", "machine-code"])
def test_ten_thousand_schedules_overrun_no_queue_and_lose_no_completion(network, timed, schedules):
    """Random order, late and with errors, on 1 to 8 queue pairs of depth 1 to 9, one by one and in
    batches, with one-sided ops and with sends into own or shared receive queues."""
    if timed == "machine-code" and platform.machine() != rdma_loop.MACHINE:
        pytest.skip(f"THE LOOP IS NOT COMPILED FOR {platform.machine()}")
    nic = network()
    from foretrace.hil.drivers.rdma.rdma_end import EndpointSettings, RdmaEndpoint

    ports = [rdma_ports.active_port(name) for name in nic.names]
    gids = rdma_ports.gid_pair(*ports)
    failures = 0
    for schedule in range(schedules):
        draw = nic.random
        draw.seed(schedule)
        nic.late = draw.choice((0.0, 0.3, 0.9))
        nic.failing = draw.choice((0.0, 0.0, 0.05))
        qps, batch, name = draw.randint(1, 8), draw.randint(1, 3), draw.choice(OPS)
        depth = batch * draw.randint(1, 3)
        count = batch * draw.randint(1, 3 * qps * depth // batch)
        made = EndpointSettings("rc", 64, qps, depth, batch=batch, shared=draw.random() < 0.5,
                                compiled=timed == "machine-code")  # fmt: skip
        one, other = (RdmaEndpoint(*end, made) for end in zip(ports, gids, strict=True))
        one.connect(other.connection_info())
        other.connect(one.connection_info())
        nic.posted = nic.completed = nic.doorbells = 0
        nic.most.clear()
        fault = fault_of_stream(one, other, name, depth, count)
        failures += bool(fault)
        if fault:
            assert f"of {nic.posted} ops failed" in fault
        else:
            assert nic.posted == count
        assert nic.completed == nic.posted == batch * nic.doorbells
        assert max(nic.most.values()) <= depth
        assert (nic.starved, nic.overflowed) == (0, 0)
        if not fault:
            assert not any(q.waiting for q in nic.shared)
            assert not any(p.waiting for p in nic.pairs.values())
        for end in (one, other):
            end.close()
        nic.requests.clear()
        nic.shared.clear()
    assert failures > schedules / 10


OPS = ("rdma-write", "rdma-read", "rdma-send")


def fault_of_stream(one, other, name, depth, count):
    """What a stream was refused with; "" where it went well."""
    try:
        message_stream_time((one, other), name, 64, depth, count)
    except DriverFault as fault:
        return str(fault)
    return ""


def test_a_batch_of_posts_rings_one_doorbell(network):
    nic = network()
    driver = verbs()
    driver.timing([Request("send:rdma-write depth=8 batch=4 uint8[64]", 1)])
    assert nic.posted == 4 * nic.doorbells > 0
    with pytest.raises(DriverFault, match="depth 8 is not a multiple of batch 3; give a depth"):
        driver.timing([Request("send:rdma-write depth=8 batch=3 uint8[64]", 1)])
    driver.close()


@pytest.mark.parametrize(("srq", "queues"), [(0, 0), (1, 2)])
def test_sends_are_received_one_each_from_a_shared_queue_where_it_is_set(network, srq, queues):
    nic = network()
    driver = verbs(srq=srq)
    (sample,) = driver.timing([Request("send:rdma-send depth=4 qps=3 uint8[64]", 2)])
    assert len(sample.ns) == 2
    assert len(nic.shared) == queues
    assert nic.starved == 0
    driver.close()


def test_more_receives_than_a_shared_queue_takes_are_refused_with_the_number(network):
    nic = network()
    nic.limits["max_srq_wr"] = 100
    told = "128 receives of a shared queue are needed; use at most the 100 that rxe1 allows"
    with pytest.raises(DriverFault, match=told):
        verbs(srq=1).timing([Request("send:rdma-send depth=32 qps=4 uint8[64]", 1)])


def test_packets_are_as_large_as_asked_and_never_larger_than_the_ports(network):
    nic = network()
    driver = verbs(path_mtu=512)
    driver.timing([Request("send:rdma-write uint8[64]", 1)])
    driver.close()
    assert {a.path_mtu for a in nic.attributes} == {2}
    with pytest.raises(
        DriverFault, match=r"path_mtu is 2048; .* port 1 of rxe1 allows: \[256, 512, 1024\]"
    ):
        verbs(path_mtu=2048).timing([Request("send:rdma-write uint8[64]", 1)])


@pytest.mark.parametrize("asked", ["", "python"])
def test_a_real_card_is_timed_by_machine_code_unless_python_is_asked_for(network, asked):
    network()
    driver = verbs(metric="completion", **({"timed": asked} if asked else {}))
    told = driver.describe()["timed"]
    assert told == (asked or "machine-code")
    (sample,) = driver.timing([Request("send:rdma-write uint8[64]", 1)])
    assert sample.facts["timed"] == told
    (sample,) = driver.timing([Request("send:rdma-send uint8[64]", 1)])
    assert sample.facts["timed"] == told
    driver.close()


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"timed": "machine-code", "transport": "ud"}, "poll and a transport other than ud"),
        ({"timed": "machine-code", "completions": "sleep"}, "machine-code needs completions: poll"),
        (
            {"timed": "machine-code", "metric": "half_rtt"},
            "half_rtt by machine code is not",
        ),
        ({"timed": "fast"}, "timed is 'fast'; one of python, machine-code"),
    ],
)
def test_what_machine_code_cannot_time_is_refused(network, spec, why):
    network()
    with pytest.raises(DriverFault, match=why):
        verbs(**spec)


def test_a_queue_pair_that_hides_its_address_otherwise_is_refused_by_name():
    with pytest.raises(DriverFault, match="was found in the SimpleNamespace of this pyverbs"):
        rdma_loop.native_queue_pair(SimpleNamespace(qp_num=1))


def test_a_queue_that_takes_no_more_ends_the_loop_with_its_error(network):
    nic = network()
    from foretrace.hil.drivers.rdma.rdma_end import EndpointSettings, RdmaEndpoint
    from foretrace.hil.drivers.rdma.rdma_ops import loop_time

    port = rdma_ports.active_port(nic.names[0])
    made = EndpointSettings("rc", 64, 1, 4, compiled=True)
    ends = [RdmaEndpoint(port, port.gids[0], made) for _ in range(2)]
    ends[0].connect(ends[1].connection_info())
    ends[0].qps[0].depth = 2  # the card says less than it took
    with pytest.raises(DriverFault, match="Cannot allocate memory after 2 ops"):
        loop_time(ends, "rdma-write", 64, 8)


@pytest.mark.skipif(not shutil.which("cc"), reason="NO COMPILER: cc")
def test_the_machine_code_is_what_its_source_says(network, monkeypatch, tmp_path):
    """The source, compiled here, gives the same runs of the same schedules."""
    source = Path(rdma_loop.__file__).with_suffix(".c")
    library = tmp_path / "loop.so"
    subprocess.run(["cc", "-Os", "-shared", "-fPIC", source, "-o", library], check=True)
    run = ctypes.CDLL(str(library)).run
    run.argtypes, run.restype = (ctypes.c_void_p,), ctypes.c_int64

    nic = network(failing=0.02)

    def told(seed):
        nic.random.seed(seed)
        nic.posted = nic.completed = nic.doorbells = 0
        driver = verbs()
        fault = ""
        try:
            driver.timing([Request(WRITE.format(4, 2), 1)])
        except DriverFault as failed:
            fault = str(failed)
        driver.close()
        return fault, nic.posted, nic.doorbells, nic.completed

    ours = [told(seed) for seed in range(50)]
    monkeypatch.setattr(rdma_loop, "_machine_code", lambda: run)
    assert ours == [told(seed) for seed in range(50)]
    assert len({fault for fault, *_ in ours}) > 2


@pytest.mark.parametrize("qps", [1, 2, 4])
@pytest.mark.parametrize("depth", [1, 4, 16])
def test_a_rate_over_several_queue_pairs_is_one_sample(network, qps, depth):
    network(seed=qps * 100 + depth)
    driver = verbs()
    (sample,) = driver.timing([Request(WRITE.format(depth, qps), 3)])
    assert len(sample.ns) == 3
    driver.close()


def test_after_a_failed_op_the_next_one_has_queue_pairs_of_its_own(network):
    nic = network(failing=1.0)
    driver = verbs()
    with pytest.raises(DriverFault, match=r"^broken: 1 of 1 ops failed, the first with completion"):
        driver.timing([Request(WRITE.format(4, 2), 1)])
    nic.failing = 0.0
    (sample,) = driver.timing([Request(WRITE.format(4, 2), 1)])
    assert sample.median > 0
    driver.close()


def test_reads_are_as_many_at_once_as_both_devices_allow(network):
    nic = network()
    nic.limits.update(max_qp_rd_atom=8, max_qp_init_rd_atom=32)
    driver = verbs()
    driver.timing([Request("send:rdma-read depth=4 uint8[64]", 1)])
    driver.close()
    told = {(a.max_rd_atomic, a.max_dest_rd_atomic) for a in nic.attributes}
    assert told == {(8, 8)}


def test_a_peer_in_the_same_subnet_of_infiniband_is_reached_by_its_lid(network):
    nic = network(table=next(t for t in TABLES if t.lid == 13305))
    driver = verbs()
    assert driver.describe()["way"] == "LID 13305"
    driver.timing([Request("send:rdma-write uint8[64]", 1)])
    driver.close()
    ways = [a.ah_attr.named for a in nic.attributes]
    assert {(w["dlid"], w["is_global"], "gr" in w) for w in ways} == {(13305, 0, False)}


def test_a_peer_on_ethernet_is_reached_by_the_gid_of_its_type(network):
    nic = network()
    driver = verbs()
    assert driver.describe()["way"] == "GID 3 RoCE v2 eth4"
    driver.timing([Request("send:rdma-write uint8[64]", 1)])
    driver.close()
    assert {a.ah_attr.named["gr"].named["sgid_index"] for a in nic.attributes} == {3}


def test_data_travel_inside_of_the_request_up_to_the_size_that_is_set(network):
    nic = network()
    driver = verbs(inline=64)
    driver.timing([Request(f"send:rdma-write uint8[{n}]", 1) for n in (64, 65)])
    driver.timing([Request("send:rdma-read uint8[64]", 1)])
    driver.close()
    flags = {(r.named["opcode"], r.named["sg"][0].given[1]): r.named["send_flags"] & 8
             for r in nic.requests}  # fmt: skip
    assert flags == {(0, 64): 8, (0, 65): 0, (4, 64): 0}


def test_more_outstanding_than_the_device_allows_is_refused_with_the_number(network):
    nic = network()
    nic.limits["max_qp_wr"] = 100
    told = "128 ops outstanding on a queue pair are needed; use at most the 100 that rxe1 allows"
    with pytest.raises(DriverFault, match=told):
        verbs().timing([Request("send:rdma-write depth=128 uint8[64]", 1)])


def test_one_device_is_no_pair_unless_it_is_said_and_then_covers_only_the_nic(network):
    network(names=("mlx5_0",))
    with pytest.raises(
        DriverFault, match=r"^missing: mlx5_0 is the only RDMA device here, and has"
    ):
        verbs()
    alone = {"device": "mlx5_0", "peer": "mlx5_0"}
    driver = verbs(**alone)
    assert driver.describe()["inside"] == "that NIC alone, its own peer"
    machine = cluster(2, NodeSpec(nics=1, nic=Nic(bandwidth=1e9, latency=1e-6)),
                      FabricSpec(Switch(bandwidth=1e9, latency=0.0, ports=2)))  # fmt: skip
    for name in ("verbs", "perftest"):
        covers = make_driver(name).covers
        assert covers(alone, machine) == ()
        assert "leaf0.node0.nic0" in covers({"device": "mlx5_0"}, machine)
    driver.close()


def test_a_peer_of_the_same_agent_is_what_the_driver_takes_as_its_peer(network):
    network()
    swap = {"component": "node0.nic0", "driver": "verbs", "device": "rxe1", "agent": "rdma"}
    near = SwapSection(**swap, peer={"agent": "rdma", "device": "rxe2"})
    driver = verbs(**driver_options(near))
    assert driver.describe()["device"] == "rxe1-rxe2"
    driver.close()
    far = SwapSection(**swap, peer={"agent": "elsewhere", "device": "mlx5_0"})
    for name in ("verbs", "perftest"):
        with pytest.raises(DriverFault, match=r"^unsupported: peer elsewhere"):
            make_driver(name).open(driver_options(far))


@pytest.mark.parametrize("name", ["verbs", "perftest"])
def test_two_runs_never_measure_one_device(network, name):
    network()
    first = verbs()
    second = make_driver(name)
    with pytest.raises(DriverFault, match=r"^busy: rdma-rxe1: measured by process \d+"):
        second.open({"device": "rxe2", "peer": "rxe1"})
    if name == "verbs":
        assert second.probe().kind == "busy"
    first.close()
    second.open({"device": "rxe2", "peer": "rxe1"})
    second.close()


@pytest.mark.parametrize("name", ["verbs", "perftest"])
def test_a_card_with_real_timers_is_allowed_in_replay_only(network, name):
    network()
    driver = make_driver(name)
    driver.open({})
    assert driver.realtime
    driver.close()


def test_the_polling_overhead_is_a_fact_of_the_sample(network):
    network()
    driver = verbs(metric="completion", completions="poll")
    (sample,) = driver.timing([Request("send:rdma-write uint8[64]", 1)])
    assert sample.facts["own_ns"] > 0
    driver.close()
