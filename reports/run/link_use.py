"""Section on link utilization during the longest collective of each variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...sim.analysis.link_use import link_uses, longest_collective
from ...sim.run.result import Result
from ...sim.units import seconds
from ..blocks import Block, Column, Paragraph, Table
from ..numbers import format_quantity, format_share
from ..section import section
from ..texts.study import StudyShown

MOST_ROWS = 24
Shares = Mapping[str, float]
"""Fraction of a collective's time in which it kept each link busy, by link."""


@section("links", title="Links of the longest collective", order=46)
def link_use(study: StudyShown) -> Iterable[Block]:
    """Section on link utilization during the longest collective of each variant."""
    shares: dict[str, Shares] = {}
    sentences = []
    for name, result in study.results.items():
        record = result.detail
        op = longest_collective(record)
        uses = link_uses(record, op) if op >= 0 else []
        if not uses:
            continue
        shares[name] = {use.component: use.share for use in uses}
        busiest = uses[0]
        sentences.append(
            f"{name}: {_op_name(record, op)} takes "
            f"{format_quantity(float(seconds(_ticks(record, op), record.tick)), 's')}; "
            f"its busiest link, {busiest.component}, is in use for "
            f"{format_share(busiest.share, 0)} of that time; the mean over its {len(uses)} links "
            f"is {format_share(sum(shares[name].values()) / len(uses), 0)}."
        )
    if not shares:
        return
    yield from map(Paragraph, sentences)
    yield link_table(shares)


def link_table(shares: Mapping[str, Shares]) -> Table:
    """Table with one row per link, busiest first; links with equal use in all variants share a row.

    Parameters
    ----------
    shares : fraction of the collective's time in which each link is busy, by variant
    """
    links = dict.fromkeys(link for own in shares.values() for link in own)
    alike: dict[tuple[str, ...], list[str]] = {}
    for link in sorted(links, key=lambda link: [-own.get(link, 0.0) for own in shares.values()]):
        cells = (format_share(own[link]) if link in own else "–" for own in shares.values())
        alike.setdefault(tuple(cells), []).append(link)
    rows = [
        (name if not more else f"{name} + {len(more)} alike", *cells)
        for cells, (name, *more) in alike.items()
    ]
    if len(rows) > MOST_ROWS:
        left = len(rows) - MOST_ROWS + 1
        rows = [
            *rows[: MOST_ROWS - 1],
            (f"{left} more rows of less busy links", *[""] * len(shares)),
        ]
    columns = [Column("link", header=True, wraps=True)]
    return Table([*columns, *(Column(name, number=True) for name in shares)], rows, stacked=True)


def _ticks(record: Result, op: int) -> int:
    return int(record.columns.end[op] - record.columns.start[op])


def _op_name(record: Result, op: int) -> str:
    """Name of an op in its graph, and the number of ranks that take part."""
    run = next(r for r in record.runs if r.first <= op < r.first + len(r.graph.explicit))
    row = op - run.first
    return f"{run.graph.label(row).name} of {len(run.graph.explicit.members[row])} ranks"
