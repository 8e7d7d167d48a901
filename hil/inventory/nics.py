"""RDMA adapters: what is missing before messages can be timed on the cards of a machine."""

from __future__ import annotations

from ...sim.errors import DriverFault
from ..drivers.rdma.rdma_ports import ACTIVE, RdmaPort, active_port
from .finding import Finding
from .machine import LOCKED, Machine

MELLANOX = "0x15b3"
NETWORK = ("0x0200", "0x0207")  # classes of Ethernet and InfiniBand controllers
NAMES = {  # pci.ids
    "0x1013": "ConnectX-4", "0x1015": "ConnectX-4 Lx", "0x1017": "ConnectX-5",
    "0x1019": "ConnectX-5 Ex", "0x101b": "ConnectX-6", "0x101d": "ConnectX-6 Dx",
    "0x101f": "ConnectX-6 Lx", "0x1021": "ConnectX-7", "0x1023": "ConnectX-8",
    "0xa2d6": "BlueField-2", "0xa2dc": "BlueField-3", "0x1018": "ConnectX-5 VF",
    "0x101c": "ConnectX-6 VF", "0x101e": "ConnectX-7 or Dx VF",
}  # fmt: skip
PCI = "sys/bus/pci/devices"
RDMA = "sys/class/infiniband"


def findings(machine: Machine) -> list[Finding]:
    """Findings about RDMA adapters: the first obstacle of each, then what all of them need."""
    cards = [a for a in machine.names(PCI) if _is_adapter(machine, a)]
    found = [_card(machine, address) for address in cards]
    soft = [d for d in machine.names(RDMA) if not _address_of(machine, d)]
    found += [_device(machine, name, "software RDMA") for name in soft]
    if not found:
        return [Finding("rdma", "off", "no ConnectX here, and no RDMA device")]
    return [*found, *_programs(machine), *_limits(machine)]


def _is_adapter(machine: Machine, address: str) -> bool:
    code, vendor = (machine.text(f"{PCI}/{address}/{n}") for n in ("class", "vendor"))
    return vendor == MELLANOX and code.startswith(NETWORK)


def _address_of(machine: Machine, device: str) -> str:
    """PCI address of an RDMA device; "" if the device is implemented in software."""
    address = machine.link_name(f"{RDMA}/{device}/device")
    return address if address in machine.names(PCI) else ""


def _card(machine: Machine, address: str) -> Finding:
    code = machine.text(f"{PCI}/{address}/device")
    what = f"{NAMES.get(code, f'adapter {MELLANOX}:{code}')} at {address}"
    if not machine.link_name(f"{PCI}/{address}/driver"):
        why = "no driver has it"
        return Finding("nic", "bad", f"{what}: {why}", "sudo modprobe mlx5_core")
    devices = [d for d in machine.names(RDMA) if _address_of(machine, d) == address]
    if not devices:
        return Finding("nic", "bad", f"{what}: has no RDMA device", "sudo modprobe mlx5_ib")
    return _device(machine, devices[0], what)


def _device(machine: Machine, name: str, what: str) -> Finding:
    """Finding about one RDMA device: the first obstacle to using it."""
    told = f"{name}, {what}"
    if not _verbs_file(machine, name):
        return Finding("nic", "bad", f"{told}: no /dev/infiniband/uverbs*",
                       "sudo modprobe ib_uverbs")  # fmt: skip
    try:
        port = active_port(name, machine.root / RDMA)
    except DriverFault as fault:
        return Finding("nic", "bad", f"{told}: {fault}", _cure(machine, name))
    return Finding("nic", "ok", f"{told}: port {port.number} is {_port_text(port)}")


def _verbs_file(machine: Machine, name: str) -> bool:
    """True if the device has a file through which programs can use it."""
    files = machine.names(f"{RDMA}/{name}/device/infiniband_verbs")
    there = machine.names("dev/infiniband")
    return any(f in there for f in files) if files else any(f.startswith("uverbs") for f in there)


def _port_text(port: RdmaPort) -> str:
    kinds = sorted({g.kind for g in port.gids})
    if port.infiniband:
        return f"{port.link_layer}, LID {port.lid}"
    return f"{port.link_layer}, {port.interface}, {' and '.join(kinds)}"


def _cure(machine: Machine, name: str) -> str:
    """Shell command that brings a port up or gives it an address."""
    folder = f"{RDMA}/{name}/ports/1"
    infiniband = machine.text(f"{folder}/link_layer") == "InfiniBand"
    interface = (machine.names(f"{RDMA}/{name}/device/net") or ["IFACE"])[0]
    if machine.text(f"{folder}/state") != ACTIVE:
        if infiniband:
            return "sudo systemctl start opensm  # on one host of the fabric, if no switch does it"
        return f"sudo ip link set {interface} up"
    return f"sudo ip addr add 192.168.77.1/24 dev {interface}  # .2 on the other host"


def _programs(machine: Machine) -> list[Finding]:
    """Findings about the software that times messages: pyverbs for driver verbs, and perftest."""
    told, has = machine.distribution, machine.has_program
    lacks = [] if has("ibv_devinfo") else [told.rdma]
    lacks += [] if has("ib_write_lat") else [told.perftest]
    usable = machine.runs_agents
    lacks += [] if machine.has_module("pyverbs") or not usable else [told.pyverbs]
    if lacks:
        return [Finding("rdma-core", "bad", f"{' '.join(lacks)} not installed",
                        f"{told.install} {' '.join(lacks)}")]  # fmt: skip
    if not usable:
        return [Finding("rdma-core", "ok", "libibverbs and perftest are installed; pyverbs belongs "
                        "to the system's Python, which runs no agent: take perftest")]  # fmt: skip
    return [Finding("rdma-core", "ok", "libibverbs, perftest and pyverbs are installed")]


def _limits(machine: Machine) -> list[Finding]:
    limit = machine.locked_limit()
    if limit >= LOCKED:
        return [Finding("memlock", "ok", "memory may be registered")]
    cure = "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/rdma.conf"
    return [Finding("memlock", "bad", f"{limit / 1024:.0f} KiB may be locked, too little to "
                    "register buffers", f"{cure}  # and log in again")]  # fmt: skip
