"""Drawing of a fabric as inline SVG: rows of switches and the links between them."""

from __future__ import annotations

import math
from html import escape

from ..blocks import FabricDrawing
from ..figure_kind import on_page

WIDTH, ROW, TALL = 1_000, 110, 34  # units: of the drawing, from row to row, and of a box
MARGIN = 90  # left of the boxes, where the name of a row stands
NAMED = 12  # boxes of a row that have room for their names


@on_page(FabricDrawing)
def fabric_svg(figure: FabricDrawing) -> str:
    """SVG of a fabric; a link between switches of one row is an arc below them.

    Examples
    --------
    >>> from ..blocks import Tier
    >>> tiers = [Tier("spine", ["spine0"]), Tier("leaf", ["leaf0", "leaf1"])]
    >>> drawn = fabric_svg(FabricDrawing(tiers, [("leaf0", "spine0", "2 cables")]))
    >>> drawn.count("<rect"), drawn.count("<path"), "2 cables" in drawn
    (3, 1, True)
    """
    places: dict[str, tuple[float, float, float]] = {}
    boxes = []
    for row, tier in enumerate(figure.tiers):
        step, y = (WIDTH - MARGIN) / len(tier.boxes), row * ROW + 10
        wide = min(0.8 * step, 200.0)
        boxes.append(f'<text x="0" y="{y + 22}" fill="currentColor">{escape(tier.name)}</text>')
        for place, name in enumerate(tier.boxes):
            x = MARGIN + (place + 0.5) * step
            places[name] = x, y, row
            boxes.append(_box(x, y, wide, name, named=len(tier.boxes) <= NAMED))
    most = max(figure.loads, default=0.0) or 1.0
    loads = [load / most for load in figure.loads] or [math.nan] * len(figure.joins)
    lines = [
        _line(places[a], places[b], title, load)
        for (a, b, title), load in zip(figure.joins, loads, strict=True)
    ]
    arcs = any(places[a][2] == places[b][2] for a, b, _ in figure.joins)
    tall = (len(figure.tiers) - 1) * ROW + TALL + (60 if arcs else 14)
    return (
        f'<svg viewBox="0 0 {WIDTH} {tall}" role="img" font-size="15" '
        f'style="max-width:1000px;width:100%">{"".join(lines)}{"".join(boxes)}</svg>'
    )


def _box(x: float, y: float, wide: float, name: str, *, named: bool) -> str:
    text = escape(name)
    label = (
        f'<text x="{x:.4g}" y="{y + 22}" text-anchor="middle" fill="currentColor">{text}</text>'
        if named
        else ""
    )
    return (
        f'<rect x="{x - wide / 2:.4g}" y="{y}" width="{wide:.4g}" height="{TALL}" rx="4" '
        f'fill="var(--paper, white)" stroke="currentColor"><title>{text}</title></rect>{label}'
    )


def _line(
    a: tuple[float, float, float], b: tuple[float, float, float], title: str, load: float
) -> str:
    (x, y, row), (to, down, other) = sorted((a, b), key=lambda end: end[1])
    if row == other:
        bend = y + TALL + 40
        path = f"M{x:.4g} {y + TALL}Q{(x + to) / 2:.4g} {bend} {to:.4g} {y + TALL}"
    else:
        path = f"M{x:.4g} {y + TALL}L{to:.4g} {down}"
    ink = "currentColor" if math.isnan(load) else "var(--exposed)"
    strong = 0.35 if math.isnan(load) else 0.12 + 0.88 * min(load, 1.0)
    wide = 1.0 if math.isnan(load) else 1.5 + 5.0 * min(load, 1.0)
    return (
        f'<path d="{path}" fill="none" stroke="{ink}" stroke-opacity="{strong:.3g}" '
        f'stroke-width="{wide:.3g}">'
        f"<title>{escape(title)}</title></path>"
    )
