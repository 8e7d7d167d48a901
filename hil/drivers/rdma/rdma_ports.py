"""Ports of RDMA devices as the kernel reports them in sysfs: link layer, LID, state, GIDs by type.

A GID table lists an address once for RoCE v1 and once for v2. Their order differs between cards, so
only ``gid_attrs/types`` distinguishes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from ....sim.errors import DriverFault
from ...measuring.device_lock import lock_device
from ...sysfs import stripped_text

DEVICES = Path("/sys/class/infiniband")
INFINIBAND, IWARP, ROCE_V2 = "InfiniBand", "iWARP", "RoCE v2"
RNIC = "4: RNIC"  # node type of iWARP
ACTIVE = "4: ACTIVE"
SUBNET = 64  # bits of a GID that name its InfiniBand subnet
LINK_LOCAL = "link-local"
ONE_PORT = "that NIC alone, its own peer"  # what of the network is inside a sample
TWO_PORTS = "two ports of one host: both NICs and all between them"
TWO_HOSTS = "two hosts: both NICs and all between them"
FAMILIES = ("ipv4", "ipv6", LINK_LOCAL)


@dataclass(frozen=True)
class Gid:
    """Entry of a port's GID table.

    Parameters
    ----------
    index : index in the GID table
    address : 128 bits, as an IPv6 address
    kind : ``IB/RoCE v1`` or ``RoCE v2``, in the spelling of the kernel
    interface : network interface that has the address; "" on InfiniBand

    Examples
    --------
    >>> Gid(3, IPv6Address("::ffff:12.12.11.12"), ROCE_V2, "eth4").family
    'ipv4'
    """

    index: int
    address: IPv6Address
    kind: str
    interface: str

    @property
    def text(self) -> str:
        """Address in eight groups, the format that libibverbs reads."""
        digits = f"{int(self.address):032x}"
        return ":".join(digits[i : i + 4] for i in range(0, 32, 4))

    @property
    def family(self) -> str:
        """Address family: ``ipv4``, ``ipv6`` or ``link-local``."""
        if self.address.ipv4_mapped:
            return "ipv4"
        return LINK_LOCAL if self.address.is_link_local else "ipv6"


@dataclass(frozen=True)
class RdmaPort:
    """Port of an RDMA device.

    Parameters
    ----------
    number : port number, from 1
    link_layer : ``Ethernet``, ``InfiniBand``, or ``iWARP`` (RDMA over TCP)
    lid : local identifier assigned by the subnet manager; 0 on Ethernet
    state : state in the spelling of the kernel; ``4: ACTIVE`` if it works
    gids : non-empty entries of the GID table, ordered by index
    """

    device: str
    number: int
    link_layer: str
    lid: int
    state: str
    gids: tuple[Gid, ...]

    @property
    def infiniband(self) -> bool:
        """True if peers are reached by LID."""
        return self.link_layer == INFINIBAND

    @property
    def iwarp(self) -> bool:
        """True if queue pairs are TCP connections, which only rdma_cm can create."""
        return self.link_layer == IWARP

    @property
    def interface(self) -> str:
        """Network interface of the port itself, taken from the first GIDs of its table."""
        return self.gids[0].interface


def rdma_devices(root: Path | None = None) -> tuple[str, ...]:
    """Names of the RDMA devices of this machine.

    >>> rdma_devices(Path("/nonexistent"))
    ()
    """
    root = root or DEVICES
    return tuple(sorted(f.name for f in root.iterdir())) if root.is_dir() else ()


def device_and_peer(
    device: str, peer: str, names: Sequence[str], alone: bool = False
) -> tuple[str, str]:
    """Names of the two devices of a transfer: the requested ones, or the first ones here.

    Parameters
    ----------
    device, peer : requested names; "" for the default
    names : devices of this machine
    alone : True if the peer is on another host; its name is then returned as ""

    Raises
    ------
    DriverFault
        ``missing``: a device does not exist, or no device can be the peer.

    Examples
    --------
    >>> device_and_peer("mlx5_1", "", ["mlx5_0", "mlx5_1"])
    ('mlx5_1', 'mlx5_0')
    >>> device_and_peer("", "", ["mlx5_0"])
    Traceback (most recent call last):
    foretrace.sim.errors.DriverFault: missing: mlx5_0 is the only RDMA device here, and has no ...
    """
    if lost := [name for name in (device, peer) if name and name not in names]:
        raise DriverFault("missing", f"no RDMA device {lost[0]!r}; there are: {tuple(names)}")
    if not names:
        raise DriverFault("missing", "no RDMA device; load a driver: rdma link add")
    if alone:
        return device or names[0], ""
    if len(names) == 1 and not (device and peer):
        only = names[0]
        raise DriverFault("missing", f"{only} is the only RDMA device here, and has no peer; "
                          f"set device and peer to {only} to measure that NIC alone")  # fmt: skip
    device = device or next(name for name in names if name != peer)
    return device, peer or next(name for name in names if name != device)


def lock_rdma_devices(names: Iterable[str]) -> ExitStack:
    """Lock RDMA devices for this process, against all drivers; held until the stack is closed.

    Raises
    ------
    DriverFault
        ``busy``: another process measures one of them.
    """
    with ExitStack() as held:
        for name in sorted({*names} - {""}):
            held.enter_context(lock_device(f"rdma-{name}"))
        return held.pop_all()


def describe_ends(device: str, peer: str, index: int = -1) -> dict[str, str]:
    """Provenance of a sample between two ports.

    It has the devices, their GIDs or LIDs, and the parts of the network that the sample includes.
    """
    told = describe_ports(active_port(device), active_port(peer), index)
    inside = ONE_PORT if device == peer else TWO_PORTS
    return {**told, "device": f"{device}-{peer}", "inside": inside}


def describe_ports(one: RdmaPort, other: RdmaPort, index: int = -1) -> dict[str, str]:
    """Description of how one port reaches another: link layer, and the GID or LID in use."""
    gid, _ = gid_pair(one, other, index)
    way = f"LID {one.lid}" if one.infiniband else f"GID {gid.index} {gid.kind} {gid.interface}"
    way = f"rdma_cm over {gid.interface}" if one.iwarp else way
    return {"link_layer": one.link_layer, "way": way}


def is_iwarp(device: str, root: Path | None = None) -> bool:
    """True if a device is iWARP, from its node type in sysfs.

    >>> is_iwarp("mlx5_0", Path("/nonexistent"))
    False
    """
    return stripped_text((root or DEVICES) / device / "node_type").startswith(RNIC)


def active_port(device: str, root: Path | None = None) -> RdmaPort:
    """First active port of a device.

    Raises
    ------
    DriverFault
        ``missing``: no port is active, or the port has no GID.
    """
    root = root or DEVICES
    folders = sorted((root / device / "ports").glob("*"), key=lambda f: int(f.name))
    ports = [_read_port(device, folder, is_iwarp(device, root)) for folder in folders]
    found = next((p for p in ports if p.state == ACTIVE), None)
    if found is None:
        states = ", ".join(f"port {p.number} is {p.state}" for p in ports) or "it has no port"
        raise DriverFault("missing", f"{device}: {states}; bring its link up")
    if not found.gids:
        raise DriverFault("missing", f"{device} port {found.number} has no GID; give its network "
                          "interface an address")  # fmt: skip
    return found


def gid_pair(one: RdmaPort, other: RdmaPort, index: int = -1) -> tuple[Gid, Gid]:
    """GIDs by which two ports reach each other.

    Both GIDs have the same type and address family. The preference is RoCE v2 before v1, other
    addresses before link-local ones, the port's own interface before VLANs and overlays, IPv4
    before IPv6. For the other port, the address with the most leading bits in common is chosen,
    which is in the same subnet.

    Parameters
    ----------
    index : index in the first port's GID table; -1 to choose

    Raises
    ------
    DriverFault
        ``unsupported``: the entry does not exist, the link layers differ, or the other port has no
        entry of the same type and family.
    """
    if one.link_layer != other.link_layer:
        raise DriverFault("unsupported", f"{one.device} is {one.link_layer}, {other.device} is "
                          f"{other.link_layer}; name a peer of the same kind")  # fmt: skip
    chosen = [g for g in one.gids if index in (-1, g.index)]
    for gid in sorted(chosen, key=lambda g: _preference(g, one)):
        alike = [g for g in other.gids if (g.kind, g.family) == (gid.kind, gid.family)]
        if alike:
            alike.sort(key=lambda g: _preference(g, other))
            return gid, max(alike, key=lambda g: _common_bits(gid.address, g.address))
    kinds = sorted({f"{g.kind} {g.family}" for g in chosen})
    raise DriverFault("unsupported", f"{one.device} has {', '.join(kinds) or f'no GID {index}'}, "
                      f"which {other.device} does not have; give both ports addresses of the same "
                      "kind and family, or choose another gid")  # fmt: skip


def crosses_subnets(one: IPv6Address, other: IPv6Address) -> bool:
    """True if two InfiniBand GIDs are in different subnets, so that a LID does not suffice.

    >>> crosses_subnets(IPv6Address("fe80::1"), IPv6Address("fe80::2"))
    False
    """
    return _common_bits(one, other) < SUBNET


def _preference(gid: Gid, port: RdmaPort) -> tuple[bool, bool, bool, int, int]:
    return (gid.kind != ROCE_V2, gid.family == LINK_LOCAL, gid.interface != port.interface,
            FAMILIES.index(gid.family), gid.index)  # fmt: skip


def _common_bits(one: IPv6Address, other: IPv6Address) -> int:
    return 128 - (int(one) ^ int(other)).bit_length()


def _read_port(device: str, folder: Path, iwarp: bool) -> RdmaPort:
    indices = sorted(int(f.name) for f in (folder / "gids").glob("*"))
    gids = [gid for gid in (_read_gid(folder, index) for index in indices) if gid]
    return RdmaPort(
        device, int(folder.name), IWARP if iwarp else stripped_text(folder / "link_layer"),
        int(stripped_text(folder / "lid") or "0", 16), stripped_text(folder / "state"), tuple(gids),
    )  # fmt: skip


def _read_gid(folder: Path, index: int) -> Gid | None:
    """Read an entry of a GID table; None if empty."""
    text = stripped_text(folder / "gids" / str(index))
    if not text or not int(IPv6Address(text)):
        return None
    types, interfaces = (folder / "gid_attrs" / name / str(index) for name in ("types", "ndevs"))
    return Gid(index, IPv6Address(text), stripped_text(types), stripped_text(interfaces))
