"""Variation between process starts, and whether jitter intervals cover it."""

from __future__ import annotations

from typing import Any

from ....models.compute.jitter import BAR, interval_coverage, prediction_interval
from ...config.scenario import Scenario
from ...workloads.trace_files import process_starts_of
from .summary import FEWEST

UNLIKELY = 0.5  # an interval that begins below this fraction of the fastest step is not accepted


def check_jitter_interval(scenario: Scenario) -> dict[str, Any]:
    """Test of the jitter interval against process starts that it was not made from, as plain data.

    With several recorded starts, ``state`` is ``held`` or ``unresolved``: intervals made from the
    other starts must cover about the stated fraction of each start. Otherwise it is ``unchecked``,
    or ``not drawn`` with too few replicas. An interval that begins below half of the fastest
    recorded step is ``unresolved`` too.
    """
    if scenario.run.replicas < FEWEST:
        return {"state": "not drawn", "fewest": FEWEST}
    starts = process_starts_of(scenario.workload)
    found = interval_coverage(starts.steps) if starts else None
    if starts and len(starts.steps) > 1:
        low, _ = prediction_interval(starts.steps)
        fastest = float(min(s.min() for s in starts.steps))
        if low < UNLIKELY * fastest:  # extrapolated tail of few starts that differ much
            steps = sum(map(len, starts.steps))
            told = {"starts": len(starts.steps), "steps": steps, "low": low, "fastest": fastest}
            return {"state": "unresolved", **told}
    if found is None:
        return {"state": "unchecked", "starts": len(starts.steps) if starts else 1}
    return {
        "state": "held" if found.resolved else "unresolved",
        "starts": found.starts,
        "steps": found.steps,
        "held": found.held,
        "bar": BAR,
    }
