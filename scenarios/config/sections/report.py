"""``report``: what the report is called and shows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import create_model

from ..schema import Many, Section, register


class ReportSection(Section):
    """Title of the report, and the sections that it shows."""

    title: str = ""
    """At its top; the name of the scenario unless said."""
    sections: Many[str] = ()
    """In this order; all that apply unless said.  Those of a run, a sweep or a check that are
    registered, also by plug-ins."""


def _report_form() -> Any:
    """With the names that are registered by now."""
    from ....reports.section import section_names

    known: Any = Literal[section_names()]
    return create_model("ReportSection", __base__=ReportSection, sections=(Many[known], ()))


register(
    "report",
    _report_form,
    ReportSection(),
    inherited=False,
    help="Title of the report, and the sections that it shows.",
)
