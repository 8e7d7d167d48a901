"""Timeline data of all variants, in the form that ``reports/script/timeline.js`` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.engine_api.interface import NEVER
from ...sim.facts.kind import Kind
from ...sim.facts.roles import rows_of_named_streams
from ...sim.run.result import Result
from ...sim.units import seconds
from ..export.op_labels import op_labels
from ..export.op_places import OpPlaces, op_places, rank_of_ops, wait_starts
from ..numbers import format_quantity
from ..palette import KINDS, bar_kinds, kind_of_bar
from .packed_bars import CollectiveArrivals, TimelineBars, limit_bars, packed_bars

MOST_BARS = 100_000  # of all variants together
MOST_RANKS = 64  # of all variants together
LEAST_BARS = 200  # of a rank, or fewer ranks are drawn
MOST_TOGETHER = 8  # ranks of a variant beyond which they are grouped by machine
OPEN = 4  # ranks whose streams are unfolded from the start
LONGEST = 90  # letters of a name
WAITING = [*KINDS].index("waiting")


class DrawnVariant(NamedTuple):
    """Timeline bars of one variant and how they were chosen.

    Parameters
    ----------
    rows : descriptions of the timeline's rows for the page script, with lanes numbered from 0
    bars : bars on the lanes of ``rows``
    meetings : arrival of ranks at the collectives that the bars refer to
    least : ticks below which consecutive ops are merged into one bar; 0 if no ops are merged
    ops : number of finished ops on the drawn ranks
    ranks : ranks that are drawn
    """

    rows: list[dict[str, Any]]
    bars: TimelineBars
    meetings: CollectiveArrivals
    least: int
    ops: int
    ranks: NDArray[np.int32]


def timeline_data(
    results: Mapping[str, Result],
    spotlight: Mapping[str, Sequence[int]] | None = None,
    max_bars: int = MOST_BARS,
) -> dict[str, Any]:
    """Timeline rows and bars of all variants over one time axis.

    Parameters
    ----------
    results : results by variant, with one row per op
    spotlight : ranks of each variant that are always drawn
    max_bars : largest number of bars, over all variants
    """
    names: dict[str, int] = {}
    totals: list[list[Any]] = []
    share = max_bars // len(results)
    drawn = {
        name: _drawn_variant(result, (spotlight or {}).get(name, ()), share,
                             max(MOST_RANKS // len(results), 2), (names, totals))
        for name, result in results.items()
    }  # fmt: skip
    rows, offset, before, parts = [], 0, 0, []
    few = max(len(d.ranks) for d in drawn.values()) <= OPEN
    for name, one in drawn.items():
        rows.append({"name": name, "level": 0})
        for row in one.rows:
            lane = {"lane": row["lane"] + offset} if "lane" in row else {"open": few}
            rows.append({"name": row["name"], "level": row["level"], **lane})
        met = np.where(one.bars.met < 0, -1, one.bars.met + before)
        parts.append(one.bars._replace(lane=one.bars.lane + offset, met=met))
        before += len(one.meetings.members)
        offset += 1 + max((r["lane"] for r in one.rows if "lane" in r), default=0)
    tick = min(result.tick for result in results.values())
    factors = [result.tick / tick for result in results.values()]
    same = [_rescaled(p, factor) for p, factor in zip(parts, factors, strict=True)]
    bars = TimelineBars(*(np.concatenate(column) for column in zip(*same, strict=True)))
    bars, meetings = _merge_arrivals(bars, [d.meetings for d in drawn.values()], factors)
    span = _span(bars)
    return {
        "span": [span[0] * tick, span[1] * tick],
        "rows": rows,
        "kinds": [{"name": name, "colour": colour} for name, colour in bar_kinds().items()],
        "said": " ".join(_coverage_sentences(drawn, results)),
        **packed_bars(bars, span, tick, totals, meetings),
    }


def _rescaled(bars: TimelineBars, factor: float) -> TimelineBars:
    if factor == 1.0:
        return bars
    times = {
        c: np.rint(getattr(bars, c) * factor).astype(np.int64)
        for c in ("start", "end", "busy", "wait")
    }
    return bars._replace(**times)


def _merge_arrivals(
    bars: TimelineBars, arrivals: Sequence[CollectiveArrivals], factors: Sequence[float]
) -> tuple[TimelineBars, CollectiveArrivals]:
    """Bars and drawn collectives of all variants, with collectives numbered anew."""
    same = [m._replace(longest_wait=np.rint(m.longest_wait * f).astype(np.int64))
            for m, f in zip(arrivals, factors, strict=True)]  # fmt: skip
    found = CollectiveArrivals(*(np.concatenate(column) for column in zip(*same, strict=True)))
    kept, number = np.unique(bars.met, return_inverse=True)
    drawn = kept[kept >= 0]
    met = number - (len(kept) - len(drawn))
    return bars._replace(met=met), CollectiveArrivals(*(column[drawn] for column in found))


def _span(bars: TimelineBars) -> tuple[int, int]:
    if not len(bars.start):
        return 0, 1
    return int(bars.start.min()), max(int(bars.end.max()), int(bars.start.min()) + 1)


def _coverage_sentences(
    drawn: Mapping[str, DrawnVariant], results: Mapping[str, Result]
) -> Iterator[str]:
    """Sentences on how many ops and ranks are drawn, and how many there are."""
    bars = sum(len(d.bars.lane) for d in drawn.values())
    ops = sum(d.ops for d in drawn.values())
    waits = sum(int(np.sum(d.bars.kind == WAITING)) for d in drawn.values())
    merged = max(seconds(d.least, results[name].tick) for name, d in drawn.items())
    if merged:
        yield (
            f"{ops:,} ops and waits are drawn as {bars:,} bars: ops shorter than "
            f"{format_quantity(float(merged), 's')} that follow each other are merged into one "
            "bar, in the colour of the kind with most time."
        )
    else:
        yield f"All {ops - waits:,} ops and {waits:,} waits are drawn."
    for name, one in drawn.items():
        weights = results[name].rank_weights
        there = int(np.count_nonzero(weights))
        if there < weights.sum():
            yield (
                f"Of {name} {there:,} of {weights.sum():,} ranks were run: each stands for those "
                "that do the same at the same times."
            )
        if len(one.ranks) < there:
            yield f"Of {name} {len(one.ranks)} of {there:,} ranks; all are in 'foretrace view'."


def bar_kind_by_op_kind() -> NDArray[np.int64]:
    """Index into :func:`~..palette.bar_kinds` for each kind of op, shape (kinds,)."""
    numbers = [*bar_kinds()]
    return np.array([numbers.index(kind_of_bar(kind)) for kind in Kind])


def bar_kind_of_ops(result: Result) -> NDArray[np.int64]:
    """Index into :func:`~..palette.bar_kinds` for each op, by its role, shape (ops,)."""
    found, numbers = bar_kind_by_op_kind()[result.ops.kind], [*bar_kinds()]
    for run in result.runs:
        ops = run.graph.ops
        named = rows_of_named_streams(ops.kind, ops.rank, ops.stream, run.graph.streams)
        for role, rows in named.items():
            found[run.first + rows] = numbers.index(role)
    return found


def _drawn_variant(
    result: Result,
    spotlight: Sequence[int],
    max_bars: int,
    ranks: int,
    known: tuple[dict[str, int], list[list[Any]]],
) -> DrawnVariant:
    """Choose the ranks of one variant to draw, and build their rows and bars."""
    where, columns = op_places(result), result.columns
    start, end, arrived = columns.start[where.op], columns.end[where.op], wait_starts(result)
    chosen = _ranks_drawn(where.rank, end, spotlight, max(min(ranks, max_bars // LEAST_BARS), 1))
    there = (end > start) & (start != NEVER) & np.isin(where.rank, chosen)
    waits = (arrived < start) & (arrived != NEVER) & (end != NEVER) & np.isin(where.rank, chosen)
    rows, lane = _rows(result, where.rank, where.stream, there | waits)
    kind = bar_kind_of_ops(result)[where.op]
    name = _names(result, where.op, there, known)
    met, arrived_last, meetings = _collective_arrivals(where, arrived, start, end)
    bars = TimelineBars.of_ops(
        np.concatenate([lane[there], lane[waits]]),
        np.concatenate([start[there], arrived[waits]]),
        np.concatenate([end[there], start[waits]]),
        np.concatenate([kind[there], np.full(int(waits.sum()), WAITING)]),
        np.concatenate([name[there], name[waits]]),
        np.concatenate([met[there], met[waits]]),
        np.concatenate([np.where(met < 0, 0, start - arrived)[there], np.zeros(int(waits.sum()))]),
        np.concatenate([arrived_last[there], arrived_last[waits]]),
    )
    few, least = limit_bars(bars, max_bars)
    return DrawnVariant(rows, few, meetings, least, len(bars.lane), chosen)


def _collective_arrivals(
    where: OpPlaces, arrived: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], CollectiveArrivals]:
    """Arrivals at collectives: collective of each place, late arrivals, and all collectives.

    A place is a rank's participation in an op; a collective is an op with several places. Returns
    the index of the collective of each place (-1 for none), True where the place arrived last, both
    of shape (places,), and one row per collective.
    """
    several = np.bincount(where.op)[where.op] > 1
    several &= (arrived != NEVER) & (start != NEVER) & (end != NEVER)
    at = np.flatnonzero(several)
    at = at[np.argsort(where.op[at], kind="stable")]
    _, first, of = np.unique(where.op[at], return_index=True, return_counts=True)
    met, arrived_last = np.full(len(several), -1), np.zeros(len(several), bool)
    if not len(at):
        return met, arrived_last, CollectiveArrivals(of, of, of, of)
    came, number = arrived[at], np.repeat(np.arange(len(of)), of)
    late = came == np.maximum.reduceat(came, first)[number]
    ranks = np.where(late, where.rank[at], np.iinfo(np.int32).max)
    met[at], arrived_last[at] = number, late
    most = start[at[first]] - np.minimum.reduceat(came, first)
    last = np.add.reduceat(late.astype(np.int64), first)
    return met, arrived_last, CollectiveArrivals(of, last, np.minimum.reduceat(ranks, first), most)


def _ranks_drawn(
    rank: NDArray[np.int32], end: NDArray[np.int64], spotlight: Sequence[int], max_ranks: int
) -> NDArray[np.int32]:
    """Ranks to draw: all, or those in the spotlight, the last to end and evenly spaced others."""
    present = np.unique(rank)
    if len(present) <= max_ranks:
        return present
    last = np.zeros(int(present[-1]) + 1, np.int64)
    np.maximum.at(last, rank, end)
    asked = dict.fromkeys((*spotlight, int(np.argmax(last))))
    even = present[np.linspace(0, len(present) - 1, max_ranks).astype(int)].tolist()
    kept = list(dict.fromkeys((*asked, *even)))[:max_ranks]
    return np.array(sorted(kept), np.int32)


def _rows(
    result: Result, rank: NDArray[np.int32], stream: NDArray[np.int32], there: NDArray[np.bool_]
) -> tuple[list[dict[str, Any]], NDArray[np.int64]]:
    """Rows for ranks and streams, grouped by machine if many; and the lane of each place."""
    least, streams = int(stream.min(initial=0)), int(np.ptp(stream)) + 1 if len(stream) else 1
    keys = rank[there].astype(np.int64) * streams + stream[there] - least
    unique, inverse = np.unique(keys, return_inverse=True)
    lane = np.zeros(len(rank), np.int64)
    lane[there] = inverse
    machine = _machine_of_ranks(result)
    pairs = [(key // streams, key % streams + least) for key in unique.tolist()]
    ranks = list(dict.fromkeys(r for r, _ in pairs))
    grouped = len(ranks) > MOST_TOGETHER and len({machine.get(r) for r in ranks}) > 1
    rows: list[dict[str, Any]] = []
    before, group = None, None
    for number, (r, s) in enumerate(pairs):
        if grouped and machine.get(r, "") != group:
            group = machine.get(r, "")
            rows.append({"name": group or "other", "level": 1})
        if r != before:
            rows.append({"name": f"rank {r}", "level": 1 + grouped})
            before = r
        rows.append({"name": f"stream {s}", "level": 2 + grouped, "lane": number})
    return rows, lane


def _machine_of_ranks(result: Result) -> dict[int, str]:
    """Machine of each rank, from the names of the GPUs and hosts that ran its ops."""
    part = result.component
    names = result.parts.names
    found: dict[int, str] = {}
    own = np.flatnonzero(np.isin(result.ops.kind, (Kind.COMPUTE, Kind.HOST)) & (part >= 0))
    ranks, first = np.unique(rank_of_ops(result)[own], return_index=True)
    for r, op in zip(ranks.tolist(), own[first].tolist(), strict=True):
        machine, dot, _ = names[part[op]].partition(".")
        if dot:
            found[r] = machine
    return found


def _names(
    result: Result,
    op: NDArray[np.int64],
    there: NDArray[np.bool_],
    known: tuple[dict[str, int], list[list[Any]]],
) -> NDArray[np.int64]:
    """Index of each place's op name in the list of all names, shape (places,); -1 for none.

    Also adds ops and seconds to the totals of each name in ``known``.
    """
    numbers, totals = known
    texts, label = op_labels(result)
    own = np.full(len(texts) + 1, -1, np.int64)
    for i in np.unique(label[op[there]]).tolist():
        if i >= 0:
            text = texts[i] if len(texts[i]) <= LONGEST else f"{texts[i][: LONGEST - 1]}…"
            own[i] = numbers.setdefault(text, len(numbers))
            if own[i] == len(totals):
                totals.append([text, 0, 0.0])
    name = own[label[op]]
    named = there & (name >= 0)
    columns = result.columns
    took = seconds(columns.end[op] - columns.start[op], result.tick)
    count = np.bincount(name[named], minlength=len(totals))
    spent = np.bincount(name[named], took[named], len(totals))
    for i in np.flatnonzero(count).tolist():
        totals[i][1] += int(count[i])
        totals[i][2] = float(f"{totals[i][2] + spent[i]:.6g}")
    return name
