"""Section on calibration by a measured step: each variant before and after, and the factor used."""

from __future__ import annotations

from collections.abc import Iterable

from ..blocks import Block, Column, Paragraph, Table
from ..numbers import format_change, format_quantity, three_digits
from ..section import section
from ..texts.headline import metric_header, metric_value
from ..texts.study import StudyShown


@section("calibration", title="Blind and calibrated", order=16)
def calibration(study: StudyShown) -> Iterable[Block]:
    """Section on the calibration factor, its source, and its effect on each variant."""
    found = study.base.get("calibration")
    if found is None:
        return
    measured, blind = (format_quantity(found[key], "s") for key in ("measured", "blind_there"))
    yield Paragraph(
        f"One constant is calibrated: all ops on GPUs take {three_digits(found['factor'])} times "
        f"as long as predicted. The measured step ({found['on']}) then takes {measured}, as "
        f"measured; the blind prediction was {blind}. Network and plan are unchanged."
    )
    answer = study.summary["answer"]
    columns = [Column("", header=True), Column(f"{metric_header(answer)}, blind", number=True)]
    columns += [Column("calibrated", number=True), Column("", number=True)]
    rows = []
    for name, point in study.summary["points"].items():
        value = metric_value(point, answer)["value"]
        plain = point["calibration"]["blind"] if "calibration" in point else value
        both = [format_quantity(v, answer["unit"]) for v in (plain, value)]
        rows.append((name, *both, format_change(value / plain - 1 if plain else 0.0)))
    yield Table(columns, rows)
