"""Section on the fabric of each variant: switches, cables, their cost, and a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ...sim.run.result import Result
from ..blocks import Block, Column, FabricDrawing, Heading, Paragraph, Table, Tier
from ..numbers import format_quantity
from ..section import section
from ..texts.study import StudyShown

Facts = Mapping[str, Any]
HOUR = 3600.0
SEVERAL = {"leaf": "leaves", "switch": "switches"}


@section("fabric", title="Switches and cables", order=45)
def fabric(study: StudyShown) -> Iterable[Block]:
    """Section on the switches and cables of each variant, their prices and connections."""
    facts = {name: p["fabric"] for name, p in study.points.items() if "fabric" in p}
    if not facts:
        return
    yield _counts(facts)
    for name, one in facts.items():
        if list(one["switches"]) == ["leaf"]:
            text = "one leaf switch connects all NICs: there is no spine and no oversubscription"
            if one["switches"]["leaf"] > 1:
                text = "no cable leads from a leaf to a spine"
            yield Paragraph(f"{name}: {text}.")
    for name, one in facts.items():
        drawn = fabric_drawing(one, link_loads(study.results[name]))
        if drawn is not None:
            if len(facts) > 1:
                yield Heading(name)
            if drawn.loads:
                yield Paragraph(
                    "Darker and wider lines are links with a higher mean utilization; the busiest "
                    f"link has {format_quantity(max(drawn.loads), '')}."
                )
            yield drawn


def _counts(facts: Mapping[str, Facts]) -> Table:
    """Table of switch and cable counts, one row per variant."""
    kinds = list(dict.fromkeys(k for one in facts.values() for k in one["switches"]))
    joins = list(dict.fromkeys(_cable_name(c) for one in facts.values() for c in one["cables"]))
    priced = any(one["prices"] for one in facts.values())
    heads = [
        *(f"{kind} switches" for kind in kinds),
        *joins,
        *(["cost per hour"] if priced else []),
    ]
    columns = [Column("variant", header=True), Column("topology")]
    columns += [Column(head, number=True) for head in heads]
    rows = []
    for name, one in facts.items():
        cables = {_cable_name(c): c["number"] for c in one["cables"]}
        counts = [one["switches"].get(k, 0) for k in kinds] + [cables.get(j, 0) for j in joins]
        cells = [f"{n:,}" for n in counts]
        price = [format_quantity(price_per_hour(one), "USD")] if priced else []
        rows.append((name, one["topology"], *cells, *price))
    return Table(columns, rows, stacked=True)


def price_per_hour(facts: Facts) -> float:
    """Price of all switches and cables in USD per hour.

    >>> price_per_hour({"switches": {"leaf": 2}, "cables": [], "prices": {"switch": 1 / 3600}})
    2.0
    """
    counts = {
        "switch": sum(facts["switches"].values()),
        "cable": sum(c["number"] for c in facts["cables"]),
    }
    return float(sum(each * counts[what] for what, each in facts["prices"].items()) * HOUR)


def link_loads(result: Result) -> dict[tuple[str, str], float]:
    """Mean utilization of the links between two switches, by the pair of switch names."""
    sums: dict[tuple[str, str], list[float]] = {}
    used, names = result.utilization(), result.system.components.names
    for number in np.flatnonzero(result.system.machine_numbers < 0).tolist():
        name = names[number]
        a, dot, rest = name.partition(".")
        if dot:
            sums.setdefault((a, rest.partition(".")[0]), []).append(used.get(name, 0.0))
    return {pair: sum(each) / len(each) for pair, each in sums.items()}


def fabric_drawing(
    facts: Facts, loads: Mapping[tuple[str, str], float] | None = None
) -> FabricDrawing | None:
    """Drawing of a fabric by switch; by kind of switch if there are many; None without links.

    Parameters
    ----------
    facts : facts about the fabric, as in a variant's summary
    loads : utilization of the links from one switch to another
    """
    joins = facts["joins"] or list(_joins_of_kinds(facts))
    if loads and not facts["joins"]:
        loads = _loads_of_kinds(facts, loads)
    names = list(dict.fromkeys(name for a, b, _ in joins for name in (a, b)))
    if not names:
        return None
    tiers: dict[str, list[str]] = {}
    for kind in reversed(facts["switches"]):
        of_kind = [n for n in names if _kind_of(n) == kind]
        tiers[kind] = sorted(of_kind, key=lambda n: (len(n), n)) or [_box_name(kind, facts)]
    lines, used = [], []
    for a, b, n in joins:
        ways = [f"{x} to {y} {format_quantity(loads[x, y], '')}"
                for x, y in ((a, b), (b, a)) if loads and (x, y) in loads]  # fmt: skip
        said = f", in use: {', '.join(ways)}" if ways else ""
        lines.append((a, b, f"{a} to {b}: {n:,} cable{'s' * (n != 1)}{said}"))
        if loads and ways:
            used.append(max(loads.get((a, b), 0.0), loads.get((b, a), 0.0)))
    every = used if len(used) == len(lines) else ()
    return FabricDrawing([Tier(kind, boxes) for kind, boxes in tiers.items()], lines, every)


def _joins_of_kinds(facts: Facts) -> Iterator[tuple[str, str, int]]:
    for cables in facts["cables"]:
        if {cables["low"], cables["high"]} <= set(facts["switches"]):
            yield (
                _box_name(cables["low"], facts),
                _box_name(cables["high"], facts),
                cables["number"],
            )


def _loads_of_kinds(
    facts: Facts, loads: Mapping[tuple[str, str], float]
) -> dict[tuple[str, str], float]:
    """Mean utilization between kinds of switches, if all uplinks of a switch are one link."""
    found = {}
    for low, high, _ in _joins_of_kinds(facts):
        for pair, way in (((low, high), "up"), ((high, low), "down")):
            own = [used for (name, end), used in loads.items()
                   if end == way and _box_name(_kind_of(name), facts) == low]  # fmt: skip
            if own:
                found[pair] = sum(own) / len(own)
    return found


def _kind_of(name: str) -> str:
    return name.rstrip("0123456789").rstrip("-_.")


def _box_name(kind: str, facts: Facts) -> str:
    number = facts["switches"].get(kind, 0)
    return f"{number:,} {kind if number == 1 else SEVERAL.get(kind, f'{kind}s')}"


def _cable_name(cables: Mapping[str, Any]) -> str:
    return f"cables {cables['low']} to {cables['high']}"
