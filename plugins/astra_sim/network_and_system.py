"""Conversion of ASTRA-sim's network YAML and system JSON to a scenario.

A network of one dimension becomes machines with one GPU and one NIC each. With two dimensions, the
first gives the number of GPUs per machine, each with a NIC for the second. ASTRA-sim's GB are 2^30
bytes. Its latency is that of one link; a switch is two links away. Settings without a counterpart
are listed as comments in the written scenario.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from glob import escape
from math import inf, prod
from pathlib import Path
from typing import Any

from ...sim.errors import ScenarioError
from ...traces.formats.chakra.nodes import RANK

ALGORITHMS = {
    "ring": "ring, pairwise",
    "oneRing": "ring, pairwise",
    "direct": "two-shot, direct, grouped",
    "oneDirect": "two-shot, direct, grouped",
    "halvingDoubling": "halving-doubling, doubling, halving, pairwise",
    "oneHalvingDoubling": "halving-doubling, doubling, halving, pairwise",
    "doubleBinaryTree": "tree, ring, pairwise",
}
"""What we call them; collectives that have no such form take the next in the list."""
LINKS = {"Ring": 1, "FullyConnected": 1, "Switch": 2}  # that a message to a neighbour crosses
USED = ("endpoint-delay", "roofline-enabled")


@dataclass(frozen=True)
class NetworkDimension:
    """One dimension of an ASTRA-sim network: rate in GiB/s, latency in ns."""

    topology: str
    ranks: int
    rate: float
    latency: float

    @property
    def rank_latency(self) -> float:
        """Latency from one rank to the next, in ns."""
        return LINKS[self.topology] * self.latency


def chakra_file_form(workload: str, network: Path) -> str:
    """File extension of Chakra files with a given prefix: ``et`` or ``json``, also with ``.gz``.

    Raises
    ------
    ScenarioError
        There are no such files, or fewer than the network has ranks.
    """
    prefix = Path(workload)
    found = [RANK.fullmatch(p.name) for p in prefix.parent.glob(f"{escape(prefix.name)}.*")]
    forms = [m[3] for m in found if m and m[1] == prefix.name]
    if not forms:
        raise ScenarioError(
            f"{workload}: there is no file {prefix.name}.0.et or {prefix.name}.0.json; give the "
            "part of the path before the rank number"
        )
    form = max(set(forms), key=forms.count)
    ranks = prod(d.ranks for d in _read_dimensions(network))
    if forms.count(form) < ranks:
        raise ScenarioError(
            f"{workload}.*.{form}: {forms.count(form)} files, but {network} has {ranks} ranks "
            "(npus_count); give one file per rank, or a smaller network"
        )
    return form


def scenario_text(network: Path, system: Path, workload: str, name: str, form: str = "et") -> str:
    """Text of the scenario, as YAML, for a set of ASTRA-sim inputs.

    Parameters
    ----------
    network, system : Path
        ASTRA-sim's ``--network-configuration`` and ``--system-configuration`` files.
    workload : str
        Path prefix of the Chakra files, as ASTRA-sim takes it.
    name : str
        Name of the scenario.
    form : str
        Extension of the Chakra files.

    Raises
    ------
    ScenarioError
        A file cannot be read, the network has more than two dimensions or an unknown topology, or
        nodes are timed by ASTRA-sim's roofline.
    """
    dimensions = _read_dimensions(network)
    settings = _read_json(system)
    _refuse_roofline_setting(system, settings)
    notes = _difference_notes(dimensions, settings)
    inner, outer = (dimensions[0], dimensions[1]) if len(dimensions) == 2 else (None, dimensions[0])
    gpus = inner.ranks if inner else 1
    ranks = gpus * outer.ranks
    links = (
        f"\n    links: [{{from: gpu, to: gpu, bandwidth: {inner.rate:g} GiB/s, "
        f"latency: {inner.rank_latency:g} ns}}]"
        if inner
        else ""
    )
    lines = [
        f"# From ASTRA-sim: {network.name}, {system.name}.",
        *(f"# {note}" for note in notes),
        "foretrace: 1",
        f"name: {name}",
        "question: How long does this take?",
        "",
        f"workload: {{trace: {workload}.*.{form}, format: chakra, "
        f"recorded_on: {{parallel: {{data: {ranks}}}}}}}",
        "",
        "cluster:",
        f"  nodes: {outer.ranks}",
        "  node:",
        f"    gpu: {{streams: 1, count: {gpus}}}",  # one kernel at a time, as there
        f"    nic: {{bandwidth: {outer.rate:g} GiB/s, latency: {outer.rank_latency / 2:g} ns, "
        f"header: 0 B, count: {gpus}}}{links}",
        f"  fabric: {{library: {{{_library_of_settings(system, settings)}}}}}",
        "",
        'backends: {"node*.gpu*": {use: recorded}}',
        "",
    ]
    return "\n".join(lines)


def _read_dimensions(path: Path) -> list[NetworkDimension]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        settings: Any = YAML(typ="safe").load(path.read_text())
        columns = [settings[key] for key in ("topology", "npus_count", "bandwidth", "latency")]
        found = [
            NetworkDimension(str(t), int(n), float(b), float(latency))
            for t, n, b, latency in zip(*columns, strict=True)
        ]
        if not all(d.ranks >= 1 and 0 < d.rate < inf and 0 <= d.latency < inf for d in found):
            raise ValueError("npus_count, bandwidth or latency is out of range")
    except (OSError, YAMLError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ScenarioError(
            f"{path}: {error}; give topology, npus_count, bandwidth and latency, each a list with "
            "one value per dimension"
        ) from error
    if len(found) not in (1, 2):
        raise ScenarioError(
            f"{path}: has {len(found)} dimensions; use one (one GPU per machine) or two (GPUs in a "
            "machine, then machines)"
        )
    for dimension in found:
        if dimension.topology not in LINKS:
            raise ScenarioError(
                f"{path}: unknown topology '{dimension.topology}'; use one of: {', '.join(LINKS)}"
            )
    return found


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        settings = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ScenarioError(
            f"{path}: {error}; give an ASTRA-sim system configuration (JSON)"
        ) from error
    if not isinstance(settings, dict):
        raise ScenarioError(
            f"{path}: is a {type(settings).__name__}; "
            "write an ASTRA-sim system configuration: a JSON object"
        )
    return settings


def _refuse_roofline_setting(path: Path, settings: Mapping[str, Any]) -> None:
    if _number_setting(path, settings, "roofline-enabled"):
        raise ScenarioError(
            f"{path}: roofline-enabled is {settings['roofline-enabled']}; "
            "set it to 0 and give the nodes durations: Chakra nodes do not contain the element "
            "types that the roofline of foretrace needs"
        )


def _number_setting(path: Path, settings: Mapping[str, Any], key: str) -> float:
    """Number in ASTRA-sim's system settings; 0 if the key is absent."""
    value = settings.get(key, 0)
    if not isinstance(value, int | float) or not 0 <= value < inf:
        raise ScenarioError(f"{path}: {key} is {value!r}; write a number")
    return float(value)


def _library_of_settings(path: Path, settings: Mapping[str, Any]) -> str:
    ways = {
        str(way)
        for key, value in settings.items()
        if key.endswith("-implementation")
        for way in (value if isinstance(value, list) else [value])
    }
    named = [name.strip() for way in sorted(ways) for name in _algorithm_name(way).split(",")]
    algorithms = ", ".join(dict.fromkeys(named)) or "ring, pairwise"
    delay = _number_setting(path, settings, "endpoint-delay")
    return f'algorithms: "{algorithms}", step: {delay:g} ns'


def _algorithm_name(way: str) -> str:
    if way not in ALGORITHMS:
        raise ScenarioError(
            f"system JSON: collective algorithm '{way}' is not supported; use one of: "
            f"{', '.join(ALGORITHMS)}"
        )
    return ALGORITHMS[way]


def _difference_notes(dimensions: list[NetworkDimension], settings: Mapping[str, Any]) -> list[str]:
    """Comments on settings that foretrace models differently from ASTRA-sim."""
    notes = [
        f"{dimension.topology} of {dimension.ranks} ranks: modelled as a switch without delay. "
        "Ring traffic takes the same time; traffic between other ranks does not."
        for dimension in dimensions
        if dimension.topology != "Switch"
    ]
    if len(dimensions) == 2:
        notes.append("Two dimensions: one collective over both, not one after the other.")
    carried = (*USED, *(k for k in settings if k.endswith("-implementation")))
    left = [f"{key}: {json.dumps(value)}" for key, value in settings.items() if key not in carried]
    return [*notes, *(["Not carried over: " + ", ".join(left) + "."] if left else [])]
