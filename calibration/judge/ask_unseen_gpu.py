"""Check D10 with `foretrace run`: ops on a GPU without any measurements.

    python -m foretrace.calibration.judge.ask_unseen_gpu

The rows are those of ``unseen_gpu.py``, without the tenth that was inspected and the twenty that
calibrate. They become a trace of the nearest GPU (``rows/asked.py``). The target is a user's
catalog entry: datasheet of the target, constants of the nearest GPU, start-up times with the same
number of cycles; GEMMs overlap fully on Hopper, which loads without its threads. *Copied* are the
times of the nearest GPU. Each other column is one chain of a scenario: *peaks* and *carried* are
methods of ``carried``, *model* is ``roofline`` with kernel families only. *Blind* is the model for
GEMMs of another generation, which have other kernels, and *carried* for everything else. *With 20*
is blind times one level per family, the median of twenty ops measured on the target; a scenario
does this with ``scale`` in a rule of ``ops``, here it is multiplied.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from foretrace.models.calibration.parameter_search import PredictionErrors, held_out_mask
from foretrace.models.compute.op_shape import OpShape
from foretrace.scenarios.config.catalog import installed
from foretrace.scenarios.config.reading.tree import to_dict
from foretrace.sim.setting_groups import flatten_settings, unflatten_settings
from foretrace.sim.units import quantity

from ..rows.asked import Operator, asked, operator
from ..rows.op_rows import Rows, measured
from .unseen_gpu import FAMILIES, FEWEST, GPUS, NEAREST, PROGRAMS, OpDemands, common_shapes, regimes
from .unseen_gpu import op_demands as work_of

NAMES = {"a100_sxm": "a100-sxm4-80g", "h100_sxm": "h100-sxm5-80g", "h200_sxm": "h200-sxm-141g"}
SHEET = ("bandwidth", "chip.processors", "chip.clock", "chip.cache", "streams", "copy_engines")
FITTED = (
    "efficiency",
    "memory_efficiency",
    "exposed",
    "gemm.fp8.efficiency",
    "gemm.sustained",
    "gemm.fp8.tile_processors",
    "kernels",
)
CYCLES = ("launch", "gemm.join", "gemm.fp8.launch", "gemm.cold")
WAYS = {
    "peaks": "[{use: carried, way: by peaks}, recorded]",
    "model": "[roofline, recorded]",
    "carried": "[{use: carried, way: by roofline}, recorded]",
}
MOST = 1000  # rows of a family, drawn once
BARS = {"context attention": 0.2}
BAR, BAR_WITH_20, COPYING_ERRS = 0.12, 0.06, 0.1


class Asking(NamedTuple):
    """Rows of one family measured on both GPUs, prepared for a run.

    Parameters
    ----------
    given : indices of the twenty calibration rows
    left : number of rows without an equivalent operator
    """

    family: str
    ops: list[Operator]
    shape: np.ndarray
    near: np.ndarray
    truth: np.ndarray
    given: np.ndarray
    left: int


class Line(NamedTuple):
    """Median errors of one family in one regime.

    Parameters
    ----------
    errors : median error by column
    """

    family: str
    regime: str
    rows: int
    errors: dict[str, float]

    @property
    def blind_holds(self) -> bool:
        """True if the blind error meets the target (also half the copied error above 10 %)."""
        copied = self.errors["copied"]
        bar = BARS.get(self.family, BAR)
        return self.errors["blind"] <= (min(bar, copied / 2) if copied > COPYING_ERRS else bar)

    @property
    def calibrated_holds(self) -> bool:
        """True if twenty measured ops reduce the error to 6 %."""
        return self.errors["with 20"] <= BAR_WITH_20


def op_shape_of(family: str, row: np.ndarray) -> OpShape:
    """Op shape of a table row."""
    if family.startswith("gemm"):
        m, n, k = row.tolist()
        return OpShape("product", "fp8" if "fp8" in family else "bf16", (), (1.0, m, n, k))
    if family == "moe":
        tokens, hidden, inner, top, experts, tensor, parallel = row.tolist()
        here = experts / parallel
        return OpShape(
            "experts", "bf16", (hidden, inner / tensor, top, here, experts, 1.0), (tokens,)
        )
    batch, length, heads, shared, width = row.tolist()
    group = heads / shared if shared else 1.0
    if family == "context attention":
        return OpShape(
            "attention", "bf16", (group, width, 1.0, 0.0), (batch, heads, length, length)
        )
    return OpShape("decode attention", "bf16", (group, width, 0.0, 0.0), (batch, heads, length + 1))


def rows_of(family: str, source: str, target: str) -> Asking:
    """Rows of a family that have an equivalent operator."""
    shape, near, truth = common_shapes(family, source, target)
    ops = [operator(op_shape_of(family, row)) for row in shape]
    at = np.array([op is not None for op in ops])
    left, given = int((~at).sum()), measured(Rows(shape, truth))
    drawn = np.zeros(len(at), bool)
    drawn[np.random.default_rng(0).permutation(len(at))[:MOST]] = True
    at &= drawn | given
    return Asking(
        family, [op for op, taken in zip(ops, at, strict=True) if op is not None and taken],
        shape[at], near[at], truth[at], given[at], left,
    )  # fmt: skip


def unseen(target: str, chain: str) -> dict[str, Any]:
    """Catalog entry of the target, from the nearest GPU and a datasheet.

    The rows were timed in loops, so the model alone starts none of them cold. A carried time has
    the cold start of both GPUs in its ratio.
    """
    source = NEAREST[target]
    entries = (installed().entry("gpu", NAMES[gpu]) for gpu in (target, source))
    there, here = (flatten_settings(to_dict(entry)) for entry in entries)
    told = {k: v for k, v in there.items() if k in SHEET or k.startswith("peaks.")}
    told |= {k: here[k] for k in FITTED if k in here}
    cycles = GPUS[source].clock / GPUS[target].clock
    starts = {k: quantity(here[k], "s") * cycles * 1e6 for k in CYCLES if k in here}
    if "carried" not in chain:
        starts.pop("gemm.cold", None)
    if GPUS[target].asynchronous > GPUS[source].asynchronous:
        told["exposed"] = 0.0
    return unflatten_settings(told | {k: f"{v:.4f} us" for k, v in starts.items()})


def answers(asking: list[Asking], target: str, chain: str) -> list[np.ndarray]:
    """Predicted time in s of each family's ops by one chain, all in one run."""
    found = asked(
        [op for one in asking for op in one.ops], np.concatenate([one.near for one in asking]),
        here=NAMES[NEAREST[target]], there="unseen", chain=chain,
        entries={"unseen": unseen(target, chain)},
    )  # fmt: skip
    return np.split(found.seconds, np.cumsum([len(one.ops) for one in asking])[:-1])


def lines(
    target: str, families: Sequence[str] = FAMILIES, ways: Sequence[str] = tuple(WAYS)
) -> Iterator[Line]:
    """Errors of families on one target.

    Parameters
    ----------
    ways : chains to run, including ``model`` and ``carried``
    """
    source = NEAREST[target]
    some = [f for f in families if "fp8" not in f or "fp8" in GPUS[source].peaks]
    asking = [rows_of(family, source, target) for family in some]
    told = {name: answers(asking, target, WAYS[name]) for name in ways}
    for i, one in enumerate(asking):
        guesses = {"copied": one.near, **{name: told[name][i] for name in ways}}
        yield from _judged(one, guesses, source, target)


def _judged(
    one: Asking, guesses: dict[str, np.ndarray], source: str, target: str
) -> Iterator[Line]:
    other = one.family in PROGRAMS and GPUS[source].asynchronous != GPUS[target].asynchronous
    guesses["blind"] = guesses["model" if other else "carried"]
    given = one.given
    level = float(np.median(one.truth[given] / guesses["blind"][given]))
    guesses["with 20"] = level * guesses["blind"]
    looked = held_out_mask([str(s) for s in one.shape.tolist()], share=0.1, seed="looked")
    of: OpDemands = work_of(one.family, one.shape)
    for regime, mask in regimes(target, of, one.truth).items():
        rest = mask & ~looked & ~given
        if rest.sum() >= FEWEST and regime != "all":
            errors = {
                n: PredictionErrors.of(g[rest], one.truth[rest]).median for n, g in guesses.items()
            }
            yield Line(one.family, regime, int(rest.sum()), errors)


def main() -> None:
    columns = ("copied", *WAYS, "blind", "with 20")
    for target, source in NEAREST.items():
        print(f"| {source} to {target} | rows | " + " | ".join(columns) + " | bars |")
        for line in lines(target):
            errors = " | ".join(f"{line.errors[c]:.1%}" for c in columns)
            holds = "; ".join(
                "pass" if h else "**fail**" for h in (line.blind_holds, line.calibrated_holds)
            )
            print(f"| {line.family}, {line.regime} | {line.rows:,} | {errors} | {holds} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
