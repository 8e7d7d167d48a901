"""Section on streams of items: waiting, service and drops by class and pool, for every variant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....sim.record.item_table import ItemTable
from ...blocks import Block, Column, Line, Paragraph, Table
from ...numbers import format_quantity
from ...section import section
from ...texts.study import StudyShown

COLUMNS = ("variant", "stream", "class", "pool", "items", "waiting", "service", "delay", "dropped")
MOST_ROWS = 60


@section("items", title="Items", order=44)
def item_pools(study: StudyShown) -> Iterable[Block]:
    """Section with one row per class and pool of each stream."""
    tables = [(name, table) for name, result in study.results.items() for table in result.items]
    rows = [row for name, table in tables for row in _rows(name, table)]
    if not rows:
        return
    more = f" The first {MOST_ROWS} of {len(rows):,} are shown." * (len(rows) > MOST_ROWS)
    yield Paragraph(
        "Times are means per item that a pool served. An item waits in the line of a pool, or for "
        f"the pool at its source.{more}"
    )
    number = [Column(name, number=True) for name in COLUMNS[4:]]
    yield Table([*map(Column, COLUMNS[:4]), *number], rows[:MOST_ROWS])
    yield Paragraph(" ".join(_latency(name, table) for name, table in tables))


def _rows(variant: str, table: ItemTable) -> Iterator[list[Line]]:
    for of, pool, served, *times, drops in table.rows():
        means = [format_quantity(time / served, "s") if served else "" for time in times]
        yield [variant, table.name, of, pool, f"{served:,}", *means, f"{drops:,}"]


def _latency(variant: str, table: ItemTable) -> str:
    """Sentence on the latency of the items of one stream."""
    known = "exact" if not table.error else f"within {table.error:.1%} of the latency"
    median, high = (format_quantity(table.quantile(q), "s") for q in (0.5, 0.99))
    return (
        f"{variant}: of {table.arrived.sum():,} items of {table.name}, {table.dropped.sum():,} "
        f"were dropped and {table.inside:,} were inside at the end; median latency {median}, "
        f"p99 {high} ({known})."
    )
