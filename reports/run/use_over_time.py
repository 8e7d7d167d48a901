"""Section on utilization over time: heat maps of every variant, and curves of occupied capacity."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ...sim.analysis.metrics import utilization_windows
from ...sim.run.result import Result
from ..blocks import Axes, Axis, Block, Heading, Live, Paragraph, Plot, Series
from ..figures import schedule
from ..numbers import PREFIXES
from ..palette import series_colour
from ..section import section
from ..texts.study import StudyShown

DIGITS = 3  # of a share
MOST_ROWS = 96  # of a heat map
MOST_CURVES = 6
ALIKE = " + "  # before the number of further components with the same utilization
Shares = Mapping[str, Any]


@section("use", title="Use over time", order=42)
def use_over_time(study: StudyShown) -> Iterable[Block]:
    """Section with the utilization of each component over time, for every variant."""
    found = {name: _shares_of_parts(result) for name, result in study.results.items()}
    if not any(found.values()):
        return
    yield Paragraph(
        "Share of each part in use: GPUs, hosts, memory, NICs, the fabric's links. Parts with the "
        "same use at all times share a row."
    )
    for name, shares in found.items():
        if shares:
            if len(found) > 1:
                yield Heading(name)
            yield _heat_map(study.results[name], shares)
    yield from _held_over_time(study, found)


def _shares_of_parts(result: Result) -> dict[str, Any]:
    """Utilization of the busiest components of each kind, by time window."""
    windows = utilization_windows(result)
    kinds: dict[str, list[str]] = {}
    there = result.system.index
    for number in sorted(there[name] for name in windows if name in there):
        part = result.system.components[number]
        if part.name != part.kind:
            kinds.setdefault(part.kind, []).append(part.name)
    each = max(MOST_ROWS // max(len(kinds), 1), 1)
    chosen = set()
    for names in kinds.values():
        chosen |= set(sorted(names, key=lambda n: -float(np.mean(windows[n])))[:each])
    ordered = [name for names in kinds.values() for name in names if name in chosen]
    return _group_identical({name: windows[name] for name in ordered})


def _group_identical(shares: Shares) -> dict[str, Any]:
    """Merge components of one kind whose utilization is the same to the digit shown.

    >>> same = np.array([0.5, 0.25])
    >>> list(_group_identical({"node0.gpu0": same, "node0.gpu1": same, "node0.nic0.tx": same}))
    ['node0.gpu0 + 1 alike', 'node0.nic0.tx']
    """
    found: dict[tuple[str, bytes], list[str]] = {}
    for name, line in shares.items():
        sort = re.sub(r"\d+", "", name.rpartition(".")[2])
        found.setdefault((sort, np.round(line, DIGITS).tobytes()), []).append(name)
    return {
        first + (f"{ALIKE}{len(others):,} alike" if others else ""): shares[first]
        for first, *others in found.values()
    }


def _first_name(row: str) -> str:
    """Name of the first component of a row that stands for several identical ones.

    >>> _first_name("node0.gpu0.memory + 3 alike"), _first_name("node0.kv")
    ('node0.gpu0.memory', 'node0.kv')
    """
    return row.partition(ALIKE)[0]


def _heat_map(result: Result, shares: Shares) -> Live:
    edges = np.linspace(0.0, result.makespan, len(next(iter(shares.values()))) + 1)
    data = {
        "rows": list(shares),
        "edges": [float(f"{e:.6g}") for e in edges],
        "unit": "",
        "most": 1.0,
        "values": [[round(float(v), DIGITS) for v in line] for line in shares.values()],
    }
    still = schedule.utilization_heat_map(
        {n: s.tolist() for n, s in shares.items()}, result.makespan
    )
    return Live("heat", data, still)


def _held_over_time(study: StudyShown, found: Mapping[str, Shares]) -> Iterator[Block]:
    """Plots of the occupied capacity over time, such as memory, blocks or tokens."""
    by_unit: dict[str, list[Series]] = {}
    scales: dict[str, tuple[float, str]] = {}
    for name, shares in found.items():
        result = study.results[name]
        every = result.system.components
        held_of = np.flatnonzero(every.column(lambda part: part.capacity is not None, bool))
        whole_parts = {every[i].name: every[i] for i in held_of.tolist()}
        parts = {n: whole_parts[first] for n in shares if (first := _first_name(n)) in whole_parts}
        held = sorted(parts, key=lambda n: -float(np.max(shares[n])))
        for one in held[:MOST_CURVES]:
            unit, whole = parts[one].unit, float(parts[one].capacity or 0)
            scale, _ = scales.setdefault(unit, next(p for p in PREFIXES if whole >= p[0]))
            at = (np.arange(len(shares[one])) + 0.5) / len(shares[one]) * result.makespan
            label = one if len(found) == 1 else f"{name}: {one}"
            curves = by_unit.setdefault(unit, [])
            curves.append(Series(at, shares[one] * whole / scale, "", "steps",
                                 series_colour(len(curves)), label))  # fmt: skip
    for unit, curves in by_unit.items():
        yield Heading(f"Held over time, {unit}")
        up = Axis(f"held, {scales[unit][1]}{unit}", limits=(0, None))
        yield Plot([Axes(Axis("time, s"), up, curves)], height=2.6)
