"""A timeline that zooms and shows tooltips, by Bokeh, in a self-contained page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ...sim.units import PICOSECOND, Seconds
from ..figures.schedule import LAYER_COLOURS, LAYERS
from ..html import POLICY

MOST_BARS = 4_000
INK = "#7f8a94"  # is seen on light and on dark
END = '<script type="application/json"'  # where a page's sections end


def with_timeline(html: str, ops: Path, tick: Seconds = PICOSECOND) -> str:
    """HTML of a page with the interactive timeline of a run after its sections.

    Parameters
    ----------
    html : a report
    ops : as :func:`.tables.write_ops` wrote it
    tick : s
        Of the run.
    """
    from bokeh.embed import components
    from bokeh.resources import Resources

    rows, left_out = _rows(ops, tick)
    library = Resources(mode="inline", components=["bokeh", "bokeh-gl"])
    script, place = components(_figure(rows))
    drawn = len(rows["left"])
    which = f"The first {drawn:,} of {drawn + left_out:,} ops" if left_out else "Every op"
    section = (
        f'<section id="interactive"><h2>Timeline, to zoom</h2><p>{which} of the base: drag to '
        f"move, turn the wheel to zoom, point at a bar for its name. A collective is on its "
        f"first rank.</p>{place}</section>\n"
    )
    scripted = html.replace(POLICY, f"{POLICY}; script-src 'unsafe-inline'; img-src data:", 1)
    head, tail = scripted.rsplit(END, 1)
    return f"{head}{section}{library.render_js()}{script}{END}{tail}"


def _rows(ops: Path, tick: Seconds) -> tuple[dict[str, Any], int]:
    """Ops by start in ms, up to a limit; and the number beyond it."""
    import duckdb

    quoted = str(ops).replace("'", "''")
    ended = f"FROM '{quoted}' WHERE state = 'ended' AND \"end\" > start"
    with duckdb.connect() as db:
        (count,) = db.execute(f"SELECT count(*) {ended}").fetchone() or (0,)
        found: dict[str, Any] = db.execute(
            f'SELECT start * {tick} * 1e3 AS left, "end" * {tick} * 1e3 AS right, kind, '
            f"coalesce(name, kind) AS name, 'rank ' || rank || ', stream ' || stream AS lane, "
            f"component {ended} ORDER BY start, op LIMIT {MOST_BARS}"
        ).fetchnumpy()
    layer = {kind.name.lower(): name for name, kinds in LAYERS.items() for kind in kinds}
    columns: dict[str, Any] = {k: found[k].tolist() for k in ("name", "lane", "component")}
    columns["layer"] = [layer[kind] for kind in found["kind"].tolist()]
    columns["colour"] = [LAYER_COLOURS[name] for name in columns["layer"]]
    columns |= {"left": found["left"], "right": found["right"]}
    columns["took"] = found["right"] - found["left"]
    return columns, max(int(count) - MOST_BARS, 0)


def _figure(rows: dict[str, Any]) -> Any:
    from bokeh.models import ColumnDataSource
    from bokeh.plotting import figure

    lanes = sorted(set(rows["lane"]), key=lambda lane: [int(n) for n in re.findall(r"\d+", lane)])
    drawn = figure(
        y_range=lanes[::-1], height=90 + 22 * len(lanes), sizing_mode="stretch_width",
        tools="xpan,xwheel_zoom,xbox_zoom,reset,hover", active_scroll="xwheel_zoom",
        tooltips=[("op", "@name"), ("took", "@took{0.000} ms"), ("on", "@component")],
        output_backend="webgl", x_axis_label="time, ms",
    )  # fmt: skip
    drawn.hbar(
        y="lane", left="left", right="right", height=0.8, color="colour", legend_group="layer",
        line_width=0, source=ColumnDataSource(rows),
    )  # fmt: skip
    drawn.background_fill_color = drawn.border_fill_color = None
    drawn.legend.background_fill_color, drawn.legend.label_text_color = None, INK
    drawn.legend.orientation, drawn.legend.border_line_color = "horizontal", None
    drawn.add_layout(drawn.legend[0], "above")
    for axis in (*drawn.xaxis, *drawn.yaxis):
        axis.major_label_text_color = axis.axis_label_text_color = axis.axis_line_color = INK
    drawn.grid.grid_line_alpha = 0.2
    return drawn
