"""Metrics with too many values to keep, as plain data: how many, and the error of quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....sim.record.distribution import Distribution
from ....sim.run.workload import Samples


def metrics_kept_as_distribution(samples: Mapping[str, Samples]) -> dict[str, dict[str, Any]]:
    """Number of values, and largest relative error of quantiles, of each such metric by name."""
    return {
        name: {"values": len(one), "error": one.error}
        for name, one in samples.items()
        if isinstance(one, Distribution)
    }
