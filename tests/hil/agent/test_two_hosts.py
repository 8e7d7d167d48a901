"""Hosts that each have an agent of their own: what their drivers tell each other, and who fails."""

import socket
import subprocess
from itertools import takewhile
from pathlib import Path

import pytest
from foretrace.hil.agent.address import Address
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.connection import connect_driver
from foretrace.hil.driver_registry import make_driver
from foretrace.hil.drivers.network import tcp
from foretrace.hil.drivers.network.tcp_ends import FarEnd
from foretrace.hil.lab import host_kernel
from foretrace.hil.sample import Request, Sample
from foretrace.hil.sample_checks import check_samples
from foretrace.sim.errors import DriverFault

PAIRED = str(Path(__file__).parents[2] / "helpers/devices/paired_driver.py")
IDLE = Request("host:idle", 3)


@pytest.fixture
def hosts():
    """Opens a driver here whose peers have agents of their own; ends all of them."""
    made = []

    def connect(driver, load=()):
        remote = RemoteDriver(
            Address(load=load).open(), driver, 60.0, lambda peer: connect(driver, load)
        )
        made.append(remote)
        return remote

    def start(driver="paired", **spec):
        remote = connect(driver, (PAIRED,) if driver == "paired" else ())
        remote.open(spec)
        return remote

    yield start
    for remote in made:
        if not remote.channel.closed:
            remote.close()


def test_a_driver_asks_the_driver_of_another_host_in_the_middle_of_an_op(hosts):
    near = hosts(peer={"agent": "b", "device": "far0"})
    (sample,) = near.timing([IDLE])
    assert sample.facts["heard"] == ["far0 does add 1", "far0 does add 2"]
    ((_, far),) = near.peers
    assert far.hello["host"] == near.hello["host"]
    assert far.channel.child.pid != near.channel.child.pid


def test_several_peers_are_asked_each_in_its_own_agent(hosts):
    near = hosts(peer=[{"agent": "b", "device": "far0"}, {"agent": "c", "device": "far1"}])
    (sample,) = near.timing([IDLE])
    assert [text.split()[0] for text in sample.facts["heard"]] == ["far0", "far0", "far1", "far1"]


def test_a_fault_at_the_other_end_names_its_agent_and_both_go_on(hosts):
    near = hosts(peer={"agent": "b"}, say="refuse")
    for _ in range(2):
        with pytest.raises(DriverFault, match=r"^broken: peer b: the cable is out$"):
            near.timing([IDLE])
    assert near.describe()["device"] == "paired0"


def test_a_reply_that_was_never_fetched_is_discarded(hosts):
    near = hosts(peer={"agent": "b", "device": "far0"}, heard=False)
    for _ in range(3):
        (sample,) = near.timing([IDLE])
        assert sample.facts["heard"] == ["far0 does add 1"]


@pytest.mark.parametrize(("say", "told"), [
    ("die", r"^died: peer b: the agent ended \(code 7\)"),
    ("hang", r"^hung: peer b: no answer within 1 s; the agent was ended"),
])  # fmt: skip
def test_an_agent_that_dies_or_hangs_at_the_other_end_ends_both_and_is_named(hosts, say, told):
    near = hosts(peer={"agent": "b"}, say=say)
    near.limit = 1.0
    ((_, far),) = near.peers
    with pytest.raises(DriverFault, match=told):
        near.timing([IDLE])
    assert near.channel.broken
    assert far.channel.child.wait(20) is not None
    near.close()
    assert near.channel.child.poll() is not None


def test_an_agent_that_asks_for_a_peer_that_is_not_there_is_refused(hosts):
    near = hosts(peer={"agent": "b"})
    peers, near.peers = near.peers, []
    with pytest.raises(DriverFault, match=r"^protocol: there is no peer 0"):
        near.timing([IDLE])
    near.peers = peers


def test_a_near_end_refuses_requests_meant_for_a_far_end(hosts):
    message, _ = hosts().channel.ask({"verb": "peer", "message": {"do": "add"}}, 20.0)
    assert message == {"fault": "protocol", "text": "I am near"}


FAR_PEER = {"agent": "elsewhere", "device": "x"}


@pytest.mark.parametrize("name", ["host", "switch", "collective", "cxl", "recorded"])
def test_drivers_without_two_ends_refuse_a_peer_by_name(name):
    with pytest.raises(DriverFault, match=r"^unsupported: no setting 'peer'"):
        make_driver(name).open({"peer": FAR_PEER})


def test_a_machine_of_the_lab_asks_another_one_like_any_host(tmp_path, monkeypatch):
    """Each is booted for itself; this kind has no network at all, and the far one says so."""
    namespaces = takewhile(lambda word: word != "--", host_kernel.command({}))
    if subprocess.run([*namespaces, "true"], capture_output=True).returncode:
        pytest.skip("NO NAMESPACES HERE: machines of the lab as two hosts were not tried")
    (tmp_path / "foretrace").mkdir()
    agents = "agents: {near: {lab: host}, far: {lab: host}}"
    (tmp_path / "foretrace/agents.yaml").write_text(agents)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    near = connect_driver("tcp", "near", 60.0)
    try:
        with pytest.raises(DriverFault, match=r"^missing: peer far: 127\.0\.0\.2: .*unreachable"):
            near.open({"device": "127.0.0.1", "peer": {"agent": "far", "device": "127.0.0.2"}})
        assert [name for name, _ in near.peers] == ["far"]
    finally:
        near.close()


def test_without_anybody_who_asks_both_ends_a_far_peer_is_refused():
    with pytest.raises(DriverFault, match=r"^unsupported: peer elsewhere is on another host, and"):
        make_driver("tcp").open({"peer": FAR_PEER})


@pytest.mark.parametrize("peer", [{"device": "x"}, [FAR_PEER, "mlx5_0"], [{"agent": 5}]])
def test_a_peer_that_makes_no_sense_is_refused(hosts, peer):
    with pytest.raises(DriverFault, match=r"^unsupported: peer .*(name its agent|mixes this host)"):
        hosts(peer=peer)


def test_a_one_way_time_is_refused_without_a_stated_offset_of_the_clocks(hosts):
    peer = {"agent": "b", "device": "127.0.0.2"}
    with pytest.raises(DriverFault, match=r"^unsupported: one_way is read on two clocks; set "):
        hosts("tcp", peer=peer, metric="one_way")


def test_a_sample_of_one_way_without_the_offset_of_the_clocks_is_refused():
    asked = Request("send:stream uint8[64]")
    with pytest.raises(DriverFault, match=r"^clock: x: .* without the offset of the two clocks"):
        check_samples([asked], [Sample(asked.signature, [5.0], "wall", "one_way")], "x")


def test_streams_between_two_agents_are_timed_by_every_metric(hosts):
    peers = [{"agent": name, "device": f"127.0.0.{k}"} for k, name in ((2, "b"), (3, "c"))]
    asked = {
        "completion": "send:stream flows=3 uint8[4096]",
        "half_rtt": "send:stream uint8[64]",
        "message_rate": "send:stream depth=4 flows=2 uint8[64]",
        "bandwidth": "send:stream uint8[3000000]",
        "one_way": "send:stream uint8[64]",
    }
    for metric, op in asked.items():
        near = hosts("tcp", peer=peers, metric=metric, clock_offset="measured")
        (sample,) = near.timing([Request(op, 3)])
        assert (len(sample.ns), sample.metric) == (3, metric)
        assert ("clock_offset_error_ns" in sample.facts) == (metric == "one_way")
        assert near.describe()["inside"].startswith("two hosts: ")
        near.close()


@pytest.mark.parametrize(("metric", "attribute"), [("half_rtt", "flows=2"), ("one_way", "depth=2"),
                                                   ("completion", "depth=2")])  # fmt: skip
def test_an_attribute_that_a_metric_does_not_have_is_refused(metric, attribute):
    with pytest.raises(DriverFault, match=rf"attribute .*; metric {metric} takes "):
        tcp.parse_op(f"send:stream {attribute} uint8[64]", metric)


def test_a_far_end_closes_connections_without_the_secret_word():
    far = FarEnd("127.0.0.1")
    there = far.answer({"do": "listen"})
    intruders = [socket.create_connection(("127.0.0.1", there["port"])) for _ in range(2)]
    intruders[0].sendall(b"0" * 16)
    intruders[1].close()
    with socket.create_connection(("127.0.0.1", there["port"])) as ours:
        ours.sendall(bytes.fromhex(there["word"]))
        assert far.answer({"do": "accept"}) == {"connection": 0}
        assert far.connections[0].getpeername() == ours.getsockname()
    assert intruders[0].recv(1) == b""
    intruders[0].close()
    far.close()


@pytest.mark.parametrize("message", [
    {}, {"do": "exec"}, {"do": "accept"}, {"do": "echo"}, {"do": "serve", "sizes": 5, "rounds": 1},
    {"do": "echo", "connection": 0, "size": 1, "count": 1}, {"do": "serve", "rounds": 10**12},
    {"do": "serve", "sizes": {"x": 1}, "rounds": 1}, {"do": "serve", "sizes": {}, "rounds": -1},
])  # fmt: skip
def test_a_far_end_refuses_what_makes_no_sense_by_name(message):
    with pytest.raises(DriverFault, match=r"^protocol: "):
        FarEnd("127.0.0.1").answer(message)
