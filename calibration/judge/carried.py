"""Accuracy of times scaled between GPUs of the catalog, by kernel family and regime.

    python -m foretrace.calibration.judge.carried [models/compute/carried.json]

The time of an op on one GPU is compared with its time on the other, for all ops that one source
(engine and version, or model of Vidur) measured on both. Methods: ratio of both models, ratio of
both datasheets, unchanged. No model used the source on which it is judged: families are fitted
again without it (a family of a single source is not judged), and GEMMs of the source of the
catalog's constants are left out. Errors are medians with equal weight for all sources; ``carried``
uses the method with the smallest. Fewer than ``FEWEST`` rows are not judged.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from foretrace.models.compute.cross_gpu_scaling import WAYS
from foretrace.models.compute.kernel_work import kernel_work
from foretrace.models.compute.kernels import REGIMES, KernelFamily, load_families
from foretrace.models.compute.op_database_rows import (
    database_files,
    engine_and_version,
    measured_rows,
)
from foretrace.models.compute.op_shape import OpShape
from foretrace.sim.facts.doubt import QUANTILES
from foretrace.sim.facts.ops import Ops

from ..fit.kernels import (
    CONSTANTS,
    FITTED_ON,
    NAMES,
    catalog_roofline,
    fitted,
    text,
    timing_context,
)
from ..rows.kernel_rows import CHIPS, DATA, PEAKS, WRONG, Group, set_aside
from ..rows.program import program_and_commit

FEWEST = 100  # rows of a family in a regime that are judged
MOST = 1500  # rows of a family and source
Measured = dict[tuple[str, str], dict[OpShape, float]]


class OpsOnBothGpus(NamedTuple):
    """Ops of one family that one source measured on two GPUs."""

    source: str
    here: Group
    there: Group


@cache
def measured(gpu: str) -> Measured:
    """Measured time of every shape in s, by family and source; the last one if measured twice."""
    found: Measured = {}
    for folder in (f"vidur-opdb/compute/{gpu}", f"llm-opdb-nvidia/op/{gpu}_sxm"):
        for file in database_files(DATA / folder) if (DATA / folder).is_dir() else ():
            for row in measured_rows(file):
                if (gpu, engine_and_version(file), row.shape.family) not in WRONG:
                    known = found.setdefault((row.shape.family, engine_and_version(file)), {})
                    known[row.shape] = row.seconds
    return found


@cache
def group(gpu: str, family: str, source: str) -> Group:
    """Random sample of the rows of one source; cached."""
    told = measured(gpu)[family, source]
    at = np.random.default_rng(0).permutation(len(told))[:MOST].tolist()
    shapes = list(told)
    return group_of_shapes(
        gpu, family, source, [s for i in at if (s := shapes[i]).dtype in PEAKS[gpu]]
    )


def group_of_shapes(gpu: str, family: str, source: str, shapes: list[OpShape]) -> Group:
    """Group with these shapes of one source."""
    told = measured(gpu)[family, source]
    return Group(
        gpu, family, source, shapes, np.array([kernel_work(s) for s in shapes], float),
        np.array([PEAKS[gpu][s.dtype] for s in shapes]), np.array([told[s] for s in shapes]),
        5e-7 if source.startswith("vidur") else 0.0, False,
    )  # fmt: skip


def pairs(family: str, here: str, there: str) -> list[OpsOnBothGpus]:
    """Ops that each source measured on both GPUs."""
    found = []
    for name, source in sorted(set(measured(here)) & set(measured(there))):
        if name != family:
            continue
        a, b = measured(here)[name, source], measured(there)[name, source]
        both = [s for s in a if s in b and s.dtype in PEAKS[here] and s.dtype in PEAKS[there]]
        at = np.random.default_rng(0).permutation(len(both))[:MOST].tolist()
        some = [both[i] for i in at]
        found += [
            OpsOnBothGpus(
                source, *(group_of_shapes(g, family, source, some) for g in (here, there))
            )
        ]
    return [one for one in found if one.here.shapes]


@cache
def unseen(gpu: str, family: str, source: str) -> KernelFamily | None:
    """Constants of a family from all sources but one; None if there is no other."""
    others = [
        group(gpu, f, s)
        for f, s in measured(gpu)
        if f == family and s != source and not set_aside(f, s)
    ]
    others = [g for g in others if len(g.seconds)]
    return fitted(family, others) if others else None


def model_seconds(g: Group) -> np.ndarray | None:
    """Time of each row in s, by a model that did not use its source; None without one."""
    if g.family == "product":
        return None if g.source == FITTED_ON[g.gpu] else products(g).sum(axis=0)
    family = unseen(g.gpu, g.family, g.source)
    return (
        None
        if family is None
        else family.time_parts(g.work, CHIPS[g.gpu], g.peak, timing_context(g)).sum(axis=0)
    )


def products(g: Group) -> np.ndarray:
    """Time parts of GEMMs in s, shape (4, n), by the catalog's roofline."""
    texts = tuple(text(s) for s in g.shapes)
    ops = Ops.of(
        flop=g.work[:, 4], bytes=g.work[:, 5], signature=np.arange(len(texts)), signatures=texts
    )
    return catalog_roofline(g.gpu, g.gpu).parts(ops)


def regimes(g: Group) -> np.ndarray:
    """Regime index of each row, shape (n,), by the catalog's constants."""
    if g.family == "product":
        return products(g).argmax(axis=0)
    known = load_families(NAMES[g.gpu])[g.family]
    return known.time_parts(g.work, CHIPS[g.gpu], g.peak, timing_context(g)).argmax(axis=0)


def datasheet_seconds(g: Group) -> np.ndarray:
    """Time of each row in s, shape (n,), by the slower of both datasheet roofs."""
    flop = np.maximum(g.work[:, 4], g.work[:, 0] * g.work[:, 2] * g.work[:, 3])
    return np.maximum(flop / g.peak, g.work[:, 5] / CHIPS[g.gpu].bandwidth)


def judged(here: str, there: str) -> list[dict[str, Any]]:
    """Accuracy of each family and regime from one GPU to another."""
    told = []
    for family in (*CONSTANTS, "product"):
        parts: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []
        for one in pairs(family, here, there):
            a, b = model_seconds(one.here), model_seconds(one.there)
            if a is None or b is None or not one.here.work[:, 5].all():  # a sheet knows bytes only
                continue
            took = np.log(one.there.seconds / one.here.seconds)
            by = dict(
                zip(
                    WAYS,
                    (
                        b / a,
                        datasheet_seconds(one.there) / datasheet_seconds(one.here),
                        np.ones(len(a)),
                    ),
                    strict=True,
                )
            )
            parts.append((regimes(one.there), {w: took - np.log(r) for w, r in by.items()}))
        for number, regime in enumerate(REGIMES):
            told += cell(parts, number, here=NAMES[here], there=NAMES[there], family=family,
                         regime=regime)  # fmt: skip
    return told


def cell(
    parts: list[tuple[np.ndarray, dict[str, np.ndarray]]], number: int, **names: str
) -> list[dict[str, Any]]:
    """Accuracy in one regime if it has enough rows; all sources have the weight of the largest."""
    some = [{w: e[at == number] for w, e in wrong.items()} for at, wrong in parts]
    some = [one for one in some if len(one["unchanged"])]
    rows_ = sum(len(one["unchanged"]) for one in some)
    if rows_ < FEWEST:
        return []
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    rng = np.random.default_rng(1)
    drawn = [rng.integers(0, len(one["unchanged"]), MOST) for one in some]
    wrong = {
        w: np.concatenate([one[w][d] for one, d in zip(some, drawn, strict=True)]) for w in WAYS
    }
    errors = {w: round(float(np.median(np.abs(np.expm1(-e)))), 4) for w, e in wrong.items()}
    way = min(errors, key=lambda w: errors[w])
    quantiles = np.quantile(wrong[way], at).round(4).tolist()
    return [{**names, "rows": rows_, "errors": errors, "way": way, "quantiles": quantiles}]


def main() -> None:
    every = [one for here, there in permutations(NAMES, 2) for one in judged(here, there)]
    print(f"{'':62s}{'rows':>7s}" + "".join(f"{way:>12s}" for way in WAYS))
    for one in every:
        errors = "".join(f"{one['errors'][way]:12.1%}" for way in WAYS)
        where = f"{one['here']} to {one['there']}, {one['family']}, {one['regime']}"
        print(f"{where:62s}{one['rows']:7d}{errors}  {one['way']}")
    if len(sys.argv) > 1:
        lines = ",\n".join(json.dumps(one) for one in every)
        by = f'"program": "{program_and_commit(__file__)}"'
        head = f'{{"source": "llm-opdb-nvidia and vidur-opdb",\n{by},\n"judged": ['
        Path(sys.argv[1]).write_text(f"{head}\n{lines}\n]}}\n")


if __name__ == "__main__":
    main()
