"""``report``: what the report is called and shows."""

from __future__ import annotations

from typing import Literal

from ..schema import Many, Section, register

Part = Literal[
    "answer",
    "compare",
    "where_time_goes",
    "blame",
    "bottlenecks",
    "timeline",
    "pareto",
    "sensitivity",
    "capacity",
    "accuracy",
    "error_by_size",
    "timeline_overlay",
    "drift",
    "assumptions",
    "metrics",
    "words",
    "reproduce",
]


class ReportSection(Section):
    """What the report is called and shows."""

    title: str = ""
    """At its top; the name of the scenario unless said."""
    sections: Many[Part] = ()
    """In this order; all that apply unless said."""


register("report", ReportSection, ReportSection(), inherited=False)
