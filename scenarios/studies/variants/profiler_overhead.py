"""Profiler overhead in recorded times: it must be declared if the times predict something else.

Times under a profiler are up to 6 % longer in the bundled recordings; a prediction from them is
wrong by as much.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ....traces.step_times import KNOWN_STARTS, OVERHEAD
from ...config.problems import InvalidScenarioError, Problem

if TYPE_CHECKING:
    from ...config.sections.workload import WorkloadSection
    from .variant import Variant

log = logging.getLogger(__name__)

CURE = (
    "capture untraced steps too (trace capture --untraced 10), or write what the profiler added "
    "(overhead: 3 %, or 0)"
)


def require_declared_overhead(points: Iterable[Variant]) -> None:
    """Warn about predictions from profiled times without a declared profiler overhead.

    Raises
    ------
    InvalidScenarioError
        The predictions are compared with measurements (``ablations.headline.measured``).
    """
    told: set[str] = set()
    for point in points:
        for job, message in _undeclared(point):
            if _claims_accuracy(point):
                place = "workload" if job == "main" else f"jobs.{job}.workload"
                where = point.scenario.spot(f"{place}.trace")
                raise InvalidScenarioError([Problem("undeclared-overhead", message, where)])
            if message not in told:
                log.warning("%s", message)
            told.add(message)


def _claims_accuracy(point: Variant) -> bool:
    """True if the scenario compares its answer with a measurement."""
    said = point.scenario.section("ablations")
    return said is not None and bool(said.headline.measured)


def _undeclared(point: Variant) -> Iterator[tuple[str, str]]:
    """Job and message for each job that predicts from profiled times without an overhead."""
    for name, job in point.scenario.jobs.items():
        graph = point.built.graphs.get(name)
        if graph is None or job.workload.type != "trace" or not graph.facts.get("timed", True):
            continue
        other = _predicts(point, job.workload)
        if other and not {KNOWN_STARTS, OVERHEAD} & graph.facts.keys():
            trace = getattr(job.workload, "trace", "")
            what = f"times of {trace} include profiler overhead, but predict {other}"
            yield name, f"workload.overhead: {what}; {CURE}"


def _predicts(point: Variant, section: WorkloadSection) -> str:
    """Name of the prediction that a recording is used for; "" for a replay as recorded."""
    if getattr(section, "scale_to", None) is not None:
        return "another plan"
    recorded = getattr(getattr(section, "recorded_on", None), "device", None)
    gpu = getattr(point.scenario.cluster.gpu(), "model", None)
    return "another GPU" if recorded and gpu and recorded != gpu else ""
