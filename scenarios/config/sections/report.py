"""``report``: title and sections of the report."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import create_model

from ..schema import Many, Section, register


class ReportSection(Section):
    """Title of the report, and its sections."""

    title: str = ""
    """Title at the top of the report; by default the name of the scenario."""
    sections: Many[str] = ()
    """Sections of the report, in order; by default all that apply. Plug-ins may add sections."""


def _report_form() -> Any:
    """Pydantic model of ``report`` with the names of the registered report sections."""
    from ....reports.section import section_names

    known: Any = Literal[section_names()]
    return create_model("ReportSection", __base__=ReportSection, sections=(Many[known], ()))


register(
    "report",
    _report_form,
    ReportSection(),
    inherited=False,
    help="Title of the report, and its sections.",
)
