"""Names that answers, pages and overrides give to parts of the machine, and what each form means.

A name says what it is of by its form alone (``leaf1.up``, ``node0.gpu0.to_nic``); how quick such a
part is, and who uses it, takes a machine: ``studies.component_explanation``.
"""

from __future__ import annotations

import re

NODE, LEAF, SWITCH = r"node\d+", r"leaf\d+", r"(?:leaf|spine|core|router)\d+"
GPU, NIC = rf"{NODE}\.gpu\d+", rf"{NODE}\.nic\d+"
FORMS = (
    (NODE, "A machine; machines are numbered from 0, through all kinds."),
    (rf"{NODE}\.host", "The processors of a machine, whose cores run ops of the host."),
    (rf"{NODE}\.dram", "The DRAM of a machine, whose rate all share that read or write it."),
    (rf"{NODE}\.cxl", "The CXL memory of a machine, whose rate all share that use it."),
    (GPU, "A GPU, whose streams run kernels."),
    (rf"{GPU}\.dma", "The copy engines of a GPU, which copy beside its kernels."),
    (rf"{GPU}\.hbm", "The memory of a GPU, whose rate its kernels and copies share."),
    (rf"{GPU}\.memory", "The memory of a GPU as a capacity, of which jobs hold what they need."),
    (rf"{GPU}\.core", "Time of a core that plays a GPU: ops share it with a library's threads."),
    (rf"{GPU}\.tx", "What a GPU sends over its link to the other GPUs (links: from gpu, to gpu)."),
    (rf"{GPU}\.rx", "What a GPU hears over its link to the other GPUs (links: from gpu, to gpu)."),
    (rf"{GPU}\.d2h", "The link from a GPU to its host (links: from gpu, to host)."),
    (rf"{GPU}\.h2d", "The link from a host to its GPU (links: from gpu, to host)."),
    (rf"{GPU}\.to_nic", "The link from a GPU to its NIC (links: from gpu, to nic)."),
    (rf"{GPU}\.from_nic", "The link from a NIC to its GPU (links: from gpu, to nic)."),
    (NIC, "A network adapter (NIC); its two directions are .tx and .rx."),
    (rf"{NIC}\.tx", "What a NIC sends."),
    (rf"{NIC}\.rx", "What a NIC hears."),
    (rf"{NODE}\.pcie_switch\d+", "A PCIe switch; its link to the host has the ways .up, .down."),
    (rf"{NODE}\.pcie_switch\d+\.up", "The link of a PCIe switch to the host."),
    (rf"{NODE}\.pcie_switch\d+\.down", "The link of the host to a PCIe switch."),
    (LEAF, "A leaf switch, into which NICs are plugged."),
    (r"spine\d+", "A switch above the leaves."),
    (r"core\d+", "A switch above the spines of several pods."),
    (r"router\d+", "A router of a torus or a dragonfly."),
    (rf"{LEAF}\.up", "All links of a leaf to the spines, as one pool (routing: pool)."),
    (rf"{LEAF}\.down", "All links of the spines to a leaf, as one pool (routing: pool)."),
    (rf"{SWITCH}\.{NIC}", "The port of a switch to a NIC."),
    (rf"{NIC}\.[^.]+(\.\d+)?", "The link of a NIC to a switch of a network from a file."),
    (rf"{SWITCH}\.{SWITCH}(\.\d+)?", "The link of one switch to another, one direction."),
    (r"fabric", "The library of sends and collectives: who says how long each takes."),
)  # fmt: skip
KINDS = {
    "gpu": "GPUs of all machines together.",
    "dma": "Copy engines of all GPUs together.",
    "core": "Time of GPUs that kernels and collectives share, all together.",
    "host": "Processors of all machines together.",
    "memory": "Memories of all GPUs and hosts together.",
    "nic": "NICs of all machines together, both directions.",
    "link": "Links inside machines, all together: NVLink, PCIe.",
    "switch": "Ports of all switches together, and the links between switches.",
    "lane": "What a device that drives the run carries.",
}
"""Kinds of component, as where "10 % faster nic parts" are told; the library's is ``fabric``."""
REASONS = {
    "release": "On the critical path: nothing had begun yet; a job or a rank starts late.",
    "process": "On the critical path: a process (a policy) had not submitted what comes next.",
    "gap": "On the critical path: time in which the recording shows nothing, kept as it was.",
}  # fmt: skip
BOXES = {
    "compute": "Time in which a rank computes, with no communication in flight.",
    "overlapped": "Time in which a rank computes while communication is in flight.",
    "memory": "Time in which copies run, and nothing else.",
    "host": "Time in which ops of the host run, and nothing else.",
    "idle": "Time in which a rank does nothing, and waits for nobody.",
}
"""Boxes of a rank's time whose names are no metric or word that is explained by itself."""


DOUBTS = {
    "unmeasured rates": "Rates of parts that only a datasheet says, or nobody: what is reached "
    "of them is as wrong as where it was measured.",
    "unmeasured times": "Latencies and other times of parts that only a datasheet says, or nobody.",
    "blind": "A GPU of which only a datasheet is known.",
}  # fmt: skip
"""Sources of error that widen an interval; the others are kinds of part, and families of ops."""


def meaning_of_name(name: str) -> str:
    """What a name of a part, a kind of part, a reason or a box of time means; "" for another name.

    >>> meaning_of_name("node3.nic0.tx"), meaning_of_name("idle")
    ('What a NIC sends.', 'Time in which a rank does nothing, and waits for nobody.')
    >>> meaning_of_name("nonsense")
    ''
    """
    form = next((text for form, text in FORMS if re.fullmatch(form, name)), "")
    told = (form, KINDS.get(name, ""), REASONS.get(name, ""), BOXES.get(name, ""),
            DOUBTS.get(name, ""))  # fmt: skip
    return " ".join(text for text in told if text)
