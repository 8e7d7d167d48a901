"""GPUs: what is missing before ops can be timed on the GPUs of a machine."""

from __future__ import annotations

from ..discovery import CATALOG, GPU, NVIDIA
from .finding import Finding
from .machine import Machine

PCI = "sys/bus/pci/devices"
OPEN = "Open Kernel Module"


def findings(machine: Machine, packages: frozenset[str]) -> list[Finding]:
    """Findings about all GPUs: the first obstacle to using them.

    If there is none, further findings are about the Python packages and about dma-buf.

    Parameters
    ----------
    packages : installed Python packages, of those that the driver ``torch`` needs
    """
    cards = [a for a in machine.names(PCI) if _is_gpu(machine, a)]
    if not cards:
        return [Finding("gpu", "off", "no NVIDIA GPU here")]
    kinds = [machine.text(f"{PCI}/{a}/device") for a in cards]
    parts = sorted({CATALOG.get(f"{NVIDIA}:{k}", f"{NVIDIA}:{k}") for k in kinds})
    what = f"{len(cards)} of {', '.join(parts)}"
    drivers = {machine.link_name(f"{PCI}/{a}/driver") for a in cards}
    if drivers != {"nvidia"}:
        told = ", ".join(sorted(d or "none" for d in drivers))
        return [Finding("gpu", "bad", f"{what}: its driver is {told}, not nvidia",
                        machine.distribution.nvidia)]  # fmt: skip
    if not any(n.startswith("nvidia") and n[6:].isdigit() for n in machine.names("dev")):
        return [Finding("gpu", "bad", f"{what}: no /dev/nvidia0", "sudo nvidia-modprobe -u -c 0")]
    return [Finding("gpu", "ok", f"{what}: driver nvidia"), *_packages(packages), _exports(machine)]


def _is_gpu(machine: Machine, address: str) -> bool:
    code, vendor = (machine.text(f"{PCI}/{address}/{n}") for n in ("class", "vendor"))
    return vendor == NVIDIA and code.startswith(GPU)


def _packages(packages: frozenset[str]) -> list[Finding]:
    lacks = [n for n in ("torch", "nvidia-ml-py") if n not in packages]
    if lacks:
        return [Finding("torch", "bad", f"{' and '.join(lacks)} not in this Python",
                        f"pip install {' '.join(lacks)}")]  # fmt: skip
    return [Finding("torch", "ok", "torch and nvidia-ml-py are here")]


def _exports(machine: Machine) -> Finding:
    """Finding whether a NIC can register the GPU's memory (dma-buf)."""
    version = machine.text("proc/driver/nvidia/version")
    if OPEN in version:
        return Finding("dma-buf", "ok", "open kernel modules: a NIC can register its memory")
    return Finding("dma-buf", "off", "the kernel modules are NVIDIA's closed ones, or unknown: no "
                   "NIC can register its memory", machine.distribution.nvidia)  # fmt: skip
