"""Number of periods of a graph, and a check that some remain after the warm-up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ....sim.facts.graph import Graph
from ....sim.run.periodic import Periodic
from ...config.problems import Problem

if TYPE_CHECKING:
    from .variant import Variant


def number_of_periods(graph: Graph) -> int:
    """Number of different periods of the ops of a graph; 0 for none.

    >>> from foretrace.sim.facts.graph import Builder
    >>> from foretrace.sim.facts.ops import Kind
    >>> build = Builder("two steps")
    >>> _ = [build.op(Kind.COMPUTE, period=k) for k in (-1, 1, 1, 2)]
    >>> number_of_periods(build.graph())
    2
    """
    template = graph.template  # has its periods without being written out
    tables = [graph.ops] if template is None else [p.ops for p in template.programs]
    return len({k for ops in tables for k in np.unique(ops.period).tolist() if k >= 0})


def uncounted_period_problems(point: Variant) -> Iterator[Problem]:
    """Problem for each job all of whose periods are warm-up; only for known graphs."""
    jobs = point.scenario.section("jobs")
    for name, graph in point.built.graphs.items():
        workload = point.workloads[name]
        if graph is None or not isinstance(workload, Periodic):
            continue
        path = f"jobs.{name}.workload.iterations" if jobs else "workload.iterations"
        number = number_of_periods(graph)
        if number <= workload.warm_up:
            message = (
                f"all {number} iterations of the run are warm-up ({workload.warm_up}), so none is "
                "counted; write a shorter warm_up"
            )
            where = point.scenario.spot(path)
            yield Problem("nothing-counted", message, where)
