"""Check of placements before a run: a process takes its components from pools, not from ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...config.problems import Problem

if TYPE_CHECKING:
    from .variant import Variant


def unused_placement_problems(point: Variant) -> Iterator[Problem]:
    """Problems of jobs that are processes and have a component per rank, which nobody would use."""
    scenario = point.scenario
    for name, job in scenario.jobs.items():
        ranks = job.placement.ranks
        if ranks is None or point.built.graphs[name] is not None:
            continue
        several = scenario.section("jobs") is not None
        path = f"jobs.{name}.placement.ranks" if several else "placement.ranks"
        pool = next(iter(point.workloads[name].needs.pools), "gpu")
        cure = f"write jobs.{name}.on: {{{pool}: [{', '.join(ranks)}]}}"
        yield Problem(
            "unused-placement",
            f"{path}: {', '.join(ranks)}, but workload '{job.workload.type}' is a process, which "
            f"takes its components from pools; {cure if several else 'leave it out'}",
            scenario.spot(path),
        )
