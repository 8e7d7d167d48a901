"""Sections that compare variants: the settings that differ, and every metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..blocks import Axis, Block, Code, Column, Intervals, Paragraph, Table, comma_separated
from ..numbers import axis_scale, format_quantity, is_overall
from ..section import section
from ..texts.headline import metric_in_words, metric_value
from ..texts.study import Point, StudyShown

NOT_SET = "not set"


@section("compare", title="What differs", order=10)
def differing_settings(study: StudyShown) -> Iterable[Block]:
    """Section on the settings that differ between variants, and those without effect."""
    columns = [
        Column("variant", header=True),
        Column("setting"),
        Column("base"),
        Column("variant"),
    ]
    rows = [
        (name, Code(path), a or NOT_SET, b or NOT_SET)
        for name, p in study.points.items()
        for path, (a, b) in p["settings"].items()
    ]
    if not rows:
        return
    yield Table(columns, rows, stacked=True)
    if (drawn := _intervals(study)) is not None:
        yield drawn
    if idle := _settings_without_effect(study.points):
        yield Paragraph(["No effect: ", *comma_separated(idle), "."])


def _intervals(study: StudyShown) -> Intervals | None:
    """Figure of the deciding metric of each variant with its interval; None without intervals."""
    values = {name: metric_value(p, study.answer) for name, p in study.points.items()}
    if not any(v.get("interval") for v in values.values()):
        return None
    ends = [v.get("interval") or (v["value"], v["value"]) for v in values.values()]
    largest = max(abs(v["value"]) for v in values.values())
    scale, unit = axis_scale(largest, study.answer["unit"])
    value, low, high = (
        [v["value"] / scale for v in values.values()],
        [low / scale for low, _ in ends],
        [high / scale for _, high in ends],
    )
    name = f"{metric_in_words(study.answer['metric'])}, {unit}, with its 90 % interval"
    return Intervals(list(values), value, low, high, Axis(name))


def _settings_without_effect(points: Mapping[str, Point]) -> list[str]:
    """Settings that change no metric in any variant."""
    base, *others = points.values()
    values = [{m: v["value"] for m, v in p["metrics"].items()} for p in (base, *others)]
    same = [p for p, own in zip(others, values[1:], strict=True) if own == values[0]]
    moved = {path for p in others if p not in same for path in p["settings"]}
    return [path for p in same for path in p["settings"] if path not in moved]


@section("metrics", title="Metrics", order=70)
def metrics_table(study: StudyShown) -> Iterable[Block]:
    """Section with every metric of the run and of kinds of components, one column per variant."""
    points = study.points
    names = dict.fromkeys(m for p in points.values() for m in p["metrics"] if is_overall(m))
    columns = [
        Column("metric", header=True),
        *(Column(name, number=True) for name in points),
    ]
    yield Table(
        columns, [(name, *(_metric_text(p, name) for p in points.values())) for name in names]
    )


def _metric_text(point: Point, name: str) -> str:
    value = point["metrics"].get(name)
    return format_quantity(value["value"], value["unit"]) if value else ""
