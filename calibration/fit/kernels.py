"""Fit kernel families to measured ops, and judge them on sources that no fit used.

    python -m foretrace.calibration.fit.kernels [--write] [--once]

``rows/kernel_rows.py`` has the rows, and the rule that sets sources aside. A family has up to seven
constants (``models/compute/kernels.py``); all sources have the same weight. Its error interval
comes from leave-one-source-out errors (Vidur's models are sources), and from the errors of other
GPUs' fits. If only one database has a family, nothing is known about other libraries: the interval
is widened by the differences between sources of GEMMs and of elementwise kernels, which several
libraries measured. ``nvidia`` are the constants of all three GPUs together, for an unmeasured GPU;
its interval comes from predicting each GPU from the other two, widened in the same way. Recorded
steps that are not set aside count for half of every interval. ``--once`` scores what was set aside,
``--write`` writes ``models/catalog/kernels``.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from foretrace.models.calibration.robust_constants import least_robust_squares, median_error
from foretrace.models.compute.gpu_groups import Fp8Gemm, Gemm, Peaks
from foretrace.models.compute.kernels import FORM, OURS, REGIMES, Beside, Evidence, KernelFamily
from foretrace.models.compute.op_shape import OpShape
from foretrace.models.compute.roofline import Roofline
from foretrace.scenarios.config.catalog import installed
from foretrace.scenarios.studies.explaining.trace_answers import catalog_gpu
from foretrace.scenarios.studies.fitting import gpu_fit
from foretrace.sim.facts.doubt import QUANTILES
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.setting_groups import construct_with_groups
from foretrace.sim.units import quantity
from foretrace.traces.formats import autodetect
from scipy.optimize import least_squares

from ..rows.kernel_rows import CHIPS, DATA, PEAKS, Group, groups, traces
from ..rows.program import program_and_commit

START = {**gpu_fit.START, "call": 3e3}
CONSTANTS = {name: keys for name, keys in gpu_fit.CONSTANTS.items() if name != "softmax"}
NAMES = {"a100": "a100-sxm4-80g", "h100": "h100-sxm5-80g", "h200": "h200-sxm-141g"}
USUAL = 0.05  # of a time, what a fit does not explain anyway
EACH = 400  # rows of a group in a fit


CALLED = ("attention", "decode attention", "elementwise", "reduction")  # tables hold calls of them
COLD = (
    1600.0  # cycles; calibration/fit/cold.py: elementwise kernels in steps of an A100 and of a V100
)
NEVER_COLD = ("attention", "decode attention", "experts")  # whose own start no row tells
Starts = dict[tuple[str, str], float]
_starts: Starts = {}


def is_call_time(g: Group) -> bool:
    """True if a source timed complete calls in a loop, rather than kernels with a profiler."""
    return g.family in CALLED and library(g) != "vidur"


def timing_context(g: Group) -> Beside:
    """Costs other than the kernel that a measured time includes."""
    return "call" if is_call_time(g) else "nothing"


def known_starts(seen: list[Group]) -> Starts:
    """Start-up times in cycles that the rows of a family cannot separate from other costs.

    Attention was measured only as calls: its kernel starts no later than the shortest call of any
    engine. Layer norms were measured at one width, where steps look like a start-up time, so they
    use that of norms. Elementwise kernels of a GPU without profiled rows start like those of other
    GPUs. The gap between two kernels in their loops also applies to reductions.
    """
    calls = [g for g in seen if g.family in CALLED[:2]]
    shortest = min(float(np.quantile(g.seconds, 0.01)) * CHIPS[g.gpu].clock for g in calls)
    told = {(name, gpu): shortest for name in CALLED[:2] for gpu in CHIPS}
    for gpu in CHIPS:
        norms = [g for g in seen if (g.family, g.gpu) == ("norm", gpu)]
        if norms:
            told["layer norm", gpu] = fitted("norm", norms).launch
    profiled = [g for g in seen if g.family == "elementwise" and not is_call_time(g)]
    start = fitted("elementwise", profiled).launch
    _starts["elementwise", ""] = start
    loops = [g for g in seen if g.family == "elementwise" and is_call_time(g)]
    gap = fitted("elementwise", loops).call
    told |= {("reduction", gpu): gap for gpu in CHIPS}
    return told


def known_constants(name: str, some: list[Group]) -> dict[str, float]:
    """Constants of a family that are known without these rows."""
    known = [_starts[name, gpu] for gpu in {g.gpu for g in some} if (name, gpu) in _starts]
    if name == "elementwise" and all(is_call_time(g) for g in some):
        return {"launch": _starts["elementwise", ""]} if _starts else {}
    few = known and name != "elementwise"
    return {"call" if name == "reduction" else "launch": float(np.mean(known))} if few else {}


def seconds(family: KernelFamily, g: Group) -> np.ndarray:
    return family.time_parts(g.work, CHIPS[g.gpu], g.peak, timing_context(g)).sum(axis=0)


def fitted(name: str, some: list[Group]) -> KernelFamily:
    """Fit the constants of a family to all groups, each with the same weight."""
    fixed = known_constants(name, some)
    keys = [k for k in CONSTANTS[name] if k not in fixed]
    keys += ["call"] if any(is_call_time(g) for g in some) and "call" not in fixed else []
    usual = {**START, **(gpu_fit.TENSOR if name == "attention" else {})}
    start = np.log([usual[k] for k in keys])
    parts = [
        g._replace(work=g.work[:EACH], peak=g.peak[:EACH], seconds=g.seconds[:EACH]) for g in some
    ]
    weight = np.concatenate(
        [
            1 / (USUAL * np.sqrt(1 + (g.floor / USUAL / g.seconds) ** 2)) / np.sqrt(len(g.seconds))
            for g in parts
        ]
    )

    def wrong(logs: np.ndarray) -> np.ndarray:
        one = KernelFamily(**fixed, **dict(zip(keys, np.exp(logs).tolist(), strict=True)))
        return np.concatenate([np.log(seconds(one, g) / g.seconds) for g in parts]) * weight

    scale = 1.0 / np.sqrt(min(len(g.seconds) for g in parts))
    tries = [start, start - np.array([2.0 if k in ("first", "again") else 0.5 for k in keys])]
    best = least_robust_squares(wrong, tries, (start - 9, start + 6), scale, 80)
    values = {k: float(f"{v:.4g}") for k, v in zip(keys, np.exp(best.x).tolist(), strict=True)}
    cold = 0.0 if name in NEVER_COLD else COLD
    return KernelFamily(**{k: float(f"{v:.4g}") for k, v in fixed.items()}, **values, cold=cold)


def errors(family: KernelFamily, g: Group) -> tuple[np.ndarray, np.ndarray]:
    """ln(measured / predicted) of each row, shape (n,), and the index of its regime."""
    parts = family.time_parts(g.work, CHIPS[g.gpu], g.peak, timing_context(g))
    return np.log(g.seconds / parts.sum(axis=0)), parts.argmax(axis=0)


Found = list[tuple[np.ndarray, np.ndarray]]


def widened_errors(found: Found, wider: np.ndarray) -> Found:
    """Errors with a random sample of other errors added."""
    rng = np.random.default_rng(1)
    return [(e + rng.choice(wider, len(e)), r) for e, r in found] if len(wider) else found


def quantiles(found: Found) -> dict[str, tuple[float, ...]]:
    """Quantiles of errors by regime, with the same weight for each source."""
    rng = np.random.default_rng(1)
    told = {}
    for number, regime in [*enumerate(REGIMES), (-1, "")]:
        some = [e[r == number] if number >= 0 else e for e, r in found]
        small = [e for e in some if 0 < len(e) < 20]  # of sources that say little, all together
        some = [e for e in [*some, *([np.concatenate(small)] if small else [])] if len(e) >= 20]
        some = [rng.choice(e, 400) for e in some]
        if some:
            errors_ = np.concatenate(some)
            at = (np.arange(QUANTILES) + 0.5) / QUANTILES
            told[regime] = tuple(np.quantile(errors_, at).round(3).tolist())
    return told


def leave_one_out_fits(name: str, some: list[Group], key: str) -> list[tuple[Group, KernelFamily]]:
    """Each group with the constants fitted to the other sources (or GPUs)."""
    made = {}
    for value in sorted({getattr(g, key) for g in some}):
        others = [g for g in some if getattr(g, key) != value]
        if others:
            made[value] = fitted(name, others)
    return [(g, made[getattr(g, key)]) for g in some if getattr(g, key) in made]


def library(g: Group) -> str:
    return g.source.partition("/")[0]


MANY = ("elementwise", "attention", "decode attention", "experts")  # that several libraries have


def source_effects(every: list[Group], names: tuple[str, ...]) -> np.ndarray:
    """Median errors of complete sources, for GEMMs and for these families."""
    found = [
        np.median(roofline_errors(g.gpu, g)[0])
        for g in every if g.family == "product" and g.source != FITTED_ON[g.gpu]
    ]  # fmt: skip
    for gpu, name in product(CHIPS, names):
        some = [g for g in every if (g.gpu, g.family) == (gpu, name)]
        found += [np.median(errors(f, g)[0]) for g, f in leave_one_out_fits(name, some, "source")]
    return np.array(found)


def line(some: list[Group], judged: list[Group]) -> np.ndarray:
    """ln(measured / (a + b x)) for bytes x, from the better of an absolute and a relative fit."""
    x, t = (
        np.concatenate([v[:EACH] for v in vs])
        for vs in ([g.work[:, 5] for g in some], [g.seconds for g in some])
    )
    steps = np.concatenate([g.work[:EACH, 2] for g in some])
    x, judge = (x, 5) if x.any() else (steps, 2)
    plain = np.linalg.lstsq(np.stack([np.ones_like(x), x], 1), t, rcond=None)[0]
    start = np.log(np.maximum(plain, [1e-7, 1e-15]))
    ratio = np.exp(
        least_squares(
            lambda q: np.log((np.exp(q[0]) + np.exp(q[1]) * x) / t),
            start,
            loss="soft_l1",
            f_scale=0.05,
        ).x
    )
    found = []
    for a, b in (plain, ratio):
        found.append(
            np.concatenate(
                [np.log(g.seconds / np.maximum(a + b * g.work[:, judge], 1e-9)) for g in judged]
            )
        )
    return min(found, key=median_error)


def main() -> None:
    every = groups()
    seen = [g for g in every if not g.aside]
    _starts.update(known_starts(seen))
    wider, every_source = source_effects(seen, ("elementwise",)), source_effects(seen, MANY)
    pools: dict[tuple[str, str], Found] = {}
    half, most = np.quantile(np.abs(wider), [0.5, 0.9])
    print(f"sources of one family differ by {half:.0%} (median), {most:.0%} (90 %)")
    made: dict[str, dict[str, KernelFamily]] = {n: {} for n in (*NAMES, "nvidia")}
    head = f"{'family':18s}{'GPU':6s}{'rows':>7s}{'sources':>8s}{'a + b x':>9s}{'left out':>9s}"
    print(f"{head}{'90 % in':>9s}{'other GPUs':>12s}{'width':>8s}")
    held = []
    for name in CONSTANTS:
        of = [g for g in seen if g.family == name]
        across = leave_one_out_fits(name, of, "gpu")
        out = [
            one
            for gpu in CHIPS
            for one in leave_one_out_fits(name, [g for g in of if g.gpu == gpu], "source")
        ]
        more = wider if len({library(g) for g in of}) == 1 else np.empty(0)
        wrong = [(g, errors(f, g)) for g, f in (*out, *across)]
        told = quantiles(widened_errors([e for _, e in wrong], more))
        pooled = quantiles(widened_errors([errors(f, g) for g, f in across], every_source))
        for gpu in CHIPS:
            some = [g for g in of if g.gpu == gpu]
            if not some:
                continue
            mine = [(g, errors(f, g)) for g, f in out if g.gpu == gpu]
            lines = [line([o for o in some if o.source != g.source], [g]) for g, _ in mine]
            inside = [
                is_covered(
                    quantiles(
                        widened_errors([e for o, e in wrong if o.source != g.source], more)), e)
                for g, e in mine if any(o.source != g.source for o, _ in wrong)
            ]  # fmt: skip
            held += [(name, c) for c in inside]
            there = [errors(f, g)[0] for g, f in across if g.gpu == gpu]
            all_wrong = np.concatenate([e for _, (e, _) in mine] or there)
            pools[NAMES[gpu], name] = widened_errors([e for _, e in wrong], more)
            made[gpu][name] = replace(
                fitted(name, some),
                evidence=Evidence(source_of(some), round(median_error(all_wrong), 3), told),
            )
            width = {r: np.diff(interval_ends(told, r))[0] for r in told}
            print(
                f"{name:18s}{gpu:6s}{sum(len(g.seconds) for g in some):7d}{len(some):8d}"
                f"{median_error(np.concatenate(lines)) if lines else np.nan:9.1%}"
                f"{median_error(all_wrong) if mine else np.nan:9.1%}"
                f"{np.mean(np.concatenate(inside)) if inside else np.nan:9.1%}"
                f"{median_error(np.concatenate(there)) if there else np.nan:12.1%}"
                f"{width[''] / np.quantile(np.abs(all_wrong), 0.9):8.1f}"
            )
        pools["nvidia", name] = widened_errors([errors(f, g) for g, f in across], every_source)
        whole = np.concatenate([errors(f, g)[0] for g, f in across]) if across else np.empty(0)
        made["nvidia"][name] = replace(
            fitted(name, of),
            evidence=Evidence(source_of(of), round(median_error(whole), 3), pooled),
        )
    print(
        f"90 % ends hold {np.mean(np.concatenate([c for _, c in held])):.1%} of all rows left out"
    )
    products(made, seen, pools)
    fill_missing_families(made, seen)
    files = {NAMES.get(name, name): families for name, families in made.items()}
    told = recorded(files)
    with_traces(files, pools, told)
    made[LEVELLED] = files[LEVELLED] = rescaled_to_traces(files["other"], told)
    if "--once" in sys.argv:
        score_set_aside(made, [g for g in every if g.aside])
    if "--write" in sys.argv:
        write(made)


def catalog_roofline(gpu: str, chip: str) -> Roofline:
    """GEMM roofline of one catalog GPU, applied to the datasheet of another."""
    entry = installed().entry("gpu", NAMES[gpu])
    share = {k: float(entry[k].value) for k in ("efficiency", "memory_efficiency", "exposed")}
    gemm = entry["gemm"]
    power: dict[str, float] = {}
    if gemm.has("sustained"):
        power["sustained"] = float(gemm["sustained"].value)
        power["burst"] = quantity(gemm["burst"].value, "s")
    cycles = CHIPS[gpu].clock / CHIPS[chip].clock
    launch, join = (quantity(e.value, "s") * cycles for e in (entry["launch"], gemm["join"]))
    fp8 = Fp8Gemm()
    if gemm.has("fp8"):
        fp8 = Fp8Gemm(
            efficiency=float(gemm["fp8"]["efficiency"].value),
            launch=quantity(gemm["fp8"]["launch"].value, "s"),
            tile_processors=int(CHIPS[chip].processors),
        )
    return Roofline(
        bandwidth=CHIPS[chip].bandwidth,
        peaks=Peaks(**PEAKS[chip]),
        launch=launch,
        gemm=Gemm(join=join, fp8=fp8, **power),
        caches="alone",
        **share,
    )


def roofline_errors(gpu: str, g: Group) -> tuple[np.ndarray, np.ndarray]:
    """Same as ``errors``, for a roofline fitted to GEMMs of one GPU."""
    flop = np.maximum(g.work[:, 4], g.work[:, 0] * g.work[:, 2] * g.work[:, 3])
    texts = tuple(text(s) for s in g.shapes)
    ops = Ops.of(flop=flop, bytes=g.work[:, 5], signature=np.arange(len(flop)), signatures=texts)
    parts = catalog_roofline(gpu, g.gpu).parts(ops)
    return np.log(g.seconds / parts.sum(axis=0)), parts.argmax(axis=0)


def text(shape: OpShape) -> str:
    """Signature of a GEMM; for another op, one with only its element type."""
    if shape.family != "product":
        return f"compute:{shape.family.replace(' ', '-')} {shape.dtype}[1]"
    b, m, n, k = (int(v) for v in shape.axes)
    return f"compute:aten::bmm {shape.dtype}[{b}x{m}x{k}] {shape.dtype}[{b}x{k}x{n}]"


def rows_of_types(g: Group, peaks: dict[str, float]) -> Group:
    """Rows of the element types that a GPU supports."""
    at = np.array([s.dtype in peaks for s in g.shapes])
    shapes = [s for s in g.shapes if s.dtype in peaks]
    return g._replace(shapes=shapes, work=g.work[at], peak=g.peak[at], seconds=g.seconds[at])


FITTED_ON = {"a100": "sglang/0.5.10", "h100": "sglang/0.5.9", "h200": "sglang/0.5.9"}


def products(made: dict, seen: list[Group], pools: dict[tuple[str, str], Found]) -> None:
    """Estimate GEMM error intervals from sources unused by ``gpus.py``, and other GPUs."""
    of = [g for g in seen if g.family == "product"]
    across = []
    for gpu in CHIPS:
        some = [g for g in of if g.gpu == gpu and g.source != FITTED_ON[gpu]]
        found = [roofline_errors(gpu, g) for g in some]
        error = median_error(np.concatenate([e for e, _ in found]))
        pools[NAMES[gpu], "product"] = found
        sources = ", ".join(sorted(g.source for g in some))
        where = f"calibration/fit/gpus.py, judged on {sources}"
        made[gpu]["product"] = KernelFamily(
            evidence=Evidence(where, round(error, 3), quantiles(found))
        )
        others = [
            roofline_errors(o, rows_of_types(g, PEAKS[o]))
            for o in CHIPS
            if o != gpu
            for g in of
            if g.gpu == gpu
        ]
        across += others
        rows = sum(len(g.seconds) for g in some)
        there = median_error(np.concatenate([e for e, _ in others]))
        print(
            f"{'product':18s}{gpu:6s}{rows:7d}{len(some):8d}{'':9s}{error:9.1%}{'':9s}{there:12.1%}"
        )
    whole = np.concatenate([e for e, _ in across])
    pools["nvidia", "product"] = across
    where = "calibration/fit/gpus.py, of one GPU judged on another"
    made["nvidia"]["product"] = KernelFamily(
        evidence=Evidence(where, round(median_error(whole), 3), quantiles(across))
    )


STREAMING = ("norm", "activation", "rope", "elementwise", "gather", "reduction")
STAND_IN = {
    "softmax": "norm",
    "layer norm": "norm",
    "reduction": "elementwise",
    "stream": "elementwise",
}


def fill_missing_families(made: dict[str, dict[str, KernelFamily]], seen: list[Group]) -> None:
    """Give families without rows the constants of another family.

    Their error interval comes from the errors of measured families with the constants of others.
    The interval of ops without a family comes from the errors of rooflines on every family, with
    the same weight for each.
    """
    for gpu, families in made.items():
        of = [g for g in seen if gpu not in CHIPS or g.gpu == gpu]
        wrong = [
            errors(families[a], g)
            for a in ("norm", "elementwise") if a in families
            for g in of if g.family in STREAMING and g.family != a
        ]  # fmt: skip
        wrong = wrong or [
            errors(made["nvidia"][a], g)
            for a in ("norm", "elementwise")
            for g in seen
            if g.family in STREAMING and g.family != a
        ]
        told = quantiles(wrong)
        for name, stand_in in STAND_IN.items():
            if name not in families:  # the family on other GPUs rather than another on this one
                several = made["nvidia"]
                donor = several.get(name) or families.get(stand_in) or several[stand_in]
                families[name] = replace(donor, evidence=Evidence(quantiles=told))
        for name in CONSTANTS:
            if name not in families:
                families[name] = made["nvidia"][name]
        plain: dict[str, Found] = {}
        for g in of:
            for o in [gpu] if gpu in CHIPS else [o for o in CHIPS if o != g.gpu]:
                plain.setdefault(g.family, []).append(
                    roofline_errors(o, rows_of_types(g, PEAKS[o]))
                )
        families["roofline"] = KernelFamily(
            evidence=Evidence(quantiles=quantiles([pooled(found) for found in plain.values()]))
        )
    wide = {
        n: replace(
            f,
            launch=f.launch + (f.call if n in CALLED[:2] else 0.0),  # no engine of theirs bounds it
            call=0.0 if n in CALLED[:2] else f.call,
            evidence=Evidence(
                quantiles=made["nvidia"][
                    "roofline" if n in ("product", "attention", "experts", "roofline") else "stream"
                ].evidence.quantiles
            ),
        )
        for n, f in made["nvidia"].items()
    }
    made["other"] = wide


def pooled(found: Found) -> tuple[np.ndarray, np.ndarray]:
    """Errors of several groups, concatenated."""
    errors_, regimes = zip(*found, strict=True)
    return np.concatenate(errors_), np.concatenate(regimes)


def interval_ends(told: dict[str, tuple[float, ...]], regime: str) -> np.ndarray:
    """Ends of the 90 % interval of a regime."""
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.interp([0.05, 0.95], at, told.get(regime, told[""]))


MACHINES = {  # part of a trace's path: its GPU
    "V100": "v100-sxm2-32g", "A100": "a100-sxm4-80g", "h100": "h100-sxm5-80g",
    "rtx2080ti": "rtx-2080-ti", "mi300": "mi300x-192g", "MI300": "mi300x-192g",
}  # fmt: skip
FEWEST = 20  # kernels of a trace that tell of a family


def machine(trace: str) -> str:
    """GPU of a recorded trace, from its file name, or else its folder name.

    >>> machine("h100-mi300-pairs/bert-small.mi300.json.gz"), machine("ddp-A100x2/rank0.json.gz")
    ('mi300x-192g', 'a100-sxm4-80g')
    """
    folder, _, file = trace.rpartition("/")
    return next(g for of in (file, folder) for word, g in MACHINES.items() if word in of)


def recorded(
    made: dict[str, dict[str, KernelFamily]],
) -> dict[tuple[str, str], list[tuple[np.ndarray, np.ndarray]]]:
    """Errors on the recorded traces that are not set aside, by kernel file and family.

    Training steps have strides, shapes and cache states that microbenchmarks do not cover.
    """
    found: dict[tuple[str, str], list] = {}
    for name, aside in traces().items():
        roofline = gpu_roofline(machine(name))
        if aside:
            continue
        file = roofline.kernels if roofline.kernels in made else "other"
        roofline.families = made[file]
        graph = autodetect.read(DATA / "kineto-traces" / name).graph(missing_ranks="recorded_waits")
        ops = graph.ops
        ops = ops.take_with_placement(
            np.flatnonzero((ops.kind == Kind.COMPUTE) & (ops.duration > 0))
        )
        ops = ops.take_with_placement(np.flatnonzero(roofline.knows(ops)))
        if not len(ops):
            continue
        timing, regime = roofline.timing(ops), roofline.parts(ops).argmax(axis=0)
        wrong = np.log(ops.duration / timing.fixed)
        family = np.array([timing.doubt[i].family for i in range(len(ops))])
        for one in sorted(set(family.tolist())):
            at = family == one
            if at.sum() >= FEWEST:
                found.setdefault((file, one), []).append((wrong[at], regime[at]))
    return found


def gpu_roofline(name: str, **more: Any) -> Roofline:
    """Roofline of a catalog GPU, with additional settings."""
    return construct_with_groups(Roofline, {**catalog_gpu(name).settings_for("roofline"), **more})


Told = dict[tuple[str, str], Found]


def with_traces(made: dict[str, dict[str, KernelFamily]], pools: dict, told: Told) -> None:
    """Recompute error intervals from errors on recorded traces and on tables, half of each.

    A family with neither a trace nor a table of these GPUs gets the errors of all families there. A
    GPU with tables but no trace gets those of the other GPUs with tables.
    """
    for file, families in made.items():
        near = [file] if any(f == file for f, _ in told) else sorted(NAMES.values())
        whole = [e for (f, _), errors_ in told.items() if f in near for e in errors_]
        for name, family in families.items():
            some = [e for f in near for e in told.get((f, name), [])]
            tables = pools.get((file, name), [])
            if not tables:
                some, tables = some or whole, assumed_errors(family)
            if some:
                again = max(round(len(tables) / len(some)), 1)
                quantiles_ = quantiles([*tables, *some * again])
                evidence = replace(family.evidence, quantiles=quantiles_)
                families[name] = replace(family, evidence=evidence)


def assumed_errors(family: KernelFamily) -> Found:
    """Errors with the width of the interval of a family without rows.

    They keep a single trace from replacing the interval. They are centred at 0, since the slowdown
    of other families does not apply to this one.
    """
    told = {r: np.array(q) - np.median(q) for r, q in family.evidence.quantiles.items()}
    return [(told[r], np.full(len(told[r]), i)) for i, r in enumerate(REGIMES) if r in told]


LEVELLED = "mi300x-192g"  # of which there are traces, and no tables


def rescaled_to_traces(families: dict[str, KernelFamily], told: Told) -> dict[str, KernelFamily]:
    """Constants of other GPUs, scaled to the level of recorded traces with equal weight.

    A family without a trace gets the level of all traces; the error interval keeps its width.
    """
    of = {
        n: [float(np.median(e)) for e, _ in found] for (f, n), found in told.items() if f == "other"
    }
    whole = float(np.mean([v for values in of.values() for v in values]))
    made = {}
    for name, family in families.items():
        by = float(np.mean(of.get(name, [whole])))
        moved = {
            r: tuple(np.round(np.array(q) - by, 3).tolist())
            for r, q in family.evidence.quantiles.items()
        }
        traces_ = len(of.get(name, []))
        source = f"at the level of {traces_ or 'all families of'} recorded traces"
        made[name] = replace(
            family,
            level=round(float(np.exp(by)), 3),
            evidence=replace(family.evidence, quantiles=moved, source=source),
        )
    return made


def is_covered(
    told: dict[str, tuple[float, ...]], found: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Mask of errors inside the 90 % interval, shape (n,)."""
    both = np.array([interval_ends(told, r) for r in REGIMES])
    error, regime = found
    return np.asarray((error >= both[regime, 0]) & (error <= both[regime, 1]))


def source_of(some: list[Group]) -> str:
    return f"{sum(len(g.seconds[:EACH]) for g in some)} rows of " + ", ".join(
        sorted({g.source for g in some})
    )


def score_set_aside(made: dict[str, dict[str, KernelFamily]], aside: list[Group]) -> None:
    print("set aside, scored once:")
    for g in aside:
        fitted_on = g.family == "product" and g.source == FITTED_ON[g.gpu]
        if g.family in made[g.gpu] and not fitted_on:
            family = made[g.gpu][g.family]
            found = roofline_errors(g.gpu, g) if g.family == "product" else errors(family, g)
            bias, inside = (
                np.median(np.expm1(-found[0])),
                is_covered(family.quantiles, found).mean(),
            )
            print(
                f"  {g.family:18s}{g.gpu:6s}{g.source:22s}{len(g.seconds):6d} rows  median "
                f"{median_error(found[0]):6.1%}  bias {bias:+6.1%}  90 % hold {inside:.0%}"
            )


def write(made: dict[str, dict[str, KernelFamily]]) -> None:
    OURS.mkdir(exist_ok=True)
    for gpu, families in made.items():
        lines = ",\n".join(
            f'    "{n}": {json.dumps(f.as_plain_data())}' for n, f in families.items()
        )
        head = f'  "form": "{FORM}",\n  "program": "{program_and_commit(__file__)}",\n'
        text = f'{{\n{head}  "families": {{\n{lines}\n  }}\n}}\n'
        (OURS / f"{NAMES.get(gpu, gpu)}.json").write_text(text)


if __name__ == "__main__":
    main()
