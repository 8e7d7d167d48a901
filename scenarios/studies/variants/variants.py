"""Variants of a scenario: built from it, checked, run and measured."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ....sim.facts.metric import Metric
from ....sim.run.result import Result
from ....sim.run.workload import Samples
from ...config.problems import InvalidScenarioError
from ...config.scenario import Scenario
from ..building.jobs import graph_inputs
from ..building.system import build_backends, build_system
from .blind_variant import Machine, build_blind_variant
from .counted_periods import uncounted_period_problems
from .preflight import unanswerable_op_problems
from .process_check import impossible_process_problems
from .profiler_overhead import require_declared_overhead
from .samples import metric_declarations, samples_of
from .step_calibration import calibration_of
from .variant import BuiltGraphs, Variant

if TYPE_CHECKING:
    from .map_function import MapFunction

log = logging.getLogger(__name__)


def build_variant(
    scenario: Scenario,
    built: BuiltGraphs | None = None,
    machine: Machine | None = None,
    base: Scenario | None = None,
) -> Variant:
    """Build one variant.

    Parameters
    ----------
    built : its graphs, where they were built before
    machine : its components and their backends, likewise
    base : of which the measured step is, if it has one; see ``calibration_of``
    """
    return build_blind_variant(scenario, built, machine).calibrated(calibration_of(scenario, base))


def build_variants(scenario: Scenario) -> list[Variant]:
    """Every variant, before any of them runs; those whose graphs would be the same share them.

    Raises
    ------
    InvalidScenarioError
        Of any variant warm-up leaves nothing to count, a process cannot do what it is for, a model
        cannot answer an op, or nobody says what a profiler added to times that are judged.
    """
    built: dict[str, BuiltGraphs] = {}
    found = []
    for variant in scenario.variants():
        made = build_system(variant)
        key = graph_inputs(variant, made)
        if key not in built:
            built[key] = BuiltGraphs.of(variant, made)
        machine = made, build_backends(variant, made)
        found.append(build_variant(variant, built[key], machine, scenario))
    for check in (uncounted_period_problems, impossible_process_problems, unanswerable_op_problems):
        if problems := {p.message: p for point in found for p in check(point)}:
            raise InvalidScenarioError(problems.values())
    require_declared_overhead(found)
    return found


@dataclass(frozen=True)
class VariantResults:
    """Results of one variant: its run, its replicas, and their samples.

    Parameters
    ----------
    point : Point
    result : Result
        Of the run with the durations as recorded.
    samples : of every metric of that run
    replicas : the same of each seeded draw
    metrics : what each of them is
    """

    point: Variant
    result: Result
    samples: Mapping[str, Samples]
    replicas: tuple[Mapping[str, Samples], ...] = ()
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``base`` or the name of the variant."""
        return self.point.name


def run_with_replicas(point: Variant, map_runs: MapFunction = map) -> VariantResults:
    """Run a point, and its replicas.

    Parameters
    ----------
    map_runs : goes over the replicas
    """
    wanted = point.scenario.run.replicas
    recorded = map_runs(lambda _: point.run(), (None,))  # under way already, where there is a pool
    draw = point.draw if wanted > 1 else point.run
    (result,) = recorded
    numbers = range(wanted) if wanted > 1 else ()
    drawn = tuple(map_runs(lambda k: samples_of(point, draw(k)), numbers))
    samples = samples_of(point, result)
    metrics = metric_declarations(point, result, samples)
    log.info("%s: %s ops, makespan %.6g s", point.name, result.count, result.makespan)
    return VariantResults(point, result, samples, drawn, metrics)
