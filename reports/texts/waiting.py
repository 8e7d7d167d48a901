"""Waiting for late ranks at collectives: a sentence, tables and a heat map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..blocks import Block, Column, Heading, HeatMap, Paragraph, Table
from ..numbers import format_quantity
from ..palette import BOXES

SHARE = 0.005  # of the ranks' time, below which waiting is not worth a sentence
DARKEST = BOXES["waiting"]
LONGEST = 48  # letters of a collective's name
Late = Mapping[str, Any]


def last_arriver_sentence(point: Mapping[str, Any]) -> str:
    """Sentence on the rank that the others wait for; "" if no single rank is the cause.

    >>> late = {"cause": 7, "collectives": 8, "waited": 0.0094, "of": 0.08,
    ...         "ranks": [{"rank": 7, "late": 0.009, "last": 5}]}
    >>> last_arriver_sentence({"late": late})
    'Rank 7 arrives last in 5 of 8 collectives; the others wait 9 ms for it in total.'
    >>> late["ranks"][0]["begins"] = 0.0075
    >>> last_arriver_sentence({"late": late}).partition(". ")[2]
    'It begins 7.5 ms after the first rank.'
    """
    late = point.get("late")
    if late is None or late["cause"] is None or late["waited"] < SHARE * late["of"]:
        return ""
    one = next(r for r in late["ranks"] if r["rank"] == late["cause"])
    begins = float(one.get("begins", 0.0))
    return (
        f"Rank {one['rank']} arrives last in {one['last']:,} of {late['collectives']:,} "
        f"collectives; the others wait {format_quantity(one['late'], 's')} for it in total."
        + f" It begins {format_quantity(begins, 's')} after the first rank."
        * bool(begins > SHARE * late["waited"])
    )


def waiting_blocks(lateness: Late) -> Iterable[Block]:
    """Tables of ranks and collectives, and a heat map of each rank's waiting at each collective."""
    yield Paragraph(
        f"For the complete run, with {lateness['collectives']:,} collectives that a rank waited "
        "for. A rank's own time excludes waiting, idle time and exposed communication. Its waiting "
        "is time in which it does nothing else. The time that others waited for it is summed over "
        "collectives and ranks, including time in which they computed."
    )
    yield rank_table(lateness)
    met = lateness.get("met", ())
    if not met:
        return
    yield Heading("Waiting of each rank at each collective")
    yield waiting_heat_map(lateness)
    yield Heading("Last arriver of each collective")
    if len(met) < lateness["collectives"]:
        yield Paragraph(
            f"The {len(met)} of {lateness['collectives']:,} collectives with most waiting."
        )
    yield collective_table(met)


def rank_table(lateness: Late, ranks: Sequence[Late] | None = None) -> Table:
    """Table of waiting with one row per rank; all ranks by default."""
    columns = [Column("rank", header=True)] + [
        Column(name, number=True)
        for name in ("begins", "own time", "waiting", "others waited for it", "arrived last")
    ]
    return Table(
        columns, [_rank_row(one) for one in (lateness["ranks"] if ranks is None else ranks)]
    )


def _rank_row(rank: Late) -> list[str]:
    times = [format_quantity(rank.get(k), "s") for k in ("begins", "own", "waiting", "late")]
    return [f"{rank['rank']}", *times, f"{rank['last']:,}"]


def collective_table(collectives: Sequence[Late], max_rows: int | None = None) -> Table:
    """Table with one row per collective, of the ``max_rows`` with the most waiting."""
    order = sorted(range(len(collectives)), key=lambda i: -float(collectives[i]["waited"]))[
        :max_rows
    ]
    columns = [
        Column("", number=True),
        Column("collective", header=True),
        Column("arrives last", number=True),
        Column("total wait of the others", number=True),
    ]
    return Table(columns, [_collective_row(i + 1, collectives[i]) for i in sorted(order)])


def _collective_row(number: int, collective: Late) -> list[str]:
    last = f"rank {collective['last']}" + f" and {collective['tied'] - 1} more" * (
        collective["tied"] > 1
    )
    return [
        f"{number}",
        _short_name(collective["name"]),
        last,
        format_quantity(collective["waited"], "s"),
    ]


def _short_name(name: str) -> str:
    """Name of a collective without its kernel's arguments.

    >>> _short_name("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long)")
    'ncclKernel_AllReduce_RING_LL_Sum_float'
    """
    plain = name.partition("(")[0]
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 1]}…"


def waiting_heat_map(lateness: Late) -> HeatMap:
    """Heat map of the waiting of each rank (row) at each collective (column)."""
    met = lateness["met"]
    waits = np.array([[np.nan if w is None else w for w in one["waits"]] for one in met]).T
    names = [f"rank {one['rank']}" for one in lateness["ranks"]]
    axis = "collectives in the order in which they start"
    return HeatMap(names, waits, axis, "time waited", columns=[""] * len(met), colour=DARKEST,
                   title="{row} waits {value} at collective {column}", unit="s")  # fmt: skip
