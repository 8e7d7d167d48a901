"""Reader of ``ibnetdiscover`` output: links of an InfiniBand fabric for the topology ``graph``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....sim.errors import GraphError

RATE = {  # Gb/s of data of one lane
    "SDR": 2, "DDR": 4, "QDR": 8, "FDR10": 10, "FDR": 13.64, "EDR": 25, "HDR": 50, "NDR": 100,
    "XDR": 200,
}  # fmt: skip
_NODE = re.compile(r'^(Switch|Ca|Rt)\s+\d+\s+"([^"]+)"\s+#\s+"([^"]*)"')
_LINK = re.compile(r'^\[(\d+)\](?:\([^)]*\))?\s+"([^"]+)"\[(\d+)\].*?\s(\d+)x([A-Z]+\d*)\s*$')
AGGREGATION = "Aggregation Node"
"""Name of a switch's own aggregation node, which is not a NIC."""


def is_ibnetdiscover(text: str) -> bool:
    """True if a text is output of ``ibnetdiscover``.

    >>> is_ibnetdiscover('Switch 36 "S-0002c9"  # "spine" enhanced port 0 lid 1')
    True
    """
    return any(_NODE.match(line) for line in text.splitlines())


def ibnetdiscover_rows(file: Path, text: str) -> Sequence[Mapping[str, Any]]:
    """Links with the names of simulated NICs and switches; every cable once.

    Hosts become machines in the order of their names, with embedded numbers sorted by value;
    adapters of one host become its NICs in the same way. A switch keeps its name, or gets its GUID
    if two switches share a name.

    Raises
    ------
    GraphError
        A link line cannot be parsed, or its rate is unknown.
    """
    kinds: dict[str, str] = {}
    said: dict[str, str] = {}
    cables: dict[frozenset[tuple[str, str]], str] = {}
    here = ""
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{file.name}: line {number}"
        if node := _NODE.match(line):
            kind, here, description = node.groups()
            kinds[here], said[here] = kind, description
        elif line.startswith("["):
            link = _LINK.match(line.rstrip())
            if link is None or not here:
                raise GraphError(where, f"{line.strip()!r} is no link; give all that ibnetdiscover "
                                 "printed, of version 2 or later")  # fmt: skip
            port, other, its, lanes, speed = link.groups()
            if speed not in RATE:
                raise GraphError(
                    where, f"speed {speed!r} is unknown; correct it to one of {', '.join(RATE)}"
                )
            ends = frozenset({(here, port), (other, its)})
            cables.setdefault(ends, f"{int(lanes) * RATE[speed]:g} Gb/s")
    names = _names(kinds, said)
    rows = []
    for ends, rate in cables.items():
        (a, _), (b, _) = sorted(ends)
        if a in names and b in names:
            rows.append({"from": names[a], "to": names[b], "bandwidth": rate})
    return rows


def _names(kinds: Mapping[str, str], said: Mapping[str, str]) -> dict[str, str]:
    """Name of every node: NICs by host, switches by their own name, no aggregation nodes."""
    hosts: dict[str, list[tuple[str, str]]] = {}
    names: dict[str, str] = {}
    switches: dict[str, list[str]] = {}
    for node, kind in kinds.items():
        if kind == "Switch":
            label = re.sub(r"[^\w.-]+", "-", said[node].split(";")[-1].partition(":")[0]).strip("-")
            switches.setdefault(label or node, []).append(node)
        elif AGGREGATION not in said[node]:
            host, _, adapter = said[node].partition(" ")
            hosts.setdefault(host or node, []).append((adapter, node))
    for label, nodes in switches.items():
        for node in nodes:
            names[node] = label if len(nodes) == 1 else f"{label}-{node}"
    for i, host in enumerate(sorted(hosts, key=_by_value)):
        for k, (_, node) in enumerate(sorted(hosts[host], key=lambda one: _by_value(one[0]))):
            names[node] = f"node{i}.nic{k}"
    return names


def _by_value(text: str) -> list[tuple[int, str]]:
    """Sort key that compares numbers inside a text by value.

    >>> sorted(["n10", "n9"], key=_by_value)
    ['n9', 'n10']
    """
    parts = re.findall(r"\d+|\D+", text)
    return [(int(p), "") if p.isdigit() else (-1, p) for p in parts]
