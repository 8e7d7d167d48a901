"""Section with the roofline of the ops: their rate against the GPU's compute and memory limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...sim.facts.ops import Kind
from ...sim.facts.signature import parse_signature
from ...sim.run.result import Result
from ...sim.units import seconds
from ..blocks import Axes, Axis, Block, Column, Line, Paragraph, Plot, Series, Table
from ..export.op_labels import op_labels
from ..export.op_places import rank_of_ops
from ..numbers import PREFIXES, format_quantity, format_share
from ..palette import series_colour
from ..section import section
from ..texts.study import StudyShown

HFU = "hfu.p50"
MOST_POINTS = 60  # of a variant, those with most time


class OpGroup(NamedTuple):
    """Ops with the same name and the same amount of work.

    Parameters
    ----------
    name : name of the ops
    kind : element type of their first operand; "" if unknown
    flop, bytes : FLOP of one op, and number of bytes that it moves
    mean_time, total_time : mean time of one op, and total time of all ops of the group, in s
    """

    name: str
    kind: str
    flop: float
    bytes: float
    mean_time: float
    total_time: float


@section("roofline", title="Roofline of the ops", order=44)
def roofline(study: StudyShown) -> Iterable[Block]:
    """Section with the intensity and rate of ops with known work, under the GPU's roofline."""
    found = {name: group_ops(result.detail) for name, result in study.results.items()}
    if not any(found.values()):
        return
    roofs = study.base.get("roofs")
    yield Paragraph(
        "GPU ops with known flop and bytes, grouped by name and size. The rate is flop divided by "
        "time; the intensity is flop divided by bytes moved."
    )
    yield Table(
        [Column("variant", header=True), Column("compute time with known flop", number=True),
         Column("work", number=True),
         Column("HFU", number=True, title="executed flop/s over the peak of all GPUs")],
        [_utilization_row(name, found[name], study) for name in found],
    )  # fmt: skip
    yield _plot(found, roofs)


def group_ops(result: Result) -> list[OpGroup]:
    """Groups of compute ops with known FLOP and bytes, longest total time first."""
    ops, columns = result.ops, result.columns
    ran = (ops.kind == Kind.COMPUTE) & (columns.end > columns.start)
    rows = np.flatnonzero(ran & (ops.flop > 0) & (ops.bytes > 0))
    if not len(rows):
        return []
    texts, label = op_labels(result)
    keys = np.stack([label[rows].astype(float), ops.flop[rows], ops.bytes[rows]])
    order = np.lexsort(keys)
    new = np.append(True, np.any(np.diff(keys[:, order], axis=1) != 0, axis=0))
    first, group = order[new], np.empty(len(rows), np.int64)
    group[order] = np.cumsum(new) - 1
    took = seconds(columns.end[rows] - columns.start[rows], result.tick)
    whole, count = np.bincount(group, took), np.bincount(group)
    found = [
        OpGroup(
            texts[label[row]] if label[row] >= 0 else "compute",
            _element_type(ops.signature_text(row)),
            float(ops.flop[row]),
            float(ops.bytes[row]),
            float(whole[k] / count[k]),
            float(whole[k]),
        )
        for k, row in enumerate(rows[first].tolist())
    ]
    return sorted(found, key=lambda one: -one.total_time)


def _element_type(signature: str) -> str:
    """Element type of an op's first operand; "" where its signature has none.

    >>> _element_type("compute:aten::mm bf16[4096x1024] bf16[1024x512]"), _element_type("")
    ('bf16', '')
    """
    operands = parse_signature(signature).operands if signature else ()
    return operands[0].dtype if operands else ""


def _utilization_row(name: str, groups: list[OpGroup], study: StudyShown) -> list[Line]:
    """Table row of a variant: share of compute time with known FLOP, total FLOP, and utilization.

    Utilization is the HFU that the workload reports; without one, FLOP over what the GPUs' peak
    rate allows.
    """
    result, point = study.results[name].detail, study.points[name]
    compute = np.flatnonzero(
        (result.ops.kind == Kind.COMPUTE) & (result.columns.end > result.columns.start)
    )
    alike = result.rank_weights[rank_of_ops(result)[compute]]
    took = seconds((result.columns.end - result.columns.start)[compute], result.tick)
    known = np.nan_to_num(result.ops.flop[compute])
    flop, spent = float((known * alike).sum()), float(took.sum())
    share = sum(g.total_time for g in groups) / spent if spent else 0.0
    roofs, own = point.get("roofs"), point["metrics"].get(HFU)
    reached = "unknown"
    if own:
        reached = format_share(own["value"])
    elif roofs and (peak := roofs["peaks"].get(_largest_kind(groups))) and result.makespan:
        whole = peak * int(result.rank_weights.sum()) * result.makespan
        reached = format_share(flop / whole)
    return [name, format_share(share), format_quantity(flop, "flop"), reached]


def _largest_kind(groups: list[OpGroup]) -> str:
    """Element type with the most compute time; "" if none is known."""
    sums: dict[str, float] = {}
    for one in groups:
        sums[one.kind] = sums.get(one.kind, 0.0) + one.total_time
    return max(sums, key=lambda kind: sums[kind], default="")


def _plot(found: Mapping[str, list[OpGroup]], roofs: Mapping[str, Any] | None) -> Plot:
    series, marks = [], "os^Dv"
    most = [g for groups in found.values() for g in groups[:MOST_POINTS]]
    x = np.array([g.flop / g.bytes for g in most])
    highest = max(g.flop / g.mean_time for g in most)
    scale, prefix = next(p for p in PREFIXES if highest >= 10 * p[0])
    if roofs:
        ridge = max(roofs["peaks"].values()) / roofs["bandwidth"]
        reach = np.geomspace(min(x.min(), ridge / 10) / 2, max(x.max(), ridge) * 4, 60)
        for kind in dict.fromkeys(g.kind for g in most if g.kind in roofs["peaks"]):
            roof = np.minimum(roofs["peaks"][kind], reach * roofs["bandwidth"])
            series.append(Series(reach, roof / scale, "", "-", label=f"{roofs['model']}, {kind}"))
    for i, (name, groups) in enumerate(found.items()):
        shown = groups[:MOST_POINTS]
        series.append(
            Series(
                [g.flop / g.bytes for g in shown], [g.flop / g.mean_time / scale for g in shown],
                marks[i % len(marks)], colour=series_colour(i), label=name, opacity=0.8,
                size=max(6.5 - 1.2 * i, 3.0),
                titles=[f"{g.name}\n{name}\n{format_quantity(g.mean_time, 's')} each, "
                        f"{format_quantity(g.flop / g.mean_time, 'flop/s')}, "
                        f"{g.flop / g.bytes:.3g} flop/B\n"
                        f"{format_quantity(g.total_time, 's')} in all"
                        for g in shown],
            )
        )  # fmt: skip
    across = Axis("intensity, flop per byte", 10)
    return Plot([Axes(across, Axis(f"rate, {prefix}flop/s", 10), series)], height=4.2)
