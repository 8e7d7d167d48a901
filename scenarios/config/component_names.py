"""Meaning of component names, kinds, path reasons, time breakdown parts and error sources.

The meaning follows from the form of a name (``leaf1.up``, ``node0.gpu0.to_nic``). Rates and
users of a component need a machine: see ``studies.explaining.part_explanation``.
"""

from __future__ import annotations

import re

NODE, LEAF, SWITCH = r"node\d+", r"leaf\d+", r"(?:leaf|spine|core|router)\d+"
GPU, NIC = rf"{NODE}\.gpu\d+", rf"{NODE}\.nic\d+"
FORMS = (
    (NODE, "A machine; machines are numbered from 0, across all kinds of machine."),
    (rf"{NODE}\.host", "The CPU of a machine; its cores run host ops."),
    (rf"{NODE}\.dram", "The DRAM of a machine; all reads and writes share its bandwidth."),
    (rf"{NODE}\.cxl", "The CXL memory of a machine; all accesses share its bandwidth."),
    (GPU, "A GPU; its streams run kernels."),
    (rf"{GPU}\.dma", "The copy engines of a GPU; they copy while kernels run."),
    (rf"{GPU}\.hbm", "The memory bandwidth of a GPU, shared by its kernels and copies."),
    (rf"{GPU}\.memory", "The memory capacity of a GPU; jobs hold the part that they need."),
    (rf"{GPU}\.core", "Compute time of a GPU, shared by kernels and the communication library."),
    (rf"{GPU}\.tx", "Data that a GPU sends to the other GPUs (links: from gpu, to gpu)."),
    (rf"{GPU}\.rx", "Data that a GPU receives from the other GPUs (links: from gpu, to gpu)."),
    (rf"{GPU}\.d2h", "The link from a GPU to its host (links: from gpu, to host)."),
    (rf"{GPU}\.h2d", "The link from a host to its GPU (links: from gpu, to host)."),
    (rf"{GPU}\.to_nic", "The link from a GPU to its NIC (links: from gpu, to nic)."),
    (rf"{GPU}\.from_nic", "The link from a NIC to its GPU (links: from gpu, to nic)."),
    (NIC, "A network adapter (NIC); its two directions are .tx and .rx."),
    (rf"{NIC}\.tx", "The sending direction of a NIC."),
    (rf"{NIC}\.rx", "The receiving direction of a NIC."),
    (rf"{NODE}\.pcie_switch\d+", "A PCIe switch; its host link has the directions .up and .down."),
    (rf"{NODE}\.pcie_switch\d+\.up", "The link from a PCIe switch to the host."),
    (rf"{NODE}\.pcie_switch\d+\.down", "The link from the host to a PCIe switch."),
    (LEAF, "A leaf switch; NICs are connected to it."),
    (r"spine\d+", "A switch above the leaves."),
    (r"core\d+", "A switch above the spines of several pods."),
    (r"router\d+", "A router of a torus or a dragonfly."),
    (rf"{LEAF}\.up", "All links from a leaf to the spines, as one pool (routing: pool)."),
    (rf"{LEAF}\.down", "All links from the spines to a leaf, as one pool (routing: pool)."),
    (rf"{SWITCH}\.{NIC}", "The switch port to a NIC."),
    (rf"{NIC}\.[^.]+(\.\d+)?", "The link from a NIC to a switch, in a network read from a file."),
    (rf"{SWITCH}\.{SWITCH}(\.\d+)?", "The link from one switch to another, one direction."),
    (r"fabric", "The communication library, which times each send and collective."),
)  # fmt: skip
KINDS = {
    "gpu": "The GPUs of all machines.",
    "dma": "The copy engines of all GPUs.",
    "core": "The compute time that kernels and collectives share on all GPUs.",
    "host": "The CPUs of all machines.",
    "memory": "The memories of all GPUs and hosts.",
    "nic": "The NICs of all machines, both directions.",
    "link": "All links inside machines: NVLink, PCIe.",
    "switch": "All switch ports, and the links between switches.",
    "lane": "The traffic that a real device carries in a coupled run.",
}
"""Kinds of component, as in "10 % faster nic parts"; the kind of the library is ``fabric``."""
REASONS = {
    "release": "On the critical path: nothing has started yet; a job or a rank starts late.",
    "process": "On the critical path: a process (a policy) has not yet submitted the next ops.",
    "gap": "On the critical path: idle time between recorded ops, kept as recorded.",
}  # fmt: skip
BOXES = {
    "compute": "Time in which a rank computes, with no communication in flight.",
    "overlapped": "Time in which a rank computes while communication is in flight.",
    "memory": "Time in which only copies run.",
    "host": "Time in which only host ops run.",
    "idle": "Time in which a rank does nothing and does not wait for another rank.",
}
"""Parts of a rank's time breakdown that are not metrics and have no glossary entry."""


DOUBTS = {
    "unmeasured rates": "Rates taken from a datasheet or assumed. Their error is the error found "
    "on parts where the achieved rate was measured.",
    "unmeasured times": "Latencies and other times that are taken from a datasheet or assumed.",
    "blind": "A GPU that is known from its datasheet only.",
}  # fmt: skip
"""Sources of error that widen an interval, by name; other sources are kinds of part and op
families."""


def meaning_of_name(name: str) -> str:
    """Meaning of a component name, a kind, a path reason or a time breakdown part; "" if unknown.

    >>> meaning_of_name("node3.nic0.tx")
    'The sending direction of a NIC.'
    >>> meaning_of_name("nonsense")
    ''
    """
    form = next((text for form, text in FORMS if re.fullmatch(form, name)), "")
    told = (form, KINDS.get(name, ""), REASONS.get(name, ""), BOXES.get(name, ""),
            DOUBTS.get(name, ""))  # fmt: skip
    return " ".join(text for text in told if text)
