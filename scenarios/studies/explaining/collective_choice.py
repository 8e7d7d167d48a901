"""Choice of a collective's algorithm: all candidates, and why one is chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....models.network.collective import nccl
from ....models.network.collective.collectives import Fabric
from ....reports.numbers import format_quantity
from ....sim.errors import BackendError, ScenarioError
from ....sim.units import quantity
from ...config.scenario import Scenario
from ..building.system import build_backends, build_system

WHY = {
    "quickest": "the fastest one on an idle machine",
    "nccl": "the one that NCCL's own tables expect to be fastest (library.choice: nccl)",
    "none": "the fastest one, since NCCL's tables know none of them (library.choice: nccl)",
}


@dataclass(frozen=True)
class CollectiveWay:
    """One algorithm and protocol for a collective of one size.

    Parameters
    ----------
    name : algorithm and protocol, such as ``ring/ll128``; setting ``library.algorithm`` accepts it
    seconds : time without contention; the sum of start, steps, and bytes
    expected : time in s by NCCL's own tables; infinite if unknown
    """

    name: str
    seconds: float
    launch: float
    waiting: float
    moving: float
    expected: float
    taken: bool


@dataclass(frozen=True)
class CollectiveChoice:
    """All algorithms for a collective, and the reason for the choice; ``str()`` is the text."""

    what: str
    why: str
    ways: tuple[CollectiveWay, ...]

    def __str__(self) -> str:
        told = [f"{self.what}", f"  taken: {self.why}"]
        width = max(len(w.name) for w in self.ways)
        told.append(f"    {'':{width}}       alone = start  + steps  + bytes   NCCL's tables")
        for w in sorted(self.ways, key=lambda w: w.seconds):
            times = (w.seconds, w.launch, w.waiting, w.moving)
            parts = " ".join(f"{format_quantity(s, 's'):>8}" for s in times)
            known = format_quantity(w.expected, "s") if np.isfinite(w.expected) else "-"
            told.append(f"  {'>' if w.taken else ' '} {w.name:{width}}  {parts}  {known:>8}")
        return "\n".join(told)


def collective_choice(
    scenario: Scenario, collective: str, size: str, ranks: int = 0
) -> CollectiveChoice:
    """Candidate algorithms for a collective on a scenario's machine.

    Parameters
    ----------
    size : size with unit, such as ``64 MiB``
    ranks : number of GPUs, the first ones; 0 for all

    Raises
    ------
    ScenarioError
        The size is invalid, there are too few GPUs, or the fabric has no algorithms.
    """
    system = build_system(scenario)
    count = ranks or len(system.gpus)
    if not 2 <= count <= len(system.gpus):
        raise ScenarioError(f"--ranks {count}: write 2 to {len(system.gpus)}, the number of GPUs")
    try:
        data = np.array([quantity(size, "B")])
    except ValueError as error:
        raise ScenarioError(f"--size: {error}") from error
    fabric = build_backends(scenario, system).get("fabric")
    if not isinstance(fabric, Fabric):
        raise ScenarioError(
            "explain: the fabric has no collective algorithms; write cluster.fabric.library"
        )
    members = system.numbers[:count]
    fabric.open(system)
    try:
        found = fabric.plan_choices(collective, members, data, system)
    except BackendError as error:
        raise ScenarioError(str(error)) from error
    expected = nccl.estimates([way for way, _, _ in found], data)[:, 0]
    ways = tuple(
        CollectiveWay(way.name, float(alone[0]), way.launch, way.waiting,
                      float(alone[0]) - way.launch - way.waiting, float(told), bool(taken[0]))
        for (way, alone, taken), told in zip(found, expected, strict=True)
    )  # fmt: skip
    pinned = fabric.pinned.text(collective)
    known = "none" if fabric.choice == "nccl" and not np.isfinite(expected).any() else fabric.choice
    why = (
        f"{WHY[known]}, among those that library.algorithm allows ({pinned})"
        if pinned
        else WHY[known]
    )
    what = f"{collective} of {format_quantity(float(data[0]), 'B')} among {count} GPUs"
    return CollectiveChoice(what, why, ways)
