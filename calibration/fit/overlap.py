"""Measure how much collectives slow down concurrent kernels in recorded steps.

    python -m foretrace.calibration.fit.overlap [--more FOLDER] [--once]

A kernel is compared with itself (same program, grid, operands and position in the step), in steps
with a collective in flight during all of it and in steps without one. Left out are kernels
concurrent with other kernels, copies or several collectives, and kernels shorter than ``SHORT``,
which a few microseconds slow down by a large factor. Reducing and sending collectives, and GEMMs
and other kernels, are separated. Printed are slowdowns (ratio of sums, and quantiles), and the
fraction of the multiprocessors that the collective's channels occupy (blocks / multiprocessors).

Complete traces were set aside by the hash of their names before the first fit (``ASIDE``);
``--once`` scores them with the results of the others. ``FOLDER`` has two traces of another
repository (``HTA``).
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from foretrace.models.calibration.parameter_search import held_out_mask

SEED = "foretrace-overlap-1"
KINETO = Path(os.environ.get("FORETRACE_DATA", "../shared/data")) / "kineto-traces"
HTA = "facebookresearch/HolisticTraceAnalysis f4d0062c, tests/data"
TRACES = {  # those of all that were at hand in which kernels run beside collectives
    "ddp-A100x2": ("rank0.json.gz",),
    "dlrm-A100x8-rank3": ("control.json.gz",),
    "dlrm-V100x2-rank1": ("test.json.gz",),
    "dlrm-8xV100": tuple(f"kineto/rank{rank}.json.gz" for rank in range(8)),
    "resnet-actckpt-MI300Xx8-rank0": ("trace.json.gz",),
    "hta-16ranks-A100": ("negative_queue_length_values_check/rank0.json.gz",),  # of HTA
    "hta-sampled-2ranks": tuple(f"trace_filter/sampled_rank-{rank}.json.gz" for rank in (0, 1)),
}
ASIDE = dict(zip(TRACES, held_out_mask(tuple(TRACES), share=0.5, seed=SEED).tolist(), strict=True))

SHORT = 20.0  # us
WHOLE, NONE = 0.95, 0.05  # shares of a kernel's time
ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
CALLS = {"cuda_runtime", "runtime", "cuda_driver"}
COLLECTIVE = re.compile("nccl|rccl", re.I)
SENDS = re.compile("SendRecv", re.I)
PRODUCT = re.compile("gemm|cutlass|xmma|conv|Cijk|cudnn|winograd", re.I)
Spans = np.ndarray[Any, np.dtype[np.float64]]


class Run(NamedTuple):
    """One execution of a kernel.

    Parameters
    ----------
    what : program, grid, block, operands and position in the step
    took : duration in us
    beside, others : fraction of it with a collective in flight, and with anything else in flight
    kept : fraction of the multiprocessors that the channels occupy; NaN if unknown
    kind : kind of the collective: ``reduces`` or ``sends``; "" for none
    """

    what: tuple[str, ...]
    took: float
    beside: float
    others: float
    kept: float
    kind: str


class Place(NamedTuple):
    """Kernel at its position in the step: mean time in us, alone and next to a collective."""

    kind: str
    family: str
    kept: float
    alone: float
    beside: float


def runs(file: Path) -> Iterator[Run]:
    """Executions of all kernels in the steps of a trace."""
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    operands = {
        e["args"]["External id"]: str(e["args"].get("Input Dims", ""))
        for e in events
        if _category(e) in {"cpu_op", "operator"} and "External id" in e.get("args", {})
    }
    called = {
        e["args"]["correlation"]: float(e["ts"])
        for e in events
        if _category(e) in CALLS and "correlation" in e.get("args", {})
    }
    steps = [(*_span(e), e["name"]) for e in events if str(e.get("name")).startswith("ProfilerS")]
    busy = sorted((e for e in events if _category(e) in ON_DEVICE), key=lambda e: float(e["ts"]))
    spans = np.array([_span(e) for e in busy])
    collective = np.array([bool(COLLECTIVE.search(e["name"])) for e in busy])
    seen: dict[tuple[str, ...], int] = defaultdict(int)
    for number, event in enumerate(busy):
        begin, end = spans[number]
        if collective[number] or _category(event) != "kernel" or end <= begin:
            continue
        args = event["args"]
        when = called.get(args.get("correlation"), begin)
        step = next((name for low, high, name in steps if low <= when < high), "")
        if not step:
            continue
        shape = str(args.get("grid")), str(args.get("block")), operands.get(args.get("External id"))
        what = event["name"], *map(str, shape)
        place, seen[(step, *what)] = seen[(step, *what)], seen[(step, *what)] + 1
        common = np.minimum(spans[:, 1], end) - np.maximum(spans[:, 0], begin)
        common[number] = 0.0
        mates = np.flatnonzero(collective & (common > 0))
        others = common[~collective & (common > 0)].sum() / (end - begin)
        one = busy[mates[0]] if len(mates) == 1 else None
        kept = math.nan if one is None else _blocks(one) / _processors(event)
        kind = "" if one is None else "sends" if SENDS.search(one["name"]) else "reduces"
        beside = common[mates].sum() / (end - begin)
        yield Run((*what, str(place)), end - begin, beside, others, kept, kind)


def _category(event: dict[str, Any]) -> str:
    return str(event.get("cat", "")).lower()


def _span(event: dict[str, Any]) -> tuple[float, float]:
    return float(event["ts"]), float(event["ts"]) + float(event.get("dur", 0.0))


def _blocks(event: dict[str, Any]) -> float:
    return float(math.prod(event["args"].get("grid") or (math.nan,)))


def _processors(event: dict[str, Any]) -> float:
    """Number of multiprocessors of the GPU, from a kernel's blocks in the trace."""
    each = event["args"].get("blocks per SM")
    return _blocks(event) / each if each else math.nan


def places(files: Iterable[Path]) -> list[Place]:
    """Kernels that ran both alone and next to one collective, at the same position in a step."""
    found = []
    for file in files:
        alone, beside = defaultdict(list), defaultdict(list)
        for run in runs(file):
            if run.others < NONE and run.beside == 0:
                alone[run.what].append(run.took)
            elif run.others < NONE and run.kind and run.beside > WHOLE:
                beside[(run.what, run.kind, run.kept)].append(run.took)
        for (what, kind, kept), took in beside.items():
            if what in alone and np.mean(alone[what]) >= SHORT:
                family = "products" if PRODUCT.search(what[0]) else "others"
                each = float(np.mean(alone[what])), float(np.mean(took))
                found.append(Place(kind, family, kept, *each))
    return found


def slowdown(some: list[Place]) -> float:
    """Total time next to a collective divided by total time alone."""
    return sum(p.beside for p in some) / sum(p.alone for p in some)


def share_fitted(some: list[Place]) -> float:
    """Extra time divided by the occupied fraction of multiprocessors, over all runs with both
    known.
    """
    told = [p for p in some if not math.isnan(p.kept)]
    extra = sum(p.beside - p.alone for p in told)
    return extra / sum(p.kept * p.alone for p in told) if told else math.nan


def show(name: str, some: list[Place], fitted: dict[str, float]) -> None:
    """Print one line per kind of collective, family and occupied fraction."""
    cells = {str(c): c for p in some if (c := (p.kind, p.family, round(p.kept, 3)))}
    for text, cell in sorted(cells.items()):
        mine = [p for p in some if str((p.kind, p.family, round(p.kept, 3))) == text]
        each = np.quantile([p.beside / p.alone for p in mine], [0.1, 0.5, 0.9])
        told = "" if not fitted else f"; predicted {1 + fitted[cell[0]] * cell[2]:.2f}"
        print(
            f"{name:31}{cell[0]:9}{cell[1]:10}{cell[2]:6.3f}{len(mine):5} places, "
            f"{sum(p.alone for p in mine):8.0f} us: {slowdown(mine):.3f} times "
            f"({', '.join(f'{e:.2f}' for e in each)}){told}"
        )


def files(name: str, more: Path | None) -> list[Path]:
    """Files of a trace; empty if they are not available."""
    folder = more if name.startswith("hta-") else KINETO / name
    return [] if folder is None else [folder / part for part in TRACES[name]]


def main() -> None:
    """Print the results of the open traces; with ``--once``, the score of those set aside."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--more", type=Path, help=f"a folder with files of {HTA}")
    parser.add_argument("--once", action="store_true")
    args = parser.parse_args()
    near = {n: places(files(n, args.more)) for n, aside in ASIDE.items() if not aside}
    for name, some in near.items():
        show(name, some, {})
    every = [p for some in near.values() for p in some]
    fitted = {k: share_fitted([p for p in every if p.kind == k]) for k in ("reduces", "sends")}
    print("times the share of multiprocessors kept:", {k: round(v, 2) for k, v in fitted.items()})
    if args.once:
        for name in (n for n, aside in ASIDE.items() if aside):
            show(name, places(files(name, args.more)), fitted)


if __name__ == "__main__":
    main()
