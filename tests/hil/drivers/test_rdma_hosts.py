"""RDMA between two hosts whose agents tell each other what is needed, on a stand-in of their cards.

Both drivers are in this process; a thread does what the far one was told, as its agent would.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import foretrace
import pytest
from foretrace.hil.driver_registry import make_driver
from foretrace.hil.drivers.rdma import rdma_ports
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault
from pyverbs_stand_in import Network, install
from rdma_tables import TABLES, write_table


class Hosts:
    """A near driver and far ones, with what they told each other."""

    def __init__(self, folder, monkeypatch, network):
        self.folder, self.monkeypatch, self.network = folder, monkeypatch, network
        self.said, self.far, self.thread = [], [], ThreadPoolExecutor(1)
        self.told = None

    def open(self, devices=("rxe2",), **spec):
        for device in devices:
            far = make_driver("verbs")
            far.open({"device": device, "end": "far"})
            self.far.append(far)
        near = make_driver("verbs")
        near.exchange = self.exchange
        peers = [{"agent": f"host{k}", "device": d} for k, d in enumerate(devices, 2)]
        near.open({"device": "rxe1", "peer": peers, "completions": "poll", **spec})
        return near

    def exchange(self, frame):
        frame = json.loads(json.dumps(frame))  # nothing but what a frame holds
        self.said.append((frame["do"], frame["message"].get("do")))
        far = self.far[frame["peer"]]
        if frame["do"] == "tell":
            self.told = self.thread.submit(far.peer, frame["message"])
            return {"reply": {}}
        try:
            reply = self.told.result() if frame["do"] == "hear" else far.peer(frame["message"])
        except DriverFault as fault:
            return {"fault": fault.kind, "text": fault.message}
        return json.loads(json.dumps({"reply": reply}))


@pytest.fixture
def hosts(monkeypatch, tmp_path):
    network = Network(names=("rxe1", "rxe2", "rxe3"), late=0.0)
    for name in network.names:
        write_table(tmp_path, TABLES[0], name)
    monkeypatch.setattr(rdma_ports, "DEVICES", tmp_path)
    install(monkeypatch, network)
    monkeypatch.delitem(sys.modules, "foretrace.hil.drivers.rdma.rdma_peer", raising=False)
    made = Hosts(tmp_path, monkeypatch, network)
    yield made
    made.thread.shutdown()


@pytest.mark.parametrize(("metric", "op"), [
    ("completion", "send:rdma-write uint8[4096]"), ("completion", "send:rdma-read uint8[64]"),
    ("completion", "send:rdma-send uint8[64]"), ("half_rtt", "send:rdma-send uint8[64]"),
    ("message_rate", "send:rdma-write depth=4 qps=3 uint8[64]"),
    ("bandwidth", "send:rdma-read depth=8 uint8[65536]"),
])  # fmt: skip
def test_two_hosts_are_measured_through_their_agents_alone(hosts, metric, op):
    near = hosts.open(metric=metric)
    (sample,) = near.timing([Request(op, 20)])
    assert (len(sample.ns), sample.metric, hosts.network.starved) == (20, metric, 0)
    told = near.describe()
    assert told["inside"] == "two hosts: both NICs and all between them"
    assert told["device"] == "rxe1-rxe2"
    assert ("ask", "port") in hosts.said
    assert ("ask", "connect") in hosts.said
    near.close()
    assert not hosts.far[0].far.ends


def test_queue_pairs_packet_numbers_and_keys_of_both_ends_fit_each_other(hosts):
    hosts.open().timing([Request("send:rdma-write uint8[64]")])
    one, other = hosts.network.attributes
    assert (one.rq_psn, one.sq_psn) == (other.sq_psn, other.rq_psn)
    assert {one.dest_qp_num, other.dest_qp_num} == set(hosts.network.pairs)
    assert one.ah_attr.named["gr"].named["sgid_index"] == TABLES[0].right


def test_several_hosts_are_read_from_at_once(hosts):
    near = hosts.open(devices=("rxe2", "rxe3"))
    (sample,) = near.timing([Request("send:rdma-read flows=4 uint8[64]", 3)])
    assert len(sample.ns) == 3
    assert [len(far.far.ends) for far in hosts.far] == [2, 2]


def test_one_way_needs_the_offset_of_the_clocks_and_tells_it(hosts):
    with pytest.raises(DriverFault, match=r"^unsupported: one_way is read on two clocks; set "):
        hosts.open(metric="one_way")
    for far in hosts.far:
        far.close()
    hosts.far.clear()
    near = hosts.open(metric="one_way", clock_offset="measured")
    (sample,) = near.timing([Request("send:rdma-send uint8[64]", 5)])
    assert abs(sample.facts["clock_offset_ns"]) <= sample.facts["clock_offset_error_ns"]
    with pytest.raises(DriverFault, match="one_way of rdma-write cannot be measured"):
        near.timing([Request("send:rdma-write uint8[64]", 5)])


@pytest.mark.parametrize("op", ["send:rdma-send depth=4 uint8[64]", "host:verbs-open uint8[1]"])
def test_what_two_hosts_cannot_do_is_refused_by_name(hosts, op):
    near = hosts.open(metric="message_rate")
    with pytest.raises(DriverFault, match=r"between hosts|a call of one host"):
        near.timing([Request(op)])


def test_a_host_that_counts_other_seconds_is_refused(hosts):
    hosts.monkeypatch.setattr("foretrace.hil.drivers.linux.clock_source.clock_of_this_machine",
                              iter(["wall", "wall", "icount"]).__next__)  # fmt: skip
    with pytest.raises(DriverFault, match=r"peer host2 has clock icount, this host has wall"):
        hosts.open()


@pytest.mark.parametrize("message", [
    {}, {"do": "exec"}, {"do": "create"}, {"do": "create", "gid": 3, "made": {"x": 1}},
    {"do": "connect", "end": 9, "info": {}}, {"do": "echo", "end": 1}, {"do": "drop", "end": []},
])  # fmt: skip
def test_a_far_end_refuses_what_makes_no_sense_by_name(hosts, message):
    hosts.open()
    with pytest.raises(DriverFault, match=r"^protocol: "):
        hosts.far[0].peer(message)


def test_one_port_two_ports_and_two_hosts_say_what_is_inside_of_a_sample(hosts):
    inside = []
    for spec in ({"device": "rxe1", "peer": "rxe1"}, {"device": "rxe1", "peer": "rxe2"}):
        driver = make_driver("verbs")
        driver.open(spec)
        inside.append(driver.describe()["inside"])
        driver.close()
    inside.append(hosts.open().describe()["inside"])
    assert inside == [rdma_ports.ONE_PORT, rdma_ports.TWO_PORTS, rdma_ports.TWO_HOSTS]
    assert all(text in PAGE for text in inside)


PAGE = (Path(foretrace.__file__).parent / "docs/hil.md").read_text()


def test_perftest_between_hosts_is_refused_with_the_reason():
    with pytest.raises(DriverFault, match=r"peer b: the programs of perftest need a TCP port of"):
        make_driver("perftest").open({"peer": {"agent": "b", "device": "mlx5_0"}})
