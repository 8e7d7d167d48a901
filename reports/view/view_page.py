"""The page of ``foretrace view``, and the requests that it makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import isnan
from pathlib import Path
from typing import Any

from ...sim.units import seconds
from ..html import script_safe_json, template_environment
from ..palette import bar_kinds
from ..script import page_script, script_hash
from .opened_runs import LONGEST, DrawnBars, OpenedRuns, OpenedVariant, timeline_facts
from .view_server import Pages, Reply, json_reply

WIDEST = 20_000  # pixels
REPORT = "report.html"
TIMES = ("ready", "start", "end", "arrived")  # columns of a table in ticks
Query = Mapping[str, str]


def view_pages(runs: OpenedRuns) -> Pages:
    """Request handlers of the viewer by path: page, bars, name search, ops, reports."""

    def asked(answer: Callable[[OpenedRuns, Query], Reply]) -> Callable[[Query], Reply]:
        return lambda query: answer(runs, query)

    reports = {
        f"report/{i}": _file_reply(run.folder / REPORT)
        for i, run in enumerate(runs.runs)
        if (run.folder / REPORT).is_file()
    }
    return {
        "": asked(_page),
        "bars": asked(_bars),
        "find": asked(_find),
        "op": asked(_op_reply),
        **reports,
    }


def _file_reply(file: Path) -> Callable[[Query], Reply]:
    """Handler that returns a report file unchanged; reports have their own security policy."""
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    )
    return lambda _: Reply(file.read_bytes(), "text/html; charset=utf-8", policy)


@cache
def view_script() -> str:
    """Script of the viewer: the page components, and the code that requests their data.

    >>> "foretrace.timeline = " in view_script(), "</script" in view_script()
    (True, False)
    """
    own = (files(__package__) / "view.js").read_text(encoding="utf-8")
    return f"{page_script()}\n{own}"


def _page(runs: OpenedRuns, query: Query) -> Reply:
    names = _names(runs, query)
    shown = runs.shown(names)
    data: dict[str, Any] = {
        "show": ",".join(names),
        "kinds": [{"name": name, "colour": colour} for name, colour in bar_kinds().items()],
        **timeline_facts(runs, shown),
    }
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; img-src blob: data:; "
        f"script-src {script_hash(view_script())}"
    )
    html = template_environment().get_template("view.html").render(
        data=script_safe_json(data), data_id="view", title=" and ".join(r.name for r in runs.runs),
        question="", policy=policy, script=view_script(), choices=_choices(runs, names),
        reports=[(f"report/{i}", run.name) for i, run in enumerate(runs.runs)
                 if (run.folder / REPORT).is_file()],
    )  # fmt: skip
    return Reply(html.encode(), "text/html; charset=utf-8", policy)


def _choices(runs: OpenedRuns, names: Sequence[str]) -> list[dict[str, Any]]:
    """Links that show or hide a variant, if there are several."""
    if len(runs.names) == len(runs.default_variants):
        return []
    choices = []
    for name in runs.names:
        others = [n for n in runs.names if (n in names) != (n == name)]
        choices.append({"title": runs.title(name), "shown": name in names,
                        "link": f"?show={','.join(others)}" if others else ""})  # fmt: skip
    return choices


def _names(runs: OpenedRuns, query: Query) -> tuple[str, ...]:
    return tuple(query["show"].split(",")) if "show" in query else runs.default_variants


def _bars(runs: OpenedRuns, query: Query) -> Reply:
    first, last = _finite_number(query, "first"), _finite_number(query, "last")
    width = round(_finite_number(query, "width"))
    if not (first < last and 1 <= width <= WIDEST):
        raise ValueError(f"first, last, width: write first < last and 1 to {WIDEST} pixels")
    shown = runs.shown(_names(runs, query))
    drawn = DrawnBars(runs, shown, first, last, width, parse_lanes(query.get("lanes", "")))
    return Reply(drawn.body(), "application/octet-stream")


def parse_lanes(text: str) -> list[int]:
    """Parse lane numbers from a text with ranges.

    Raises
    ------
    ValueError
        The text is not a list of lanes.

    Examples
    --------
    >>> parse_lanes("0-2,7")
    [0, 1, 2, 7]
    """
    found: list[int] = []
    for part in text.split(",") if text else ():
        if not (ends := re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)):
            raise ValueError(f"lanes: {part!r} is not a lane; write them like 0-2,7")
        low, high = int(ends[1]), int(ends[2] or ends[1])
        if high - low > 10**6:
            raise ValueError(
                f"lanes: {part} are too many; write a range of at most 1,000,000 lanes"
            )
        found += range(low, high + 1)
    return found


def _finite_number(query: Query, name: str) -> float:
    """A finite number from a query."""
    value = float(query.get(name, "nan"))
    if not abs(value) < 1e9:
        raise ValueError(f"{name}: is not a finite number; write one")
    return value


def _find(runs: OpenedRuns, query: Query) -> Reply:
    text = query.get("text", "")
    if not 0 < len(text) <= LONGEST:
        raise ValueError(f"text: write 1 to {LONGEST} characters")
    ops, ticks, places = 0, 0, []
    for one in runs.shown(_names(runs, query)):
        found = one.table.find(text)
        ops, ticks = ops + found.ops, ticks + found.ticks
        places += [
            (start, end, lane + one.first_lane, name) for lane, start, end, name in found.places
        ]
    places.sort()
    at = [{"lane": lane, "start": float(runs.seconds(start)), "end": float(runs.seconds(end)),
           "name": name} for start, end, lane, name in places]  # fmt: skip
    return json_reply({"ops": ops, "seconds": float(runs.seconds(ticks)), "at": at})


def _op_reply(runs: OpenedRuns, query: Query) -> Reply:
    """Reply with the ops at a time on a lane, with times in s."""
    lane, at = round(_finite_number(query, "lane")), runs.ticks(_finite_number(query, "at"))
    for one in runs.shown(_names(runs, query)):
        if 0 <= lane - one.first_lane < len(one.table.lanes):
            found = one.table.ops_at(lane - one.first_lane, at)
            told = [_op_json(op, runs.tick) for op in found]
            return json_reply({"ops": told, "members": _members_json(runs, one, found)})
    raise ValueError(
        f"lane: there is no lane {lane}; write the number of a lane of the shown variants"
    )


def _members_json(
    runs: OpenedRuns, variant: OpenedVariant, ops: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Members of the first given op as JSON data, if it is a collective; times in s."""
    if not ops:
        return {"of": 0, "at": []}
    key = f"{variant.first_lane}.{ops[0]['op']}"  # of the collective on the page
    met = variant.table.members(ops[0])
    late = max((since for _, _, since in met.places), default=0)
    start, end = (float(runs.seconds(ops[0][name])) for name in ("start", "end"))
    at = [{"lane": lane + variant.first_lane, "rank": rank, "since": float(runs.seconds(since)),
           "start": start, "end": end, "waits": float(runs.seconds(ops[0]["start"] - since)),
           "last": since == late}
          for lane, rank, since in met.places]  # fmt: skip
    return {
        "of": met.total,
        "last": met.last_count,
        "who": met.first_last_rank,
        "most": float(runs.seconds(met.longest_wait)),
        "first": float(runs.seconds(ops[0]["start"] - met.longest_wait)),
        "below": "that arrive last",
        "key": key,
        "at": at,
    }


def _op_json(op: dict[str, Any], tick: float) -> dict[str, Any]:
    """An op as JSON data; the time of an event that did not happen is null."""
    times = {name: None if op[name] < 0 else float(seconds(op[name], tick))
             for name in TIMES if name in op}  # fmt: skip
    return {k: v for k, v in (op | times).items() if not (isinstance(v, float) and isnan(v))}
