"""Section on the ops with the most time: a zoomable tree, and a table."""

from __future__ import annotations

from collections.abc import Iterable

from ..blocks import Block, Column, Inline, Line, Live, Paragraph, Small, Swatch, Table
from ..figures.icicle import icicle
from ..figures.time_tree import OpTotal, largest_ops, op_totals, time_tree
from ..numbers import format_change, format_quantity
from ..palette import bar_kinds
from ..section import section
from ..texts.study import StudyShown

MOST_ROWS = 30


@section("ops", title="Ops", order=22)
def largest_ops_section(study: StudyShown) -> Iterable[Block]:
    """Section on the time of ops by job, kind, phase, module and name, for every variant."""
    totals = {
        name: op_totals(result.detail) for name, result in study.results.items() if result.count
    }
    if not any(totals.values()):
        return
    period = study.answer.get("period")
    of = (
        f"{period} of the mean rank, averaged over all that are counted"
        if period
        else "run of the mean rank"
    )
    yield Paragraph(
        f"Total duration of ops in one {of}. Ops may run at the same time, so the total can exceed "
        "the elapsed time."
    )
    tree = time_tree(totals)
    yield Live("tree", tree, icicle(tree, f"time of ops in one {period or 'run'}"))
    yield _table(totals)


def _table(totals: dict[str, list[OpTotal]]) -> Table:
    """Table with one row per op name of the largest: number of ops, and time in each variant."""
    sums = {name: _by_name(found) for name, found in totals.items()}
    keys = list(largest_ops(totals, MOST_ROWS))
    counts = {key: [own.get(key, (0.0, 0))[1] for own in sums.values()] for key in keys}
    same = all(len(set(of)) == 1 for of in counts.values())
    columns = [Column("op", header=True, wraps=True), Column("kind")]
    columns += [Column("ops", number=True)] if same else []
    for name in totals:
        columns.append(Column(f"{name}, time", number=True, wraps=True))
        columns += [] if same else [Column(f"{name}, ops", number=True, wraps=True)]
    rows: list[list[Line]] = []
    for key in keys:
        kind, text = key
        cells: list[Line] = [text, [Swatch(bar_kinds()[kind]), kind]]
        cells += [f"{counts[key][0]:,}"] if same else []
        first = next(iter(sums.values())).get(key, (0.0, 0))[0]
        for number, own in enumerate(sums.values()):
            value, count = own.get(key, (0.0, 0))
            time: list[Inline] = [format_quantity(value, "s")]
            if number and first:
                time += [" ", Small(format_change(value / first - 1))]
            cells.append(time)
            cells += [] if same else [f"{count:,}"]
        rows.append(cells)
    return Table(columns, rows, stacked=True)


def _by_name(totals: list[OpTotal]) -> dict[tuple[str, str], tuple[float, int]]:
    sums: dict[tuple[str, str], tuple[float, int]] = {}
    for one in totals:
        key = (one.kind, one.path[-1])
        value, ops = sums.get(key, (0.0, 0))
        sums[key] = (value + one.value, ops + one.ops)
    return sums
