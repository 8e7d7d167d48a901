"""CXL memory: what is missing before pages can be placed on an expander."""

from __future__ import annotations

from .finding import Finding
from .machine import Machine

PCI, BUS, DAX = "sys/bus/pci/devices", "sys/bus/cxl/devices", "sys/bus/dax/devices"
NODES = "sys/devices/system/node"
MEMORY = "0x0502"  # class of CXL memory


def findings(machine: Machine) -> list[Finding]:
    """One finding about all CXL expanders: the first obstacle to using them."""
    cards = [a for a in machine.names(PCI) if machine.text(f"{PCI}/{a}/class").startswith(MEMORY)]
    memories = [n for n in machine.names(BUS) if n.startswith("mem")]
    if not cards and not memories:
        return [Finding("cxl", "off", "no CXL memory here")]
    if not memories:
        return [Finding("cxl", "bad", f"{len(cards)} expanders without a driver",
                        "sudo modprobe -a cxl_acpi cxl_pci cxl_port cxl_mem")]  # fmt: skip
    told = ", ".join(memories)
    if bare := [n for n in _nodes(machine) if _is_memory_alone(machine, n)]:
        return [Finding("cxl", "ok", f"{told}: {', '.join(bare)} has memory and no processor")]
    if dax := [n for n in machine.names(DAX) if n.startswith("dax")]:
        return [Finding("cxl", "bad", f"{told}: {dax[0]} is no NUMA node yet", _tool(
            machine, f"sudo daxctl reconfigure-device --mode=system-ram {dax[0]}"))]  # fmt: skip
    decoder = next((n for n in machine.names(BUS) if n.startswith("decoder0.")), "decoder0.0")
    return [Finding("cxl", "bad", f"{told}: has no region", _tool(
        machine, f"sudo cxl create-region -m -t ram -d {decoder} {memories[0]}"))]  # fmt: skip


def _tool(machine: Machine, command: str) -> str:
    """Shell command, preceded by the command that installs its program if that is missing."""
    if machine.has_program(command.split()[1]):
        return command
    told = machine.distribution
    return f"{told.install} {told.cxl} && {command}"


def _nodes(machine: Machine) -> list[str]:
    return [n for n in machine.names(NODES) if n.startswith("node") and n[4:].isdigit()]


def _is_memory_alone(machine: Machine, node: str) -> bool:
    words = machine.text(f"{NODES}/{node}/meminfo").split()
    size = words[words.index("MemTotal:") + 1] if "MemTotal:" in words else "0"
    return not machine.text(f"{NODES}/{node}/cpulist") and int(size) > 0
