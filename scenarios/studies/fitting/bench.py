"""Test bench of a fit: a machine with the part in it, on which recorded ops run one by one.

The duration of an op comes from the same backends as in a simulation, so that a fit and a run
agree. Without a given machine, all other parts take no time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....models.compute.demand import demand
from ....models.compute.kernel_work import kernel_work
from ....models.compute.op_shape import op_shape
from ....sim.errors import ScenarioError
from ....sim.facts.backend import Backend, uncontended_seconds
from ....sim.facts.graph import Builder, Graph, Member
from ....sim.facts.ops import Kind, Ops
from ....sim.facts.place import place, timing_component_per_op
from ....sim.facts.signature import Signature, parse_signature
from ....sim.facts.system import System
from ....sim.record.binding import communication_endpoints
from ....sim.run.simulation import Simulation
from ....sim.setting_groups import flatten_settings, unflatten_settings
from ...config.loader import load, loads
from ...config.part_specs import entry_model
from ...config.scenario import Scenario
from ...config.settings import annotated_unit, setting_field
from ..building.system import build_backends, build_system

Floats = NDArray[np.float64]
NO_TIME = {"bandwidth": "1 PB/s", "latency": "0 s"}
MACHINE: dict[str, Any] = {
    "foretrace": 1,
    "name": "bench",
    "workload": {"type": "transfers", "ops": [{"op": "copy:h2h", "bytes": "1 B"}]},
    "cluster": {
        "nodes": 2,
        "node": {
            "gpu": {"count": 2, "streams": 1, "copy_engines": 0, "bandwidth": "1 PB/s"},
            "host": {"cores": 1},
            "nic": {"count": 2, "header": "0 B", **NO_TIME},
            "memory": NO_TIME,
            "cxl": NO_TIME,
            "links": [{"from": "gpu", "to": to, **NO_TIME} for to in ("gpu", "host")],
        },
        "fabric": {"switch": {"ports": 4, **NO_TIME}},
    },
}
"""Cluster of two machines with every kind of part, of which none takes time."""


@dataclass(frozen=True)
class BenchKind:
    """Test bench for one kind of part.

    Parameters
    ----------
    path : path of the part below ``cluster``; for links, path of the list of links
    kinds : kinds of ops that run on the part
    backend : default backend of the GPUs; "" for none
    across : True if sends go from one machine to another
    """

    path: tuple[str, ...]
    kinds: tuple[str, ...]
    backend: str = ""
    across: bool = False


BENCHES = {
    "memory": BenchKind(("node", "memory"), ("copy",), "copy"),
    "cxl": BenchKind(("node", "cxl"), ("copy",), "copy"),
    "link": BenchKind(("node", "links"), ("copy", "send"), "copy"),
    "nic": BenchKind(("node", "nic"), ("send",), across=True),
    "switch": BenchKind(("fabric", "switch"), ("send",), across=True),
    "gpu": BenchKind(("node", "gpu"), ("compute",), "roofline"),
    "library": BenchKind(("fabric", "library"), ("collective", "send"), across=True),
    "ops": BenchKind(("node", "gpu"), ("compute", "copy", "host")),
}


@dataclass(frozen=True)
class RecordedOp:
    """Recorded op that a test bench runs.

    Parameters
    ----------
    text : signature of the op
    ranks : number of ranks of a collective; 0 for other ops
    """

    text: str
    ranks: int = 0


@dataclass(frozen=True)
class Bench:
    """Machine on which the ops of one recording run.

    Parameters
    ----------
    kind : kind of the part to fit
    machine : scenario whose cluster made the recording; None if nothing else takes time
    catalogs : directories of catalog files
    """

    kind: str
    machine: Path | None = None
    catalogs: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.kind == "library" and self.machine is None:
            raise ScenarioError(
                "fit library: needs a machine, to separate the library's times from those of its "
                "links; give a scenario with --machine FILE"
            )
        if self.machine is not None and self.kind in ("link", "ops"):
            raise ScenarioError(f"fit {self.kind}: does not use --machine; remove it")

    def scenario(
        self, part: Mapping[str, Any], binding: Mapping[str, str], catalogs: Iterable[Path] = ()
    ) -> Scenario:
        """Scenario of the bench machine with the given part, in the form of a scenario file."""
        told = BENCHES[self.kind]
        bound = dict(binding) or ({"use": told.backend} if told.backend else {})
        backends = {f"node*.{p}": bound for p in ("gpu*", "host") if p == "gpu*" or binding}
        where = [*self.catalogs, *catalogs]
        if self.machine is None:
            whole = _with_part(self.kind, part) | {"backends": backends if bound else {}}
            return loads(json.dumps(whole), file="the bench of the fit", catalogs=where)
        path = ".".join(("cluster", *told.path))
        texts = [f"{path}=null", f"{path}={json.dumps({**self._count(), **part})}"]
        texts += [f"backends={json.dumps(backends)}"] if bound else []
        return load(self.machine, set=texts, catalogs=where)

    def _count(self) -> dict[str, int]:
        """Setting ``count`` of the part in the machine of the scenario; {} if it is 1."""
        assert self.machine is not None  # noqa: S101
        above, kind = BENCHES[self.kind].path
        kinds = load(self.machine, catalogs=self.catalogs).cluster.machines()
        if len(kinds) > 1:
            raise ScenarioError(
                f"{self.machine}: has several kinds of machine; give --machine a scenario with "
                "cluster.nodes and cluster.node"
            )
        there = kinds[0].node.part(kind) if above == "node" else None
        return {"count": there.count} if there is not None and there.count != 1 else {}

    def built(self, part: Mapping[str, Any]) -> tuple[System, Mapping[str, Backend]]:
        """System and backends of the bench, for settings of the part given in SI."""
        scenario = self.scenario(settings_as_written(self.kind, part), {})
        system = build_system(scenario)
        return system, build_backends(scenario, system)

    def graph(self, ops: Sequence[RecordedOp], system: System) -> Graph:
        """Graph of the ops, one after another.

        Raises
        ------
        ScenarioError
            An op does not run on such a part, or has more ranks than the machine.
        """
        build = Builder("bench")
        before: tuple[int, ...] = ()
        peer = _peer(system, BENCHES[self.kind].across)
        for one in ops:
            before = (self._add(build, one, system, peer, before),)
        return place(build.graph(), system)

    def _add(
        self, build: Builder, one: RecordedOp, system: System, peer: int, before: tuple[int, ...]
    ) -> int:
        parts = parse_signature(one.text)
        if parts.kind not in BENCHES[self.kind].kinds:
            raise ScenarioError(
                f"fit {self.kind}: '{one.text}' does not run on a {self.kind}; exclude it with "
                f"--only '^({'|'.join(BENCHES[self.kind].kinds)}):'"
            )
        if parts.kind == "collective":
            if not 2 <= one.ranks <= len(system.gpus):
                raise ScenarioError(
                    f"fit {self.kind}: '{one.text}' has {one.ranks} ranks, but the machine has "
                    f"{len(system.gpus)}; give a larger one with --machine"
                )
            members = [Member(r, 1, before) for r in range(one.ranks)]
            return build.collective(members, bytes=float(parts.bytes), signature=one.text)
        flop, moved = self._demand(parts)
        return build.op(
            Kind[parts.kind.upper()],
            peer=peer if parts.kind == "send" else -1,
            flop=flop,
            bytes=moved,
            signature=one.text,
            after=before,
        )

    def _demand(self, parts: Signature) -> tuple[float, float]:
        """Number of flop and bytes of an op, as a workload gives them."""
        if self.kind != "gpu":
            return demand(str(parts)).flop, float(parts.bytes)
        shape = op_shape(str(parts))
        if shape is None:
            raise ScenarioError(
                f"fit gpu: the flop count of '{parts}' is unknown; exclude it with --only"
            )
        work = kernel_work(shape)
        return work.flop or work.blocks * work.depth * work.step, work.bytes

    def placed_ops(self, ops: Sequence[RecordedOp], part: Mapping[str, Any]) -> Ops:
        """Build the ops table in the form that backends expect."""
        system, _ = self.built(part)
        return _asked(self.graph(ops, system))

    def seconds(self, ops: Sequence[RecordedOp], part: Mapping[str, Any]) -> Floats:
        """Time of each op without contention in s, shape (n,), from the backends of the machine."""
        system, backends = self.built(part)
        table = _asked(self.graph(ops, system))
        found = np.empty(len(table))
        assert table.at is not None  # noqa: S101  it was asked
        for number in np.unique(table.at.component).tolist():
            rows = np.flatnonzero(table.at.component == number)
            answerer, some = (
                backends[system.components[number].name],
                table.take_with_placement(rows),
            )
            answerer.open(system)
            found[rows] = uncontended_seconds(answerer.timing(some), some)
        return found

    def simulated_seconds(
        self, ops: Sequence[RecordedOp], part: Mapping[str, Any], catalogs: Iterable[Path] = (),
        **binding: str,
    ) -> Floats:  # fmt: skip
        """Simulated time of each op in s, shape (n,), for a part described as in a scenario file.

        Parameters
        ----------
        part : keys as in a scenario, such as ``{"model": "mine"}``
        catalogs : directories in which the part is looked up
        binding : backend of GPUs and hosts, in place of the default one
        """
        scenario = self.scenario(part, binding, catalogs)
        system = build_system(scenario)
        bound = build_backends(scenario, system)
        run = Simulation(system, bound, engine="reference").run(self.graph(ops, system), keep="ops")
        return np.asarray(run.columns.end - run.columns.start) * 1e-12


def settings_as_written(kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a part in the form of a scenario file, from values in SI.

    >>> settings_as_written("nic", {"bandwidth": 25e9, "overhead": 0.0})
    {'bandwidth': '25000000000.0 B/s', 'overhead': '0.0 s'}
    """
    told = {}
    for name, value in flatten_settings(settings).items():
        unit = unit_of_setting(kind, name)
        told[name] = f"{value!r} {unit}" if unit else value
    return unflatten_settings(told)


@cache
def unit_of_setting(kind: str, name: str) -> str:
    """SI unit of a setting of a kind of part; "" if it has none or is unknown.

    >>> unit_of_setting("nic", "bandwidth"), unit_of_setting("gpu", "efficiency")
    ('B/s', '')
    """
    field = setting_field(entry_model(kind), name)
    every = () if field is None else (*field.metadata, field.annotation)
    return next((u.text for one in every if (u := annotated_unit(one))), "")


def _with_part(kind: str, part: Mapping[str, Any]) -> dict[str, Any]:
    """Scenario of the default bench with a part in place of the one that takes no time."""
    whole: dict[str, Any] = json.loads(json.dumps(MACHINE))
    *above, last = BENCHES[kind].path
    place = whole["cluster"]
    for key in above:
        place = place[key]
    if kind == "link":
        via = {"via": part["model"]} if "model" in part else dict(part)
        place[last] = [{"from": e["from"], "to": e["to"], **via} for e in place[last]]
    elif kind != "ops":
        count = {"count": place[last]["count"]} if "count" in place.get(last, {}) else {}
        place[last] = {**count, **part}
    if kind == "gpu":
        place[last].setdefault("streams", 1)
    return whole


def _peer(system: System, across: bool) -> int:
    """Rank that receives the sends of rank 0; -1 if there is none."""
    nodes = [system.node_of(system.number(g)) for g in system.gpus]
    others = [r for r in range(1, len(nodes)) if not across or nodes[r] != nodes[0]]
    return others[0] if others else -1


def _asked(graph: Graph) -> Ops:
    assert graph.system is not None  # noqa: S101  it was placed
    return graph.ops.with_placement(
        graph.system, timing_component_per_op(graph), communication_endpoints(graph)
    )
