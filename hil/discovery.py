"""Hardware inventory of this machine: GPUs and NICs with PCIe links and NUMA nodes, and NVLinks.

The inventory is read from sysfs, from NVML if installed, and from the system's list of PCI ids. A
device that the catalog knows gets the catalog's name. Any other device keeps its PCI ids and name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .pci_ids import LISTS, part_of_name, read_pci_names
from .sysfs import stripped_text

SYSFS = Path("/sys")
GPU, NETWORK, INFINIBAND, MEMORY = "0x03", "0x0200", "0x0207", "0x0502"  # PCI class codes
NVIDIA, AMD = "0x10de", "0x1002"
CATALOG = {  # vendor:device (pci.ids, 2025-06): part of the catalog
    "0x10de:0x20b2": "a100-sxm4-80g",
    "0x10de:0x2330": "h100-sxm5-80g",
    "0x10de:0x2335": "h200-sxm-141g",
    "0x15b3:0x1021": "connectx-7",
}
LANE = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}  # GT/s: generation


@dataclass(frozen=True)
class PciDevice:
    """PCI device that matters to a scenario: a GPU, a NIC or CXL memory.

    Parameters
    ----------
    address : PCI address, such as ``0000:17:00.0``
    kind : ``gpu``, ``nic`` or ``cxl``
    ids : PCI ids, ``vendor:device``
    numa : NUMA node; -1 if unknown
    link : negotiated PCIe link, such as ``pcie5-x16``; "" if unknown
    name : network interface of a NIC; "" for other devices
    model : name in the system's list of PCI ids; "" if not listed
    part : name in the catalog; "" if the catalog lacks it
    """

    address: str
    kind: str
    ids: str
    numa: int
    link: str
    name: str = ""
    model: str = ""
    part: str = ""

    @property
    def ids_and_name(self) -> str:
        """PCI ids of the device, followed by its name in the system's list of PCI ids."""
        return f"{self.ids} ({self.model})" if self.model else self.ids


@dataclass(frozen=True)
class MachineFacts:
    """Inventory of one machine.

    Parameters
    ----------
    host : host name
    devices : GPUs, NICs and CXL memory
    nodes : CPU list and memory in B of each NUMA node, by node number
    nvlinks : number of NVLinks between two GPUs, by their PCI addresses
    """

    host: str
    devices: tuple[PciDevice, ...] = ()
    nodes: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    nvlinks: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def devices_of_kind(self, kind: str) -> tuple[PciDevice, ...]:
        """Devices of one kind (``gpu``, ``nic`` or ``cxl``), sorted by PCI address."""
        return tuple(d for d in self.devices if d.kind == kind)

    def yaml(self) -> str:
        """YAML text of a scenario's ``cluster:`` section for this machine.

        Facts that the section cannot express are written as comments.

        >>> gpu = PciDevice(
        ...     "0000:17:00.0", "gpu", "0x10de:0x2335", 0, "pcie5-x16", part="h200-sxm-141g")
        >>> print(MachineFacts("box", (gpu,), {0: ("0-7", 2**34)}).yaml())
        # discovered on box
        # numa node 0: processors 0-7, 17.2 GB
        # gpu 0000:17:00.0 0x10de:0x2335 numa 0, pcie5-x16
        cluster:
          nodes: 1
          node:
            gpu: {model: h200-sxm-141g, count: 1}
        <BLANKLINE>
        """
        lines = [f"# discovered on {self.host}"]
        for node, (cpus, size) in sorted(self.nodes.items()):
            lines.append(f"# numa node {node}: processors {cpus}, {size / 1e9:.1f} GB")
        lines += [_device_comment(d) for d in self.devices]
        lines += [f"# {n} nvlinks join {a} and {b}" for (a, b), n in sorted(self.nvlinks.items())]
        lines += [f"# {line}" for line in self._affinity_lines()]
        lines += ["cluster:", "  nodes: 1", "  node:"]
        return "\n".join([*lines, *self._lines_of_parts()]) + "\n"

    def _lines_of_parts(self) -> Iterable[str]:
        for kind in ("gpu", "nic", "cxl"):
            found = self.devices_of_kind(kind)
            names = sorted({d.part for d in found})
            if len(names) > 1:
                yield f"    # {kind}: several models {names}; a scenario's machines have one"
            elif found and names[0]:
                yield f"    {kind}: {{model: {names[0]}, count: {len(found)}}}"
            elif found:
                name = found[0].ids_and_name
                yield f"    # {kind}: {len(found)} of {name}, which no catalog names"
        if not self.devices_of_kind("gpu"):
            yield "    gpu:  # none found; name the part that plays the accelerator"

    def _affinity_lines(self) -> list[str]:
        """Comment lines that list, for each GPU, the NICs on the same NUMA node."""
        lines = []
        for gpu in self.devices_of_kind("gpu"):
            near = [
                n.name or n.address for n in self.devices_of_kind("nic") if n.numa == gpu.numa >= 0
            ]
            lines.append(
                f"gpu {gpu.address} is nearest to {', '.join(near) or 'no nic of a known node'}"
            )
        return lines if self.devices_of_kind("nic") else []


def discover(
    host: str,
    root: Path = SYSFS,
    parts: Iterable[str] = (),
    lists: Iterable[Path] = LISTS,
) -> MachineFacts:
    """Take the hardware inventory of this machine from sysfs and NVML.

    Parameters
    ----------
    host : name of this machine
    root : path where sysfs is mounted
    parts : names of catalog parts to match devices against
    lists : candidate paths of the list of PCI ids; the first that exists is read

    Examples
    --------
    >>> discover("box", Path("/nonexistent")).devices
    ()
    """
    folders = sorted((root / "bus/pci/devices").glob("*"))
    names, known = read_pci_names(lists), tuple(parts)
    devices = [
        _with_model(found, names.get(found.ids, ""), known)
        for found in map(_read_device, folders)
        if found
    ]
    return MachineFacts(host, tuple(devices), _numa_nodes(root), nvlinks())


def _read_device(folder: Path) -> PciDevice | None:
    code = stripped_text(folder / "class")
    vendor, model = stripped_text(folder / "vendor"), stripped_text(folder / "device")
    kind = ""
    if code.startswith(GPU) and vendor in (NVIDIA, AMD):
        kind = "gpu"
    elif code.startswith((NETWORK, INFINIBAND)):
        kind = "nic"
    elif code.startswith(MEMORY):
        kind = "cxl"
    if not kind:
        return None
    numa = int(stripped_text(folder / "numa_node") or -1)
    names = sorted(p.name for p in (folder / "net").glob("*"))
    return PciDevice(
        folder.name, kind, f"{vendor}:{model}", numa, _pcie_link(folder), names[0] if names else ""
    )


def _with_model(device: PciDevice, model: str, parts: Sequence[str]) -> PciDevice:
    """Copy of a device with its model name and the catalog part that matches its ids or name."""
    part = CATALOG.get(device.ids) or part_of_name(model, parts)
    return replace(device, model=model, part=part)


def _pcie_link(folder: Path) -> str:
    """Negotiated PCIe generation and width, such as ``pcie5-x16``; "" if unknown."""
    speed = stripped_text(folder / "current_link_speed").partition(" ")[0]
    width = stripped_text(folder / "current_link_width")
    return f"pcie{LANE[speed]}-x{width}" if speed in LANE and width.isdigit() else ""


def _numa_nodes(root: Path) -> dict[int, tuple[str, int]]:
    found = {}
    for folder in (root / "devices/system/node").glob("node[0-9]*"):
        total = re.search(r"MemTotal:\s+(\d+) kB", stripped_text(folder / "meminfo"))
        size = int(total[1]) * 1024 if total else 0
        found[int(folder.name[4:])] = (stripped_text(folder / "cpulist") or "none", size)
    return found


def nvlinks() -> dict[tuple[str, str], int]:
    """Number of active NVLinks by pair of GPUs; empty without NVML or without NVLinks."""
    try:
        import pynvml as nvml
    except ImportError:
        return {}
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # no driver, no GPU: nothing that NVLink could join
        return {}
    found: dict[tuple[str, str], int] = {}
    for i in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(i)
        own = str(nvml.nvmlDeviceGetPciInfo(handle).busId)
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            try:
                if nvml.nvmlDeviceGetNvLinkState(handle, link):
                    other = str(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)
                    found[own, other] = found.get((own, other), 0) + 1
            except nvml.NVMLError:
                break
    return found


def _device_comment(device: PciDevice) -> str:
    lines = [f"numa {device.numa}" if device.numa >= 0 else "", device.link, device.name]
    rest = ", ".join(t for t in lines if t)
    return f"# {device.kind} {device.address} {device.ids_and_name} {rest}".rstrip()
