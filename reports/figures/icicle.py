"""Icicle chart of a time tree: one row per level, each part below its parent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..blocks import BarChart, Bars, BarText
from ..palette import bar_kinds
from .schedule import seconds_scale

LEAST = 0.002  # of the whole: parts that are shorter are left blank
DEEPEST = 7  # levels
NAMED = 0.02  # of the whole: parts with room for a few letters
PALE = ("idle", "host", "tint", "waiting")  # with dark text
GAP = 0.0008  # of the whole, between parts
Node = Mapping[str, Any]


def icicle(tree: Node, axis: str) -> BarChart:
    """Icicle chart of a tree from :func:`~.time_tree.time_tree`, as bars.

    Parameters
    ----------
    axis : name of the axis, without a unit

    Examples
    --------
    >>> leaf = {"name": "gemm", "value": 2.0, "kind": "compute"}
    >>> drawn = icicle({"name": "base", "value": 2.0, "children": [leaf]}, "time")
    >>> len(drawn.rows), [t.text for t in drawn.texts], drawn.axis
    (2, ['base', 'gemm'], 'time, s')
    """
    whole = float(tree["value"]) or 1.0
    scale, unit = seconds_scale(whole)
    parts = list(_parts(tree, 0, 0.0, LEAST * whole))
    bars: dict[tuple[int, str], list[tuple[float, float]]] = {}
    texts = []
    for level, start, node in parts:
        colour = node.get("kind", "tint")
        took = max(float(node["value"]) - GAP * whole, 0.5 * float(node["value"])) / scale
        bars.setdefault((level, colour), []).append((start / scale, took))
        if node["value"] >= NAMED * whole:
            ink = "ink" if colour in PALE else "on-bar"
            texts.append(BarText(level, start / scale, took, str(node["name"]), ink))
    drawn = [
        Bars([level + 0.04] * len(own), [s for s, _ in own], [t for _, t in own], colour,
             height=0.92)
        for (level, colour), own in bars.items()
    ]  # fmt: skip
    levels = 1 + max(level for level, _, _ in parts)
    names = [f"level {n}" if n else "all" for n in range(levels)]
    legend = {_kind_name(c): c for _, c in bars if c != "tint"}
    return BarChart(names, drawn, whole / scale, f"{axis}, {unit}", 26, legend, texts)


def _kind_name(colour: str) -> str:
    return {own: name for name, own in bar_kinds().items()}[colour]


def _parts(
    node: Node, level: int, start: float, min_length: float
) -> Iterator[tuple[int, float, Node]]:
    """Level, start and node of each part that is wide enough to be visible."""
    yield level, start, node
    if level + 1 == DEEPEST:
        return
    for child in node.get("children", ()):
        if child["value"] >= min_length:
            yield from _parts(child, level + 1, start, min_length)
        start += float(child["value"])
