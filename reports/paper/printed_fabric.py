"""Fabric drawings for papers: rows of switches and the links between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..blocks import FabricDrawing, Tier
from ..figure_kind import on_paper
from ..palette import rgb
from .sheet import Sheet, shorten_text, text_width

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

ROW = 0.85  # inches from row to row
BOX = 0.24  # inches: height of a box
MARGIN = 0.62  # inches: left of the boxes, where the name of a row stands
Places = dict[str, tuple[float, float]]


@on_paper(FabricDrawing)
def fabric(figure: FabricDrawing, sheet: Sheet) -> Drawing:
    """Draw a fabric with its highest row on top; links with a higher utilization are wider."""
    margin = max(MARGIN, *(text_width(tier.name) + 0.12 for tier in figure.tiers))
    height = ROW * (len(figure.tiers) - 1) + BOX + 0.5 + (0.16 if figure.loads else 0.0)
    drawing = sheet.canvas(height)
    axes = drawing.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(0, sheet.width)
    axes.set_ylim(-(len(figure.tiers) - 1) * ROW - 0.45, 0.2)
    places: Places = {}
    for row, tier in enumerate(figure.tiers):
        places |= _draw_tier(axes, tier, -row * ROW, margin, sheet.width)
    most = max(figure.loads, default=0.0) or 1.0
    for number, (a, b, _) in enumerate(figure.joins):
        load = figure.loads[number] / most if figure.loads else None
        _draw_join(axes, places[a], places[b], load)
    if figure.loads:
        axes.text(0, -(len(figure.tiers) - 1) * ROW - 0.36,
                  f"width and shade of a link: share in use, at most {100 * most:.3g} %",
                  fontsize=7, color=rgb("soft"))  # fmt: skip
    return drawing


def _draw_tier(axes: Any, tier: Tier, y: float, margin: float, width: float) -> Places:
    """Draw one row of switches with their names, or only their numbers if names do not fit."""
    from matplotlib.patches import FancyBboxPatch

    step = (width - margin) / len(tier.boxes)
    wide = min(0.84 * step, 1.4)
    axes.text(0, y, tier.name, va="center", fontsize=7)
    places = {}
    for place, name in enumerate(tier.boxes):
        x = margin + (place + 0.5) * step
        places[name] = (x, y)
        axes.add_patch(
            FancyBboxPatch(
                (x - wide / 2, y - BOX / 2), wide, BOX, boxstyle="round,pad=0,rounding_size=0.03",
                facecolor=rgb("paper"), edgecolor=rgb("ink"), linewidth=0.6, zorder=2,
            )
        )  # fmt: skip
        text = _box_text(name, wide)
        axes.text(x, y, text, ha="center", va="center", fontsize=7, zorder=3)
    return places


def _box_text(name: str, wide: float) -> str:
    """Text that fits in a switch's box: its name, its number, or nothing.

    >>> _box_text("leaf12", 0.6), _box_text("leaf12", 0.2), _box_text("leaf12", 0.05)
    ('leaf12', '12', '')
    """
    number = name[len(name.rstrip("0123456789")) :]
    if text_width(name) <= wide:
        return name
    if number and text_width(number) <= wide:
        return number
    letters = int(len(name) * wide / text_width(name))
    return shorten_text(name, letters) if letters > 4 else ""


def _draw_join(
    axes: Any, a: tuple[float, float], b: tuple[float, float], load: float | None
) -> None:
    """Draw a link between two switches; between switches of one row it is an arc below them."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    (x, y), (to, down) = sorted((a, b), key=lambda end: -end[1])
    if y == down:
        ends = [(x, y - BOX / 2), ((x + to) / 2, y - BOX / 2 - 0.4), (to, y - BOX / 2)]
        path = Path(ends, [Path.MOVETO, Path.CURVE3, Path.CURVE3])
    else:
        path = Path([(x, y - BOX / 2), (to, down + BOX / 2)])
    share = 0.0 if load is None else min(load, 1.0)
    axes.add_patch(
        PathPatch(
            path, facecolor="none", zorder=1,
            edgecolor=rgb("ink @ 50") if load is None else rgb(f"exposed @ {20 + 80 * share:.0f}"),
            linewidth=0.6 if load is None else 0.5 + 2.5 * share,
        )
    )  # fmt: skip
