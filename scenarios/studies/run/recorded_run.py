"""Replay of a recording without any cluster, on a machine with unlimited resources."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....models.compute.recorded import Recorded
from ....sim.analysis.activity import activity, seconds_in_use
from ....sim.facts.graph import Graph
from ....sim.facts.kind import GPU, ROLES
from ....sim.facts.system import UNCOUNTED, Component, System
from ....sim.run.result import Result
from ....sim.run.simulation import Simulation
from ....sim.units import seconds
from ..summaries.late_ranks import waiting_by_rank

KERNELS = {"compute": "compute", "communication": "network", "copies": "copy"}  # as layers
SAID = {"release": "late start", "fabric": "network", "dma": "copies"}


def recorded_run(graph: Graph) -> Result:
    """Replay a graph with its recorded durations, streams and threads.

    Examples
    --------
    >>> from foretrace.sim.facts.graph import Builder
    >>> from foretrace.sim.facts.ops import Kind
    >>> build = Builder("two ranks")
    >>> _ = [build.op(Kind.COMPUTE, rank=r, duration=1.0 + r) for r in range(2)]
    >>> recorded_run(build.graph()).makespan
    2.0
    """
    return Simulation(_unbounded_system(graph.ranks), {"*": Recorded()}).run(graph)


def _unbounded_system(ranks: int) -> System:
    """System with a host, copy engines and a GPU per rank, each with unlimited slots."""
    components, parts = [Component("fabric", "fabric")], {}
    for rank in range(ranks):
        names = {role: f"rank{rank}.{role}" for role in ROLES}
        components += [Component(name, role, slots=UNCOUNTED) for role, name in names.items()]
        parts[names.pop(GPU)] = names
    return System(tuple(components), tuple(parts), parts, fabric="fabric")


def _critical_path(result: Result) -> list[dict[str, Any]]:
    """Seconds of the critical path by activity and rank; the rank is None for the fabric."""
    path, rank_of = result.critical_path(), result.ops.rank
    ticks: dict[tuple[str, int | None], int] = {}
    for charge, following in zip(path, [*path[1:], *path[-1:]], strict=True):
        what = charge.who.rpartition(".")[2]
        op = charge.op if charge.op >= 0 else following.op  # none runs before a late start
        rank = int(rank_of[op]) if op >= 0 and what != "fabric" else None
        key = SAID.get(what, what), rank
        ticks[key] = ticks.get(key, 0) + charge.end - charge.start
    order = sorted(ticks.items(), key=lambda item: -item[1])
    return [
        {"what": what, "rank": rank, "seconds": float(seconds(t, result.tick))}
        for (what, rank), t in order
    ]


def recorded_summary(graph: Graph, result: Result) -> dict[str, Any]:
    """Summary of a replayed recording as plain data: time breakdown, waiting, critical path."""
    boxes, in_use, working = activity(result), seconds_in_use(result), result.utilization()
    waiting = waiting_by_rank(result)
    return {
        "ranks": [*graph.facts.get("recorded_ranks", range(graph.ranks))],  # type: ignore[misc]
        "ops": len(graph),
        "seconds": result.makespan,
        "boxes": {box: times.tolist() for box, times in boxes.items()},
        "kernels": {kind: in_use[layer].tolist() for kind, layer in KERNELS.items()},
        "gpu": [working.get(f"rank{rank}.gpu", 0.0) for rank in range(graph.ranks)],
        "steps": np.asarray(graph.facts.get("step_times", [])).tolist(),
        "path": _critical_path(result),
        **({"late": waiting} if waiting else {}),
        "facts": {k: v for k, v in graph.facts.items() if isinstance(v, str | int | float)},
    }
