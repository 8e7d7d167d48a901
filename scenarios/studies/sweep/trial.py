"""One point of a sweep with its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ....sim.errors import PlanError
from .task import Settings


@dataclass(frozen=True)
class SweepTrial:
    """One point of a sweep, with the shown part of its outcome.

    Parameters
    ----------
    settings : values by key of ``vary``; empty for the scenario itself
    key : SHA-256 that identifies the point in the store of outcomes
    values : metric values in SI, by metric and statistic
    intervals : intervals of the metrics that have one
    error : kind and message; None for a point that finished
    cached : True if the outcome was known before
    varies : True if replicas of the point may give different values
    """

    settings: Settings
    key: str
    values: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, str] | None = None
    cached: bool = False
    varies: bool = True

    @property
    def refused(self) -> bool:
        """True if the point is a parallel plan that breaks a rule or does not fit into memory."""
        return self.error is not None and self.error["kind"] == PlanError.__name__
