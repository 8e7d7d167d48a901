"""Queue pairs that only rdma_cm connects: iWARP, on a stand-in of pyverbs."""

import pytest
from foretrace.hil.driver_registry import make_driver
from foretrace.hil.drivers.rdma import rdma_ports
from foretrace.hil.drivers.rdma.perftest import PerftestDriver
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault
from pyverbs_stand_in import Network, install
from rdma_tables import SOFT_IWARP, write_table

HERE = "127.0.0.1"


@pytest.fixture
def nic(monkeypatch, tmp_path):
    """A stand-in of two iWARP devices."""
    network = Network(names=("siw1", "siw2"))
    for name in network.names:
        write_table(tmp_path, SOFT_IWARP, name)
    monkeypatch.setattr(rdma_ports, "DEVICES", tmp_path)
    return install(monkeypatch, network)


@pytest.fixture
def ask(nic):
    """Ask an opened driver for one op."""
    driver = make_driver("verbs")

    def asked(op, **spec):
        driver.open(spec)
        try:
            return driver.timing([Request(op, 2)])[0]
        finally:
            driver.close()

    return asked


@pytest.mark.parametrize("name", ["rdma-write", "rdma-read", "rdma-send"])
def test_each_queue_pair_is_connected_to_the_one_of_the_same_index(nic, name, monkeypatch):
    driver = make_driver("verbs")
    driver.open({"metric": "message_rate"})
    driver.timing([Request(f"send:{name} depth=4 qps=3 uint8[64]", 1)])
    (pair,) = driver.pairs.values()
    one, other = ([qp.qp_num for qp in end.qps] for end in pair)
    assert [nic.pairs[n].peer for n in one] == other
    assert [nic.pairs[n].peer for n in other] == one
    assert nic.posted == nic.completed > 0
    assert nic.starved == 0
    assert driver.describe()["way"] == "rdma_cm over lo"
    driver.close()


def test_a_tcp_port_that_is_taken_is_passed_over(nic, ask):
    nic.taken = {(HERE, "18600"), (HERE, "18601")}
    ask("send:rdma-write uint8[64]")
    assert set(nic.listeners) == {(HERE, "18602")}
    nic.taken = {(HERE, str(18600 + k)) for k in range(100)}
    with pytest.raises(
        DriverFault, match=r"^busy: no TCP port of 127\.0\.0\.1 from 18600 to 18699"
    ):
        ask("send:rdma-write uint8[64]")


def test_a_connection_that_does_not_come_about_is_a_fault(nic, ask):
    nic.refused = "REJECTED"
    with pytest.raises(
        DriverFault, match=r"^broken: rdma_cm: RDMA_CM_EVENT_REJECTED instead of ESTAB"
    ):
        ask("send:rdma-write uint8[64]")


@pytest.mark.parametrize(("op", "spec", "said"), [
    ("send:rdma-send uint8[64]", {"transport": "ud"}, "ud is not supported over iWARP, which is"),
    ("send:rdma-write uint8[64]", {"path_mtu": 1024}, "path_mtu is not supported over iWARP"),
    ("host:verbs-modify-rtr uint8[64]", {}, "siw1 is iWARP, whose queue pairs only rdma_cm"),
])  # fmt: skip
def test_what_tcp_does_not_have_is_refused_by_name(ask, op, spec, said):
    with pytest.raises(DriverFault, match=f"^unsupported: {said}"):
        ask(op, **spec)


def test_an_interface_without_an_address_is_named_with_the_cure(nic, ask, monkeypatch, tmp_path):
    for name in nic.names:
        (tmp_path / name / "ports/1/gid_attrs/ndevs/0").write_text("nobody0\n")
    with pytest.raises(DriverFault, match=r"^missing: nobody0: .*; give it an IPv4 address"):
        ask("send:rdma-write uint8[64]")


def test_perftest_whose_programs_connect_by_themselves_is_refused(nic):
    with pytest.raises(DriverFault, match=r"^unsupported: siw1 is iWARP.*take the driver verbs"):
        PerftestDriver().open({})
