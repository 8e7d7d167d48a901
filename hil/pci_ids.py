"""Names of PCI devices from the system's ``pci.ids`` list (package pciutils or hwdata)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

LISTS = (Path("/usr/share/misc/pci.ids"), Path("/usr/share/hwdata/pci.ids"))
MAKERS = {"geforce", "tesla", "instinct", "nvidia", "amd", "family"}  # words that tell no model


def read_pci_names(lists: Iterable[Path] = LISTS) -> dict[str, str]:
    """Names of PCI devices by ``vendor:device``, from the first list that exists.

    The result is empty if no list exists.
    """
    for path in lists:
        if path.is_file():
            return parse_pci_names(path.read_text(encoding="utf-8", errors="replace"))
    return {}


def parse_pci_names(text: str) -> dict[str, str]:
    r"""Names of PCI devices by ``vendor:device``, in the form that sysfs uses for the ids.

    >>> parse_pci_names("15b3  Mellanox Technologies\n\t1021  MT2910 Family [ConnectX-7]\n")
    {'0x15b3:0x1021': 'MT2910 Family [ConnectX-7]'}
    """
    found, vendor = {}, ""
    for line in text.splitlines():
        if line.startswith("C "):
            break  # classes of devices follow
        if match := re.match(r"([0-9a-f]{4})  ", line):
            vendor = match[1]
        elif match := re.match(r"\t([0-9a-f]{4})  (.+)", line):
            found[f"0x{vendor}:0x{match[1]}"] = match[2].strip()
    return found


def part_of_name(name: str, parts: Iterable[str]) -> str:
    """Catalog part whose words all occur in a device's name; "" if none matches.

    >>> part_of_name("GH100 [H100 SXM5 80GB]", ["h100-sxm5-80g", "h200-sxm-141g"])
    'h100-sxm5-80g'
    >>> part_of_name("AD102 [GeForce RTX 4090 D]", ["rtx-4090"])
    ''
    """
    inner = re.search(r"\[(.+)\]", name)
    told = set(_words(inner[1] if inner else name))
    return next((p for p in parts if set(_words(p)) <= told <= {*_words(p), *MAKERS}), "")


def _words(text: str) -> list[str]:
    """Words of a device name in normal form, such as ``80g`` for "80GB"."""
    return re.findall(r"[a-z0-9]+", re.sub(r"(\d)\s?gi?b\b", r"\1g", text.lower()))
