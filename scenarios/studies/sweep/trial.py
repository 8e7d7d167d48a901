"""One point that was tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ....sim.errors import PlanError
from .task import Settings


@dataclass(frozen=True)
class SweepTrial:
    """One point that was tried, with as much of its outcome as is shown.

    Parameters
    ----------
    settings : by key of ``vary``; empty for the scenario as it stands
    key : of the point
    values : SI, by metric and statistic
    intervals : of those that have one
    error : kind and message; None for a point that finished
    cached : was it known before
    varies : may its replicas differ
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
        """Whether it is a parallel plan that breaks a rule or does not fit."""
        return self.error is not None and self.error["kind"] == PlanError.__name__
