"""Example of a report section: one row per rank, and the rank that the others wait for.

In a scenario: ``plugins: [rank_section.py]``. ``report: {sections: [answer, ranks]}`` shows only
these two sections. By default the section appears before the glossary at the end of the page.
"""

import numpy as np
from foretrace.reports.blocks import BarChart, Bars, Column, Paragraph, Table
from foretrace.reports.numbers import format_quantity
from foretrace.reports.section import section
from foretrace.sim.analysis.activity import activity


@section("ranks", title="Ranks")
def ranks(study):
    """Section with the own work and the waiting time of each rank in the base scenario."""
    boxes = activity(study.base_result)
    own = boxes["compute"] + boxes["overlapped"] + boxes["host"]
    slowest = int(np.argmax(own))
    yield Paragraph(f"Rank {slowest} works longest, so the other ranks may be waiting for it.")
    columns = [
        Column("rank", header=True),
        Column("own", number=True),
        Column("waits", number=True),
    ]
    rows = [
        (
            str(rank),
            format_quantity(float(t), "s"),
            format_quantity(float(boxes["waiting"][rank]), "s"),
        )
        for rank, t in enumerate(own)
    ]
    yield Table(columns, rows)
    at = np.arange(len(own)) + 0.15
    bars = [
        Bars(at, np.zeros(len(own)), own, "compute", "own work", height=0.7),
        Bars(at, own, boxes["waiting"], "waiting", "waiting", height=0.7),
    ]
    span = float((own + boxes["waiting"]).max())
    legend = {"own work": "compute", "waiting": "waiting"}
    yield BarChart([f"rank {r}" for r in range(len(own))], bars, span, "time, s", legend=legend)
