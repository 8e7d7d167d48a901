"""Section on assumptions: sources of op times, facts of the run, and every value of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..blocks import (
    Block,
    Code,
    Column,
    Heading,
    Line,
    Paragraph,
    Table,
    Tag,
    Terms,
    comma_separated,
)
from ..numbers import NONE, format_change, format_quantity
from ..section import section
from ..texts.command_line import with_option
from ..texts.study import Point, StudyShown

ORDER = ("assumed", "datasheet", "fitted", "measured")


@section("assumptions", title="What this rests on", order=60)
def assumptions(study: StudyShown) -> Iterable[Block]:
    """Section on assumptions: sources of op times, facts of the run, and the machine's values."""
    yield Heading("Where op times come from")
    yield _sources(study.base)
    yield from _chains(study.base.get("chains", {}))
    if facts := study.base["facts"]:
        yield Heading("Facts of the run and its trace")
        yield Terms([(name.replace("_", " "), _fact_text(name, v)) for name, v in facts.items()])
    tried = "break_even" in study.summary["provenance"]
    which = "largest effect first" if tried else "least certain first"
    yield Heading(f"Every value of the machine, {which}")
    values = study.summary["provenance"]["values"]
    if idle := [
        v["path"] for v in values if v.get("effect") is not None and _effect_text(v) == NONE
    ]:
        yield Paragraph(["No effect: ", *comma_separated(idle), "."])
    elif not tried:
        defend = Code(with_option(study.run["command"], "--defend"))
        text = " repeats the run with each value 10 % off."
        yield Paragraph(["Which of them matter was not tested: ", defend, text])
    yield _values(values, tried)


def _sources(point: Point) -> Table:
    whole = sum(point["sources"].values()) or 1.0
    columns = [
        Column("source"), Column("time of ops", number=True), Column("share", number=True),
    ]  # fmt: skip
    rows = [
        (text, format_quantity(t, "s"), format_quantity(t / whole, ""))
        for text, t in point["sources"].items()
    ]
    return Table(columns, rows)


def _chains(chains: Mapping[str, Any]) -> Iterable[Block]:
    """Table of op times by backend of a chain, and of the longest ops with only recorded times."""
    if not chains:
        return
    numbers = ("ops", "time, each op alone", "share")
    columns = [Column("ops of"), Column("backend"), *(Column(n, number=True) for n in numbers)]
    rows = [
        (kind, one.get("link") or ["only in the recording: ", Code(one["op"])], f"{one['ops']:,}",
         format_quantity(one["seconds"], "s"), format_quantity(one["share"], ""))
        for kind, chain in chains.items()
        for one in (*chain["links"], *chain["only_recorded"])
        if one["ops"]
    ]  # fmt: skip
    yield Heading("Backend of each chain that gives the op times")
    yield Table(columns, rows)


def _fact_text(name: str, value: Any) -> str:
    if name.endswith("share"):
        return format_quantity(value, "")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _values(values: Sequence[Mapping[str, Any]], has_effects: bool) -> Table:
    """Table of the machine's values, largest effect first; without effects, least certain first."""
    ordered = sorted(
        values, key=lambda v: (-abs(v.get("effect") or 0.0), ORDER.index(v["kind"]), v["path"])
    )
    columns = [Column("kind", alone=""), Column("setting", alone=""), Column("value")]
    columns += [Column("effect of 10 %", number=True)] if has_effects else []
    columns += [Column("where from", alone="from"), Column("error")]
    return Table(columns, [_value_row(v, has_effects) for v in ordered], stacked=True)


def _value_row(value: Mapping[str, Any], has_effects: bool) -> list[Line]:
    error = value["error"] or "unknown"
    return [
        Tag(value["kind"]),
        Code(value["path"]),
        value["value"],
        *([_effect_text(value)] if has_effects else []),
        value["where"],
        f"{error}: {value['note']}" if value["note"] else error,
    ]


def _effect_text(value: Mapping[str, Any]) -> str:
    """Text on how the answer changes if a value is 10 % off; "" if that was not tested."""
    effect = value.get("effect")
    return "" if effect is None else format_change(effect)
