"""GIDs, LIDs and ports: what is chosen on tables of real cards, for pyverbs and for perftest."""

import shutil
from dataclasses import replace

import pytest
from foretrace.hil.drivers.rdma import rdma_ports
from foretrace.hil.drivers.rdma.perftest import PerftestDriver, port_arguments
from foretrace.sim.errors import DriverFault
from pyverbs_stand_in import Network, install
from rdma_tables import (
    DOWN_PORT,
    SOFT_IWARP,
    TABLES,
    V2,
    both,
    mapped,
    write_table,
)


def another(table):
    """The same card in another host: its neighbour's addresses."""
    rows = tuple((index, gid[:-1] + "e", kind, name) for index, gid, kind, name in table.gids)
    return replace(table, gids=rows, lid=table.lid and table.lid + 1)


@pytest.fixture(params=TABLES, ids=lambda t: t.what)
def pair(request, tmp_path):
    """A published table, and the ports of it and of its neighbour."""
    write_table(tmp_path, request.param)
    write_table(tmp_path, another(request.param), "peer")
    ports = [rdma_ports.active_port(name, tmp_path) for name in (request.param.device, "peer")]
    return request.param, *ports


def test_index_type_and_lid_are_right_on_published_tables(pair):
    table, one, other = pair
    gid, at_peer = rdma_ports.gid_pair(one, other)
    kinds = {index: kind for index, _, kind, _ in table.gids}
    assert (gid.index, gid.kind, one.lid) == (table.right, kinds[table.right], table.lid)
    assert (at_peer.index, at_peer.kind, at_peer.family) == (gid.index, gid.kind, gid.family)


def test_perftest_is_given_the_same_index_and_none_where_a_lid_suffices(pair):
    table, one, other = pair
    words = port_arguments(one, *rdma_ports.gid_pair(one, other))
    index = [] if table.link_layer == "InfiniBand" else ["-x", str(table.right)]
    assert words == ["-d", table.device, "-i", "1", *index]


def test_subnets_of_infiniband_are_crossed_by_gid():
    assert not rdma_ports.crosses_subnets(*addresses("fe80::1", "fe80::2"))
    assert rdma_ports.crosses_subnets(*addresses("fec0:0:0:1::1", "fec0:0:0:2::2"))


def addresses(*texts):
    return [rdma_ports.IPv6Address(text) for text in texts]


CARDS = ("ConnectX-5", "ConnectX-6", "ConnectX-7")


@pytest.mark.parametrize("card", CARDS)
def test_each_card_has_published_tables_of_both_link_layers(card):
    """Whole ones: a named device, its GIDs, its LID on InfiniBand, and who published it."""
    tables = [table for table in TABLES if table.what.startswith(card)]
    assert {table.link_layer for table in tables} == {"Ethernet", "InfiniBand"}
    assert all(bool(table.lid) == (table.link_layer == "InfiniBand") for table in tables)
    assert all(table.gids and "https://" in table.source for table in tables)


@pytest.mark.parametrize("kind", ["bonded", "virtual function", "VLAN"])
def test_bonds_virtual_functions_and_vlans_are_among_the_published_tables(kind):
    assert any(kind in table.what for table in TABLES)


def test_an_address_vector_on_infiniband_is_the_peers_lid(tmp_path, monkeypatch):
    """Both ends of one card's ports, as published: LID 44 reaches LID 105, without a GRH."""
    install(monkeypatch, Network(names=("one", "other")))
    monkeypatch.setattr(rdma_ports, "DEVICES", tmp_path)
    for name, what in (
        ("one", "InfiniBand"),
        ("other", "InfiniBand, second port of the same card"),
    ):
        write_table(tmp_path, next(t for t in TABLES if t.what == f"ConnectX-5, {what}"), name)
    from foretrace.hil.drivers.rdma.rdma_end import EndpointSettings, connected_pair

    near, far = connected_pair(("one", "other"), EndpointSettings("rc", 64))
    for end, peer in ((near, 105), (far, 44)):
        way = end.address_vector(end.peer).named
        assert (way["dlid"], way["is_global"], "gr" in way) == (peer, 0, False)


def test_a_port_that_is_down_is_named_with_its_state(tmp_path):
    write_table(tmp_path, DOWN_PORT)
    with pytest.raises(DriverFault, match=r"^missing: mlx5_0: port 1 is 1: DOWN; bring its link"):
        rdma_ports.active_port("mlx5_0", tmp_path)


def test_of_two_ports_the_active_one_is_taken(tmp_path):
    write_table(tmp_path, DOWN_PORT)
    write_table(tmp_path, replace(TABLES[1], port=2), "mlx5_0")
    port = rdma_ports.active_port("mlx5_0", tmp_path)
    assert (port.number, port.link_layer) == (2, "Ethernet")


def test_a_port_without_an_address_says_so(tmp_path):
    write_table(tmp_path, replace(TABLES[0], gids=(), empty=(0, 1)))
    with pytest.raises(DriverFault, match=r"has no GID; give its network interface an address"):
        rdma_ports.active_port("mlx5_0", tmp_path)


def test_iwarp_is_told_by_its_node_type_and_reaches_iwarp_alone(tmp_path):
    write_table(tmp_path, SOFT_IWARP)
    write_table(tmp_path, TABLES[0])
    one, other = (rdma_ports.active_port(n, tmp_path) for n in ("siw1", TABLES[0].device))
    assert (one.iwarp, other.iwarp) == (True, False)
    assert rdma_ports.describe_ports(one, one)["way"] == "rdma_cm over lo"
    with pytest.raises(DriverFault, match=r"siw1 is iWARP, mlx5_0 is Ethernet; name a peer"):
        rdma_ports.gid_pair(one, other)


VLAN = replace(
    TABLES[0],
    gids=(*TABLES[0].gids, *both(4, mapped("10.100.0.1"), "eth4.100")),
    source="the first table, with the address of a VLAN that Linux would append",
)
POD = next(table for table in TABLES if table.device == "mlx5_4")
OTHER_POD = replace(POD, gids=both(6, mapped("172.20.1.2"), "net1"), empty=tuple(range(6)))


def test_ends_whose_tables_begin_elsewhere_take_an_index_each(tmp_path):
    """The two pods of multus-cni/issues/1100: one index for both is what did not work there."""
    for name, table in (("one", POD), ("other", OTHER_POD)):
        write_table(tmp_path, table, name)
    ports = [rdma_ports.active_port(name, tmp_path) for name in ("one", "other")]
    assert [g.index for g in rdma_ports.gid_pair(*ports)] == [5, 7]
    assert [g.kind for g in rdma_ports.gid_pair(*ports)] == [V2, V2]


@pytest.mark.parametrize(
    ("lost", "cure"), [("program", "apt install perftest"), ("device", "rdma link add")]
)
def test_perftest_says_to_install_only_what_is_missing(tmp_path, monkeypatch, lost, cure):
    monkeypatch.setattr(rdma_ports, "DEVICES", tmp_path)
    there = None if lost == "program" else "/usr/bin/ib_send_lat"
    monkeypatch.setattr(shutil, "which", lambda name: there)
    found = PerftestDriver().probe()
    assert found.kind == "missing"
    assert cure in found.cure
    assert ("install" in found.cure) == (lost == "program")


ELSEWHERE = replace(
    TABLES[0],
    gids=(
        (0, "fe80:0000:0000:0000:268a:07ff:fe8f:9b00", V2, "eth0"),
        (1, mapped("10.100.0.2"), V2, "eth0.100"),
        (2, mapped("12.12.11.13"), V2, "eth0"),
    ),
)


@pytest.mark.parametrize(("asked", "own", "of_peer"), [(-1, 3, 2), (5, 5, 1)])
def test_the_peer_takes_the_address_of_the_same_vlan(tmp_path, asked, own, of_peer):
    for name, table in (("one", VLAN), ("other", ELSEWHERE)):
        write_table(tmp_path, table, name)
    ports = [rdma_ports.active_port(name, tmp_path) for name in ("one", "other")]
    assert [g.index for g in rdma_ports.gid_pair(*ports, asked)] == [own, of_peer]


def test_ends_without_a_common_kind_are_refused_with_both_names(tmp_path):
    infiniband = next(table for table in TABLES if table.lid)
    for name, table in (("one", TABLES[1]), ("other", ELSEWHERE), ("ib", infiniband)):
        write_table(tmp_path, table, name)
    one, other, ib = (rdma_ports.active_port(n, tmp_path) for n in ("one", "other", "ib"))
    with pytest.raises(DriverFault, match=r"one has IB/RoCE v1 ipv4, .*which other does not have"):
        rdma_ports.gid_pair(one, other)
    with pytest.raises(DriverFault, match="other is Ethernet, ib is InfiniBand"):
        rdma_ports.gid_pair(other, ib)
