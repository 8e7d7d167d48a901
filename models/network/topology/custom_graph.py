"""Custom network: links listed in a file, as YAML, GraphML or ibnetdiscover output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ....sim.errors import GraphError
from ....sim.facts.system import Component
from ....sim.units import ByteRate, Seconds, quantity
from ..part.switch import Switch
from .graph_topology import GraphTopology
from .ibnetdiscover import ibnetdiscover_rows, is_ibnetdiscover
from .routing import WEIGHTED, Routing
from .switch_graph import NIC, SwitchGraph
from .wiring import Adapter, topology

KEYS = ("from", "to", "bandwidth", "latency", "count", "cost", "weight", "down", "one_way")
MOST_WEIGHT = 64  # routing entries per link


@dataclass(frozen=True)
class LinkLine:
    """One entry of the file: cables with the same properties.

    Parameters
    ----------
    where : location in the file, for error messages
    low, high : names of the two ends; globs are allowed for NICs
    rate, latency : rate in B/s and latency in s of each direction; None for those of the switch's
        ports
    count : number of cables
    cost : routing cost of the link
    weight : share of hashed flows under ``weighted`` routing; 0 for the link's rate
    down, one_way : True if the cable is down; True if it carries data from ``low`` to ``high`` only
    """

    where: str
    low: str
    high: str
    rate: ByteRate | None = None
    latency: Seconds | None = None
    count: int = 1
    cost: int = 1
    weight: int = 0
    down: bool = False
    one_way: bool = False


@topology("graph")
class CustomGraph(GraphTopology):
    """Custom network from a file: ``links: [{from: node0.nic0, to: leaf0, …}]``.

    An end whose name looks like a NIC (``node0.nic0``, or a glob such as ``node[0-7].nic*``) is a
    NIC. Every other end is a switch, and the start of its name is its kind. A link takes
    ``bandwidth`` and ``latency`` of each direction (default: those of the switch), ``count``
    cables, ``cost``, ``weight``, ``down: true`` and ``one_way: true``. In GraphML these are
    attributes of edges. Output of ``ibnetdiscover`` is read unchanged.

    Parameters
    ----------
    file : Path
        YAML file, GraphML file (by its extension), or output of ``ibnetdiscover``.
    routing : str
        Choice between paths of equal cost: ``spray`` spreads data evenly over all, ``ecmp`` hashes
        each flow to one path, ``weighted`` does the same in proportion to link weights.
    paths : int
        Number of paths that ``spray`` uses; 0 for all.
    seed : int
        Seed of the hash.
    """

    def __init__(
        self,
        *,
        file: Path,
        routing: Literal["spray", "ecmp", "weighted"] = "spray",
        paths: int = 0,
        seed: int = 0,
    ):
        self.file, self.routing = Path(file), Routing(routing, paths, seed)
        self.routing.check()

    def graph(self, adapters: Sequence[Adapter], switch: Switch | None) -> SwitchGraph:
        """Switch graph with the links of the file between these NICs."""
        lines = [(line, _port(line, switch)) for line in read_links(self.file)]
        graph = SwitchGraph(adapters)
        nics = graph.add_switches(NIC, (a.name for a in adapters))
        graph.ends = set(nics)
        graph.attach_nics(np.arange(len(adapters)), np.array(nics))
        number = {name: i for i, name in enumerate(graph.names)}
        least = min((port.rate or 0.0 for _, port in lines), default=0.0)
        for line, port in lines:
            low, high = (_ends_of(name, line, number, graph) for name in (line.low, line.high))
            a, b = (np.repeat(x, line.count) for x in np.meshgrid(low, high, indexing="ij"))
            weight = 1
            if self.routing.choice == WEIGHTED:
                weight = line.weight or min(round((port.rate or 0.0) / least), MOST_WEIGHT)
            cables = graph.add_cables(
                a, b, port, one_way=line.one_way, cost=line.cost, weight=weight
            )
            if line.down:
                graph.take_down(cables)
        return graph


def read_links(file: Path) -> Iterator[LinkLine]:
    """Read the links of a file and check each of them.

    Raises
    ------
    GraphError
        A link is invalid; the message names the file, the link and the key.
    """
    rows = _graphml_rows(file) if file.suffix.lower() == ".graphml" else _text_rows(file)
    if not rows:
        raise GraphError(file.name, "there are no links; write links: [{from: …, to: …}]")
    for i, row in enumerate(rows):
        yield _line(row, f"{file.name}: links.{i}")


def _text_rows(file: Path) -> Sequence[Any]:
    """Links of a YAML file or of ``ibnetdiscover`` output, as plain data."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        raise GraphError(file.name, f"cannot be read: {said}; name a file of links") from error
    return ibnetdiscover_rows(file, text) if is_ibnetdiscover(text) else _yaml_rows(file, text)


def _yaml_rows(file: Path, content: str) -> Sequence[Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        told = YAML(typ="safe").load(content)
    except YAMLError as error:
        text = " ".join(str(error).split())
        raise GraphError(file.name, f"cannot be read: {text}; name a file of links") from error
    rows = told.get("links") if isinstance(told, Mapping) and set(told) == {"links"} else None
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise GraphError(file.name, "is not a list of links; write links: [{from: …, to: …}]")
    return rows


def _graphml_rows(file: Path) -> Sequence[Any]:
    import rustworkx

    try:
        graphs = rustworkx.read_graphml(str(file))
    except Exception as error:  # rustworkx raises no specific exception type
        text = " ".join(str(error).split())
        raise GraphError(file.name, f"cannot be read: {text}; write GraphML") from error
    rows = []
    for graph in graphs:
        names = [n.get("name") or n.get("label") or n["id"] for n in graph.nodes()]
        way = {"one_way": True} if isinstance(graph, rustworkx.PyDiGraph) else {}
        for a, b, facts in graph.weighted_edge_list():
            told = {k: v for k, v in facts.items() if v is not None and k != "id"}
            rows.append({"from": names[a], "to": names[b], **way, **told})
    return rows


def _line(row: Any, where: str) -> LinkLine:
    if not isinstance(row, Mapping):
        raise GraphError(where, f"{row!r} is no link; write {{from: …, to: …}}")
    for key in row:
        if key not in KEYS:
            raise GraphError(
                where, f"{key!r} is not a setting of a link; write one of {', '.join(KEYS)}"
            )
    for key in ("from", "to"):
        if not isinstance(row.get(key), str):
            raise GraphError(where, f"{key!r} is {row.get(key)!r}; name a NIC or a switch")
    if row["from"] == row["to"]:
        raise GraphError(where, f"joins {row['to']!r} to itself; name two ends")
    return LinkLine(
        where,
        row["from"],
        row["to"],
        rate=_number(row, "bandwidth", "B/s", where),
        latency=_number(row, "latency", "s", where),
        count=_count(row, "count", where),
        cost=_count(row, "cost", where),
        weight=_count(row, "weight", where) if "weight" in row else 0,
        down=_flag(row, "down", where),
        one_way=_flag(row, "one_way", where),
    )


def _number(row: Mapping[str, Any], key: str, unit: str, where: str) -> float | None:
    if key not in row:
        return None
    try:
        value = quantity(row[key], unit)
    except ValueError as error:
        raise GraphError(f"{where}.{key}", str(error)) from error
    if value < 0 or (value == 0 and key == "bandwidth"):
        cure = "give more than 0, or down: true" if key == "bandwidth" else "give 0 or more"
        raise GraphError(f"{where}.{key}", f"is {row[key]}; {cure}")
    return value


def _count(row: Mapping[str, Any], key: str, where: str) -> int:
    value = row.get(key, 1)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # GraphML has only doubles
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise GraphError(f"{where}.{key}", f"is {value!r}; give a whole number from 1 on")
    return value


def _flag(row: Mapping[str, Any], key: str, where: str) -> bool:
    value = row.get(key, False)
    if not isinstance(value, bool):
        raise GraphError(f"{where}.{key}", f"is {value!r}; write true or false")
    return value


def _ends_of(name: str, line: LinkLine, number: dict[str, int], graph: SwitchGraph) -> list[int]:
    """Switches or NICs that a name or glob refers to; unknown switches are added to the graph."""
    if not re.match(r"node.*\.nic", name):
        if name not in number:
            kind = re.sub(r"[-_.]?\d+$", "", name)
            number[name] = graph.add_switches(kind, [name])[0]
        return [number[name]]
    found = [number[a.name] for a in graph.adapters if fnmatchcase(a.name, name)]
    if not found:
        there = ", ".join(a.name for a in graph.adapters[:4])
        raise GraphError(line.where, f"no machine has {name!r}; name NICs such as {there}")
    return found


def _port(line: LinkLine, switch: Switch | None) -> Component:
    """Component with the rate and latency of one direction of a cable."""
    rate = switch.rate if line.rate is None and switch else line.rate
    latency = switch.latency if line.latency is None and switch else line.latency
    if rate is None or latency is None:
        key = "bandwidth" if rate is None else "latency"
        raise GraphError(
            line.where,
            f"its {key} is missing; write it here, or set cluster.fabric.switch, whose value is "
            "then used",
        )
    return Component("", "switch", rate=rate, latency=latency)
