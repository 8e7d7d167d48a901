"""Section on stores: hits, misses and evictions of named entries, for every variant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....sim.engine_api.store_control import StoreHistory
from ....sim.run.result import Result
from ...blocks import Block, Column, Line, Paragraph, Table
from ...numbers import format_quantity
from ...section import section
from ...texts.study import StudyShown

COLUMNS = ("variant", "store", "hits", "misses", "hit ratio", "refused", "evictions", "most used")
MOST_ROWS = 40


@section("stores", title="Stores", order=43)
def store_use(study: StudyShown) -> Iterable[Block]:
    """Section with the counts of each store that was used."""
    rows = [row for name, result in study.results.items() for row in _rows(name, result)]
    if not rows:
        return
    more = f" The first {MOST_ROWS} of {len(rows):,} are shown." * (len(rows) > MOST_ROWS)
    yield Paragraph(
        "A hit is a hold of an entry that is present, and a miss creates it. A hold that does not "
        f"fit is refused. An eviction removes an entry without owners to make room.{more}"
    )
    number = [Column(name, number=True) for name in COLUMNS[2:]]
    yield Table([*map(Column, COLUMNS[:2]), *number], rows[:MOST_ROWS])


def _rows(variant: str, result: Result) -> Iterator[list[Line]]:
    """One row per store of a variant, the most used first."""
    stores = sorted(result.stores.items(), key=lambda item: -sum(item[1].counts[:2]))
    for name, history in stores:
        unit = result.system[name].unit
        yield [variant, name, *_cells(history, unit)]


def _cells(history: StoreHistory, unit: str) -> Iterator[str]:
    hits, misses, refused, evictions = history.counts
    holds = hits + misses
    yield from (f"{hits:,}", f"{misses:,}", f"{hits / holds:.1%}" if holds else "")
    yield from (f"{refused:,}", f"{evictions:,}")
    most = int(history.samples[:, 1].max(initial=0))
    yield format_quantity(most, unit) if unit == "B" else f"{most:,} {unit}"
