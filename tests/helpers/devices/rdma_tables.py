"""GID and port tables of real cards, as others published them, and what has to be chosen there.

A row of a table is index, GID, type and network interface, as ``show_gids`` prints them.
"""

from dataclasses import dataclass

V1, V2 = "IB/RoCE v1", "RoCE v2"
ACTIVE, DOWN = "4: ACTIVE", "1: DOWN"


def both(index, gid, interface):
    """An address as most cards list it: once for RoCE v1, then once for v2."""
    return (index, gid, V1, interface), (index + 1, gid, V2, interface)


def mapped(address):
    """GID of an IPv4 address.

    >>> mapped("12.12.11.12")
    '0000:0000:0000:0000:0000:ffff:0c0c:0b0c'
    """
    a, b, c, d = map(int, address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def of_guid(guid):
    """GID 0 of a port of InfiniBand: the default subnet's prefix and its GUID.

    InfiniBand Architecture Specification 1.4, section 4.1.1; IPoIB's address ends in it (RFC 4391).

    >>> of_guid("0x88e9a4ffff25a462")
    'fe80:0000:0000:0000:88e9:a4ff:ff25:a462'
    """
    digits = f"{0xFE80 << 112 | int(guid, 16):032x}"
    return ":".join(digits[at : at + 4] for at in range(0, 32, 4))


def infiniband(what, source, device, lid, guid, **more):
    """A port of InfiniBand, whose one GID is of v1 and no network interface's."""
    row = ((0, of_guid(guid), V1, ""),)
    return Table(what, source, device, row, right=0, link_layer="InfiniBand", lid=lid, **more)


@dataclass(frozen=True)
class Table:
    """One device: what its files say, the index that is right, and who published it."""

    what: str
    source: str
    device: str
    gids: tuple
    right: int
    port: int = 1
    link_layer: str = "Ethernet"
    lid: int = 0
    state: str = ACTIVE
    empty: tuple = ()
    node_type: str = "1: CA"


TABLES = (
    Table(
        "ConnectX-5, RoCE",
        "https://github.com/tensorflow/tensorflow/issues/22077 (2018-10-28)",
        "mlx5_0",
        (
            *both(0, "fe80:0000:0000:0000:268a:07ff:fe8f:9bbc", "eth4"),
            *both(2, mapped("12.12.11.12"), "eth4"),
        ),
        right=3,
    ),
    Table(
        "ConnectX-3, RoCE v1 only, a VLAN beside it",
        "https://github.com/tensorflow/tensorflow/issues/22077 (2018-10-28)",
        "mlx4_0",
        (
            (0, "fe80:0000:0000:0000:0202:c9ff:feb3:8421", V1, "eth2"),
            (1, mapped("12.12.12.12"), V1, "eth2"),
            (2, mapped("10.10.10.2"), V1, "eth2.10"),
        ),
        right=1,
    ),
    Table(
        "ConnectX-6, two link-local addresses before the IPv4 one",
        "https://github.com/IBM/SpectrumScale_NETWORK_READINESS/pull/4 (2021-03-24)",
        "mlx5_0",
        (
            *both(0, "fe80:0000:0000:0000:0e42:a1ff:fe5d:4db8", "ens1f0"),
            *both(2, "fe80:0000:0000:0000:1186:a6b1:3f0b:c441", "ens1f0"),
            *both(4, mapped("172.19.0.60"), "ens1f0"),
        ),
        right=5,
    ),
    Table(
        "ConnectX-6 of an A100 machine, bonded",
        "https://github.com/NVIDIA/nccl/issues/769 (2023-01-06); its bond is called bond0 here",
        "mlx5_bond_0",
        (
            *both(0, "fe80:0000:0000:0000:0ac0:ebff:feda:1cfb", "bond0"),
            *both(2, mapped("200.0.209.6"), "bond0"),
        ),
        right=3,
    ),
    Table(
        "bonded, an overlay with the same address before the bond's own",
        "https://github.com/openucx/ucx/pull/9484 (2023-11-13)",
        "mlx5_bond_0",
        (
            *both(0, "fe80:0000:0000:0000:0ac0:ebff:fe79:391a", "bond1"),
            *both(2, mapped("30.153.10.175"), "b3.vxlan.30100"),
            *both(4, mapped("30.153.10.175"), "bond1"),
        ),
        right=5,
    ),
    Table(
        "in a container behind macvlan: the first entries belong to others and read as zero",
        "https://github.com/NVIDIA/nccl/issues/1573 (2025-01-10)",
        "mlx5_1",
        (
            *both(4, "fe80:0000:0000:0000:9459:9bff:fe54:7704", "net2"),
            *both(6, mapped("10.152.4.12"), "net2"),
        ),
        right=7,
        empty=(0, 1, 2, 3),
    ),
    Table(
        "RoCE v2 only, IPv6 only: the global address, not the link-local one",
        "https://github.com/kvcache-ai/Mooncake/issues/1617 (rocep105s0)",
        "rocep105s0",
        (
            (0, "fe80:0000:0000:0000:0690:81ff:fe39:e3e8", V2, "enp105s0"),
            (1, "fd93:16d3:59b6:010d:0690:81ff:fe39:e3e8", V2, "enp105s0"),
        ),
        right=1,
    ),
    Table(
        "one of two bonds",
        "https://github.com/openucx/ucx/issues/10420 (show_gids of the client)",
        "mlx5_bond_0",
        (
            *both(0, "fe80:0000:0000:0000:a288:c2ff:feb4:87d6", "bond0"),
            *both(2, mapped("10.16.29.13"), "bond0"),
        ),
        right=3,
    ),
    Table(
        "ConnectX-7, RoCE",
        "port: https://github.com/deepseek-ai/DeepEP/issues/38 (mlx5_2: part 4129, Ethernet, LID "
        "0); order of types: https://github.com/ofiwg/libfabric/issues/12673 (mlx5 in RoCE mode); "
        "addresses of RFC 5737",
        "mlx5_2",
        (
            *both(0, "fe80:0000:0000:0000:a288:c2ff:fe7e:1dba", "ens2np0"),
            *both(2, mapped("192.0.2.10"), "ens2np0"),
        ),
        right=3,
    ),
    Table(
        "InfiniBand, 200 Gb/s",
        "LID: https://github.com/leptonai/gpud/pull/752 (mlx5_7); "
        "GIDs: https://github.com/ofiwg/libfabric/issues/12673 (mlx5 in IB mode: one, of v1)",
        "mlx5_7",
        ((0, "fe80:0000:0000:0000:58a2:e103:002a:09b8", V1, ""),),
        right=0,
        link_layer="InfiniBand",
        lid=13305,
    ),
    Table(
        "InfiniBand, LID beyond 4096",
        "https://github.com/linux-rdma/perftest/pull/214 (2023-06-16; ibp5: LID 0x1907, GID index "
        "0 254:128:0:0:0:0:0:0:148:109:174:3:0:50:7:120); type: ofiwg/libfabric/issues/12673",
        "ibp5",
        ((0, "fe80:0000:0000:0000:946d:ae03:0032:0778", V1, ""),),
        right=0,
        link_layer="InfiniBand",
        lid=0x1907,
    ),
    Table(
        "ConnectX-7 virtual function, InfiniBand",
        "https://github.com/deepseek-ai/DeepEP/issues/55 (mlx5_3: part 4126 with firmware 28.37, "
        "port_lid 1690, link_layer InfiniBand); its GID is of the GUID that is printed there",
        "mlx5_3",
        ((0, "fe80:0000:0000:0000:2dc3:190f:3d85:1cb6", V1, ""),),
        right=0,
        link_layer="InfiniBand",
        lid=1690,
    ),
    Table(
        "InfiniBand, 200 Gb/s, both ends of one switch",
        "https://github.com/openucx/ucx/issues/8851 (2023-02-07; mlx5_1: LID 0x06, Link type IB); "
        "GID: ofiwg/libfabric/issues/12673 (mlx5 in IB mode: one, of v1)",
        "mlx5_1",
        ((0, "fe80:0000:0000:0000:58a2:e103:002a:09b8", V1, ""),),
        right=0,
        link_layer="InfiniBand",
        lid=6,
    ),
    Table(
        "RoCE, one of several cards",
        "https://github.com/NVIDIA/nccl/issues/1131 (show_gids: mlx5_0)",
        "mlx5_0",
        (
            *both(0, "fe80:0000:0000:0000:a288:c2ff:fe5b:03ec", "ens3np0"),
            *both(2, mapped("11.0.0.72"), "ens3np0"),
        ),
        right=3,
    ),
    Table(
        "in a pod behind macvlan: no link-local entry, and it starts at 4",
        "https://github.com/k8snetworkplumbingwg/multus-cni/issues/1100 (2023-05-22; mlx5_4)",
        "mlx5_4",
        both(4, mapped("172.20.1.1"), "net1"),
        right=5,
        empty=(0, 1, 2, 3),
    ),
    Table(
        "ConnectX-3 virtual function, InfiniBand",
        "https://github.com/hustcat/k8s-rdma-device-plugin/issues/8 (mlx4_2: port_lid 1, sm_lid 2)",
        "mlx4_2",
        ((0, "fe80:0000:0000:0000:0014:0500:8cc6:cd0a", V1, ""),),
        right=0,
        link_layer="InfiniBand",
        lid=1,
    ),
    infiniband(
        "ConnectX-5, InfiniBand",
        "https://github.com/openucx/ucx/issues/8772 (ibstat of mlx5_0: MT4119, LID 44)",
        "mlx5_0",
        44,
        "0xec0d9a0300431464",
    ),
    infiniband(
        "ConnectX-5, InfiniBand, second port of the same card",
        "https://github.com/openucx/ucx/issues/8772 (ibstat of mlx5_1: LID 105)",
        "mlx5_1",
        105,
        "0xec0d9a0300431465",
    ),
    infiniband(
        "ConnectX-5, InfiniBand, one subnet manager for each port",
        "https://lore.kernel.org/linux-rdma/CAMGffE=9j+yWXhWj+X2XVYm018GBwOw4ZZxQ5GYs-rwrW4q3Kg"
        "@mail.gmail.com (2020-10-28; ibstat of mlx5_1: MT4119, LID 134, of the manager's LID 224)",
        "mlx5_1",
        134,
        "0x98039b03006c7913",
    ),
    infiniband(
        "ConnectX-6, InfiniBand",
        "https://github.com/openucx/ucx/issues/9908 (2024-05-28; ibv_devinfo -vv of mlx5_0: part "
        "4123, LID 4, GID[0] as it stands here)",
        "mlx5_0",
        4,
        "0x88e9a4ffff25a462",
    ),
    infiniband(
        "ConnectX-6, InfiniBand, beside an Ethernet card",
        "https://github.com/open-mpi/ompi/issues/9881 (2022; ibstat of ibp129s0f0: MT4123, LID "
        "19; show_gids there: index 0, v1, no interface)",
        "ibp129s0f0",
        19,
        "0xb8cef603001bc59e",
    ),
    infiniband(
        "ConnectX-6 virtual function, InfiniBand: its port's GUID is not its node's",
        "https://github.com/marconetto/azadventures, notes on InfiniBand (ibv_devinfo, ibstat of "
        "an HB120rs_v3: part 4124, LID 958)",
        "mlx5_ib0",
        958,
        "0x00155dfffd33ff56",
    ),
    infiniband(
        "ConnectX-7, InfiniBand",
        "https://github.com/deepseek-ai/DeepEP/issues/397 (2025-09-09; ibv_devinfo of mlx5_0: part "
        "4129, LID 3697)",
        "mlx5_0",
        3697,
        "0x58a2e103001a677e",
    ),
    Table(
        "bonded, its IPv4 address on a bridge above it",
        "https://github.com/openucx/ucx/issues/10651 (show_gids of mlx5_bond_1)",
        "mlx5_bond_1",
        (
            *both(0, "fe80:0000:0000:0000:eaeb:d3ff:fe3a:6940", "gateway"),
            *both(2, mapped("10.16.29.57"), "br-vsw-1"),
            *both(4, "fe80:0000:0000:0000:584b:59ff:fef5:6bac", "br-vsw-1"),
        ),
        right=3,
    ),
)
SOFT_IWARP = Table(
    "soft-iWARP: its one GID is the address of the interface's card",
    "Linux 6.12 in the lab, siw1 on nic1 (2026-11-23); here on the loopback, which has an address",
    "siw1",
    ((0, "0200:0000:0001:0000:0000:0000:0000:0000", V1, "lo"),),
    right=0,
    node_type="4: RNIC",
)
DOWN_PORT = Table(
    "ConnectX-7, InfiniBand, no cable",
    "https://github.com/deepseek-ai/DeepEP/issues/38 (2025-03-10; mlx5_0: port_lid 65535)",
    "mlx5_0",
    ((0, "fe80:0000:0000:0000:58a2:e103:002a:09b8", V1, ""),),
    right=0,
    link_layer="InfiniBand",
    lid=65535,
    state=DOWN,
)


def write_table(root, table, device=""):
    """Files of a device as the kernel has them, below ``root``; an unset type cannot be read."""
    folder = root / (device or table.device) / "ports" / str(table.port)
    for name in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (folder / name).mkdir(parents=True)
    for name, text in (
        ("link_layer", table.link_layer),
        ("lid", hex(table.lid)),
        ("state", table.state),
    ):
        (folder / name).write_text(text + "\n")
    (folder.parent.parent / "node_type").write_text(f"{table.node_type}\n")
    for index in table.empty:
        (folder / "gids" / str(index)).write_text(":".join(["0000"] * 8) + "\n")
    for index, gid, kind, interface in table.gids:
        (folder / "gids" / str(index)).write_text(gid + "\n")
        (folder / "gid_attrs/types" / str(index)).write_text(kind + "\n")
        if interface:
            (folder / "gid_attrs/ndevs" / str(index)).write_text(interface + "\n")
