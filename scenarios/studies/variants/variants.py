"""Variants of a scenario: built, checked, run and measured."""

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
from .placement_check import unused_placement_problems
from .preflight import unanswerable_op_problems
from .process_check import impossible_process_problems
from .profiler_overhead import require_declared_overhead
from .queue_check import impossible_queue_problems
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
    built : its graphs, if built already
    machine : its system and backends, if built already
    base : scenario of the measured step; see ``calibration_of``
    """
    return build_blind_variant(scenario, built, machine).calibrated(calibration_of(scenario, base))


def build_variants(scenario: Scenario) -> list[Variant]:
    """Build and check all variants of a scenario; variants with equal graphs share them."""
    built: dict[str, BuiltGraphs] = {}
    found = []
    for variant in scenario.variants():
        made = build_system(variant)
        key = graph_inputs(variant, made)
        if key not in built:
            built[key] = BuiltGraphs.of(variant, made)
        machine = made, build_backends(variant, made)
        found.append(build_variant(variant, built[key], machine, scenario))
    checks = (
        unused_placement_problems, impossible_queue_problems, uncounted_period_problems,
        impossible_process_problems, unanswerable_op_problems,
    )  # fmt: skip
    for check in checks:
        if problems := {p.message: p for point in found for p in check(point)}:
            raise InvalidScenarioError(problems.values())
    require_declared_overhead(found)
    return found


@dataclass(frozen=True)
class VariantResults:
    """Results of one variant: its run, its replicas, and the samples of all metrics.

    Parameters
    ----------
    point : variant that was run
    result : Result
        Result of the run with recorded durations.
    samples : samples of every metric of that run
    replicas : samples of the metrics in each seeded draw
    metrics : declaration of each metric
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
    """Run a variant, and its replicas.

    Parameters
    ----------
    map_runs : map function over the replicas
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
