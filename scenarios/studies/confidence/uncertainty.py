"""Uncertainty of a run: effect of model errors on the answer, and on changes between variants.

Each source of error is set to both ends of its 90 % interval by running again; independent effects
add as squares. A source is the same in every variant, so changes are computed from pairs: a network
predicted 10 % too fast is so with and without the other GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....models.compute.chain import Chain
from ....models.compute.cross_gpu_scaling import CrossGpuScaling
from ....models.compute.families import Families
from ....models.compute.recorded import Recorded
from ....models.compute.roofline import Roofline
from ....models.compute.table import MeasuredTable
from ....models.network.collective.collectives import Fabric
from ....models.value_doubts import (
    END,
    FactorRange,
    doubt_without_measurements,
    range_from_median_error,
)
from ....sim.facts.backend import Backend
from ....sim.facts.graph import Graph
from ....sim.facts.ops import Kind
from ....sim.record.binding import bind, map_backends
from ....sim.rerun.model_errors import (
    interval_factors,
    seconds_by_error_family,
    simulation_with_errors,
)
from ....sim.rerun.sensitivity import ScaledBackend, scale_components
from ....sim.run.result import Result
from ....sim.run.simulation import Simulation
from ...config.hil_settings import devices_drive_run
from ...config.scenario import Scenario
from ..summaries.summary import FEWEST, MetricValue, replica_interval
from ..variants.preflight import known_graphs
from ..variants.samples import answer_of_run
from ..variants.variant import Variant
from ..variants.variants import VariantResults
from .unmeasured import (
    CORE_USE,
    RATES,
    core_use_bounds,
    has_unmeasured_gpu,
    is_unfitted_roofline,
    time_bounds_of_unmeasured,
    unfitted_roofline_bounds,
)

if TYPE_CHECKING:
    from ..variants.map_function import MapFunction

COST = "cost_per_million_tokens"
LEAST = 1e-3  # relative width below which an interval is not reported
ALONE = 6  # families of ops varied one by one: those with most time; the others vary together
Bounds = tuple[float, float]
Ways = dict[str, tuple[Simulation, Simulation]]  # slower and faster simulation by source of error


@dataclass(frozen=True)
class ErrorSources:
    """Sources of model error, the same in all variants of a scenario.

    Parameters
    ----------
    parts : median relative error by kind of part, for parts whose catalog values state an error
    unmeasured : ranges of the times of unmeasured values, as ``time_bounds_of_unmeasured`` returns
        them
    families : groups of op families, each with one common error; an empty group stands for all
        families
    blind : True if a GPU is known from its datasheet only
    core_use : range of the compute time that collectives take; None if it is certain
    """

    parts: Mapping[str, float] = field(default_factory=dict)
    unmeasured: Mapping[str, Mapping[str, FactorRange]] = field(default_factory=dict)
    families: tuple[tuple[str, ...], ...] = ()
    blind: bool = False
    core_use: FactorRange | None = None

    @property
    def count(self) -> int:
        """Largest possible number of error sources; each needs two simulations per variant."""
        core = self.core_use is not None
        return len(self.parts) + len(self.unmeasured) + len(self.families) + self.blind + core


def error_sources(scenarios: Iterable[Scenario], points: Iterable[Variant] = ()) -> ErrorSources:
    """Collect the sources of model error: values of scenarios, and op families of variants."""
    scenarios = list(scenarios)
    parts = relative_error_by_kind(scenarios)
    return ErrorSources(
        parts,
        time_bounds_of_unmeasured(scenarios, parts),
        _families(points),
        "gpu" not in parts and has_unmeasured_gpu(scenarios),
        core_use_bounds(scenarios),
    )


def _families(points: Iterable[Variant]) -> tuple[tuple[str, ...], ...]:
    """Op families grouped by their time in all variants; one group for all if ops are unknown."""
    whole: dict[str, float] = {}
    for point in points:
        if devices_drive_run(point.scenario) or all(
            map(_reports_no_error_interval, point.simulation.distinct_backends)
        ):
            continue
        graphs = known_graphs(point)
        if len(graphs) < len(point.built.graphs) or any(map(_copies_in_template, graphs)):
            return ((),)
        for name, seconds in seconds_by_error_family(graphs, point.simulation.bound).items():
            whole[name] = whole.get(name, 0.0) + seconds
    names = sorted(whole, key=lambda name: (-whole[name], name))
    rest = tuple(names[ALONE:])
    return (*((name,) for name in names[:ALONE]), *((rest,) if rest else ()))


def _copies_in_template(graph: Graph) -> bool:
    """True if a graph is a template with copy ops."""
    programs = graph.template.programs if graph.template is not None else ()
    return any(np.any(p.ops.kind == Kind.COPY) for p in programs)


def op_interval_factors(point: Variant, result: Result) -> NDArray[np.float64] | None:
    """Factors on the time of each op that bound its 90 % interval, shape (2, n).

    NaN for ops without an error interval; None if no op has one.
    """
    simulation = point.simulation
    if devices_drive_run(point.scenario) or all(
        map(_reports_no_error_interval, simulation.distinct_backends)
    ):
        return None
    each = [
        interval_factors(run.graph, simulation.bound, doubt_without_measurements())
        for run in result.runs
    ]
    found = np.concatenate(each, axis=1) if each else np.empty((2, 0))
    return None if np.isnan(found).all() else found


def _reports_no_error_interval(backend: Backend) -> bool:
    """True if a backend never reports an error interval."""
    if isinstance(backend, Recorded):
        return backend.doubt is None
    return isinstance(backend, Families)


def reports_error_interval(backend: Backend | None) -> bool:
    """True if a backend reports its error interval, or does not use the values of a part."""
    if isinstance(backend, ScaledBackend):
        return reports_error_interval(backend.inner)
    if isinstance(backend, Chain):
        return all(map(reports_error_interval, backend.links))
    if isinstance(backend, Roofline):
        return bool(backend.families)
    return isinstance(backend, Recorded | Families | CrossGpuScaling | MeasuredTable)


@dataclass(frozen=True)
class VariantWithErrors:
    """Results of a variant, and its answer with each source of error at both ends.

    Parameters
    ----------
    of : results of the variant
    times : (slower, faster) value of the answer, by source of error
    """

    of: VariantResults
    times: Mapping[str, Bounds] = field(default_factory=dict)

    @property
    def answer(self) -> float:
        """Value of the deciding metric, with recorded durations."""
        return self.of.point.answer.of(self.of.samples)

    def with_model_error(self, value: MetricValue, grows: bool = False) -> MetricValue:
        """Value with its interval widened by the model errors.

        Parameters
        ----------
        grows : True if the value is proportional to the answer
        """
        if not self.times:
            return value
        own = self.answer
        per = value.value / own if grows else 1.0
        moved = [[(t - own) * per for t in pair] for pair in self.times.values()]
        bounds = widen_interval(value.value, value.interval, moved)
        if value.interval is None and bounds[1] - bounds[0] < LEAST * abs(value.value):
            return value  # the known errors hardly matter, so the interval would be misleading
        return replace(value, interval=bounds, interval_of=(*value.interval_of, "model"))

    def relative_to_measured_step(self, reference: VariantWithErrors) -> VariantWithErrors:
        """Answers of a calibrated variant, relative to each error's effect on the measured step.

        If a part were wrong, the calibration would find another factor, so that the measured step
        still takes the measured time. To first order, each answer is divided by the error's effect
        on that step.

        Parameters
        ----------
        reference : run of the measured step
        """
        own = reference.answer
        still = dict.fromkeys(self.times, (own, own)) | dict(reference.times)
        times = {
            name: (pair[0] * own / still[name][0], pair[1] * own / still[name][1])
            for name, pair in self.times.items()
        }
        return replace(self, times=times)

    def deviations(self) -> list[dict[str, Any]]:
        """Relative effect of each source of error on the answer, largest first."""
        own = self.answer
        found = [
            {"source": name, "low": min(0.0, *moved), "high": max(0.0, *moved)}
            for name, pair in self.times.items()
            if own and max(map(abs, moved := [t / own - 1 for t in pair])) >= LEAST
        ]
        return sorted(found, key=lambda one: one["low"] - one["high"])


def widen_interval(
    value: float, bounds: Sequence[float] | None, moved: Iterable[Sequence[float]]
) -> Bounds:
    """Add independent deviations to an interval as squares, separately for each side.

    Parameters
    ----------
    bounds : interval without the deviations; None for none
    moved : change by each source of error in both directions

    Examples
    --------
    >>> widen_interval(10.0, (7.0, 10.0), [(4.0, -4.0), (3.0, 1.0)])
    (5.0, 15.0)
    """
    a, b = bounds or (value, value)
    moved = list(moved)
    low = sum(min(0.0, *m) ** 2 for m in moved)
    high = sum(max(0.0, *m) ** 2 for m in moved)
    return value - ((value - a) ** 2 + low) ** 0.5, value + ((b - value) ** 2 + high) ** 0.5


def run_with_model_errors(
    results: VariantResults, errors: ErrorSources, map_runs: MapFunction
) -> VariantWithErrors:
    """Run a variant again with each source of error at both ends of its range.

    A quick run skips this.
    """
    if results.point.scenario.run.quick:
        return VariantWithErrors(results, {})
    if results.point.coupled is not None:
        return VariantWithErrors(results)
    simulation = results.point.simulation
    kinds = {
        kind: rows
        for kind, rows in predicted_components_by_kind(simulation).items()
        if not all(reports_error_interval(simulation.bound[i]) for i in rows)
    }
    ways: Ways = {
        kind: _simulations_at_ends(
            simulation, {kind: rows}, {kind: range_from_median_error(errors.parts[kind])}
        )
        for kind, rows in kinds.items()
        if kind in errors.parts
    }
    for source, ends in errors.unmeasured.items():
        own = {kind: rows for kind, rows in kinds.items() if kind in ends}
        if own:
            ways[source] = _simulations_at_ends(simulation, own, ends, rates_only=source == RATES)
    if errors.blind and (
        rows := [i for i in kinds.get("gpu", ()) if is_unfitted_roofline(simulation.bound[i])]
    ):
        quick, slow = unfitted_roofline_bounds()
        ways["blind"] = (
            scale_components(simulation, rows, 1 / slow),
            scale_components(simulation, rows, 1 / quick),
        )
    for names in errors.families:
        slower, quicker = (
            simulation_with_errors(simulation, names, p, doubt_without_measurements())
            for p in (END, 1 - END)
        )
        ways[_families_name(names)] = slower, quicker
    if errors.core_use is not None and "core" in components_by_kind(simulation):
        ways["kernels beside collectives"] = _simulations_of_core_use(simulation, errors.core_use)
    ways |= _perturbed_simulations(simulation)
    runs = [simulation for pair in ways.values() for simulation in pair]
    times = [*map_runs(lambda s: answer_of_run(results.point.with_simulation(s)), runs)]
    pairs = dict(zip(ways, zip(times[::2], times[1::2], strict=True), strict=True))
    absent = {name for name in map(_families_name, errors.families) if len(set(pairs[name])) == 1}
    return VariantWithErrors(
        results, {name: pair for name, pair in pairs.items() if name not in absent}
    )


def _families_name(families: Sequence[str]) -> str:
    return f"family {', '.join(families) or 'of every op that is predicted'}"


def _simulations_at_ends(
    simulation: Simulation,
    kinds: Mapping[str, Sequence[int]],
    ends: Mapping[str, FactorRange],
    rates_only: bool = False,
) -> tuple[Simulation, Simulation]:
    """Slower and faster simulation, with kinds of components at both ends of their time ranges."""
    slow, quick = simulation, simulation
    for kind, rows in kinds.items():
        slow = scale_components(slow, rows, float(np.exp(-ends[kind].slow)), rates_only)
        quick = scale_components(quick, rows, float(np.exp(-ends[kind].quick)), rates_only)
    return slow, quick


def _simulations_of_core_use(
    simulation: Simulation, ends: FactorRange
) -> tuple[Simulation, Simulation]:
    """Slower and faster simulation: collectives take more and less compute time of GPUs."""

    def other(factor: float) -> Simulation:
        backends = {
            key: one.scaled_core_use(factor) if isinstance(one, Fabric) else one
            for key, one in simulation.backends.items()
        }
        return replace(simulation, backends=backends)

    return other(float(np.exp(ends.slow))), other(float(np.exp(ends.quick)))


def _perturbed_simulations(simulation: Simulation) -> Ways:
    """Slower and faster simulation for each uncertain parameter of fitted op families."""
    found: dict[int, dict[str, tuple[Families, Families]]] = {}
    for one in simulation.backends.values():
        if isinstance(one, Families):
            one.open(simulation.system)
            found[id(one)] = one.doubts()

    def other(name: str, way: int) -> Simulation:
        backends = map_backends(
            simulation.backends,
            lambda b: found[id(b)][name][way] if name in found.get(id(b), {}) else b,
        )
        return replace(simulation, backends=backends)

    names = dict.fromkeys(name for doubts in found.values() for name in doubts)
    return {name: (other(name, 0), other(name, 1)) for name in names}


def change_against_base(base: VariantWithErrors, variant: VariantWithErrors) -> dict[str, Any]:
    """Relative change of a variant against the base, with its interval.

    The interval contains jitter, from paired replicas, and model errors, which are the same in
    both.
    """
    answer = base.of.point.answer

    def ratio(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
        was, is_ = answer.of(a), answer.of(b)
        return is_ / was - 1 if was else 0.0 if is_ == was else float("inf")

    drawn = [ratio(a, b) for a, b in zip(base.of.replicas, variant.of.replicas, strict=False)]
    moved, held = _deviations_of_change(base, variant), replica_interval(drawn)
    enough = len(drawn) >= FEWEST
    value = float(np.median(drawn)) if enough else ratio(base.of.samples, variant.of.samples)
    return {
        "of": answer.metric,
        "value": value,
        "interval": widen_interval(value, held, moved) if moved else held,
        "interval_of": ["jitter"] * (held is not None) + ["model"] * bool(moved),
    }


def _deviations_of_change(base: VariantWithErrors, variant: VariantWithErrors) -> list[Bounds]:
    """Deviation of the change by each source of error, in both directions."""
    was, is_ = base.answer, variant.answer
    if not was:
        return []  # a change relative to zero is undefined
    pairs = [
        (base.times.get(kind, (was, was)), variant.times.get(kind, (is_, is_)))
        for kind in dict.fromkeys((*base.times, *variant.times))
    ]
    found = [tuple(b / a - is_ / was for a, b in zip(*pair, strict=True)) for pair in pairs]
    return [(slow, quick) for slow, quick in found]


def relative_error_by_kind(scenarios: Iterable[Scenario]) -> dict[str, float]:
    """Largest relative error of each kind of part, over all scenarios.

    Datasheet values and assumed values state no error.
    """
    found: dict[str, float] = {}
    for path, origin in (o for s in scenarios for o in s.origins.items()):
        error = origin.source.error_fraction if origin.source else None
        parts = path.split(".")
        own = path.endswith(f".{CORE_USE}")  # has its own source of error
        if error is not None and parts[0] == "cluster" and len(parts) > 2 and not own:
            kind = component_kind_of_setting(path)
            found[kind] = max(found.get(kind, 0.0), error)
    return found


def component_kind_of_setting(path: str) -> str:
    """Kind of component that a cluster setting describes; "" for none.

    >>> settings = ("cluster.node.nic.bandwidth", "cluster.fabric.library.simple.step")
    >>> tuple(map(component_kind_of_setting, settings))
    ('nic', 'fabric')
    >>> component_kind_of_setting("cluster.kinds.trainer.nic.bandwidth")
    'nic'
    """
    parts = path.split(".")
    if parts[:2] == ["cluster", "kinds"]:
        del parts[1]  # same form as with one kind of machine
    if parts[0] != "cluster" or len(parts) < 3:
        return ""
    return "fabric" if parts[2] == "library" else parts[2]


def components_by_kind(simulation: Simulation) -> dict[str, list[int]]:
    """Component indices by kind, in the order of the system."""
    kinds = simulation.system.components.column(lambda part: part.kind, object)
    return {kind: np.flatnonzero(kinds == kind).tolist() for kind in dict.fromkeys(kinds.tolist())}


def predicted_components_by_kind(simulation: Simulation) -> dict[str, list[int]]:
    """Component indices by kind, for components whose settings predict times.

    Components with recorded durations or fitted op families have errors of their own.
    """
    bound = bind(simulation.system, simulation.backends)
    return {
        kind: rows
        for kind, rows in components_by_kind(simulation).items()
        if not all(
            isinstance(bound[i], Recorded | Families)
            for i in bound.first_component_per_backend(rows)
        )
    }
