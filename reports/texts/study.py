"""Input of a run's page: summary and results of all variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...sim.run.result import Result
from .headline import Answer
from .step_passes import Pipeline, pipeline_passes

Point = Mapping[str, Any]


@dataclass(frozen=True)
class StudyShown:
    """Input of a run's page: a study with its summary and results.

    Parameters
    ----------
    summary : the summary, as stored in ``summary.json``
    results : the result of each variant
    run : ``resolved`` (text of the resolved scenario), ``command``, ``run`` (its name), ``title``,
        ``timeline_cut`` (number of slices left out of the timeline file, or "")
    rows : result of each variant of which only a window has one row per op
    """

    summary: Mapping[str, Any]
    results: Mapping[str, Result]
    run: Mapping[str, str]
    rows: Mapping[str, Result] = field(default_factory=dict)

    @property
    def points(self) -> Mapping[str, Point]:
        """Summary of each variant by name, the base scenario first."""
        found: Mapping[str, Point] = self.summary["points"]
        return found

    @property
    def answer(self) -> Answer:
        """The deciding metric."""
        found: Answer = self.summary["answer"]
        return found

    @property
    def base(self) -> Point:
        """Summary of the base scenario."""
        return next(iter(self.points.values()))

    def with_points_that_have(self, key: str) -> StudyShown:
        """The same input without the variants whose summary has nothing under a key."""
        points = {name: point for name, point in self.points.items() if point[key]}
        return replace(self, summary={**self.summary, "points": points})

    @cached_property
    def passes(self) -> Mapping[str, Pipeline]:
        """Pipeline passes of each variant that is a described training step."""
        found = {name: pipeline_passes(result) for name, result in self.results.items()}
        return {name: one for name, one in found.items() if one is not None and one.passes}

    def rows_of(self, name: str) -> Result:
        """Result of a variant with one row per op, of a window if only its rows could be had."""
        return self.rows[name] if name in self.rows else self.results[name].detail

    @property
    def base_result(self) -> Result:
        """Result of the base scenario."""
        return self.results[next(iter(self.points))]
