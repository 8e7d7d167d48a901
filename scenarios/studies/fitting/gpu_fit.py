"""Fit of all constants of a catalog GPU to one recording of its ops.

The fit has stages, each based on the earlier ones: values that the GPU reports; bf16 GEMMs, whose
efficiencies and launch times all others use; peaks of other types; fp8; unaligned rows; each kernel
family; and cold-start penalties after other kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....models.calibration.robust_constants import FittedConstant, fit_constants, median_error
from ....models.compute.kernel_work import kernel_work
from ....models.compute.kernels import Evidence, GpuDatasheet, KernelFamily, load_families
from ....models.compute.matrix_product import matrix_product, rows_are_aligned
from ....models.compute.op_shape import op_shape
from ....models.compute.roofline import TENSOR_TYPES, Roofline, compute_element_type
from ....sim.errors import ScenarioError
from ....sim.facts.doubt import QUANTILES
from ....sim.facts.ops import Kind, Ops
from ....sim.facts.signature import WIDTH, parse_signature
from ....sim.setting_groups import construct_with_groups, flatten_settings, unflatten_settings
from .gpu_rows import PRODUCT, GpuRows

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
FEW = 4  # rows for each constant that a fit may change
MAIN, SCALED = "bf16", "fp8"
PRODUCTS = {"efficiency": 0.8, "memory_efficiency": 0.8, "launch": 3e-6, "exposed": 0.3,
            "gemm.join": 4e-7}  # fmt: skip
FP8 = {"gemm.fp8.efficiency": 0.7, "gemm.fp8.launch": 5e-6}
TILES, UNALIGNED, COLD_START = "gemm.fp8.tile_processors", "gemm.unaligned", "gemm.cold"
CHIP = ("chip.processors", "chip.clock", "bandwidth", "chip.cache")
OTHER_PEAKS = ("fp64", "fp32", "tf32", "fp16", "int8")
ROWS = ("launch", "first", "again", "near", "memory", "cache")
STREAMS = ("launch", "near", "memory", "cache")
CONSTANTS = {
    "norm": ROWS, "layer norm": ROWS, "softmax": ROWS, "activation": ROWS, "rope": ROWS,
    "elementwise": STREAMS, "reduction": STREAMS, "gather": STREAMS,
    "gather of few": ("launch", "first"),
    "attention": ("launch", "first", "again", "near"),
    "decode attention": ROWS,
    "experts": ("launch", "arithmetic", "near", "memory", "cache"),
}  # fmt: skip
"""Constants of each kernel family that recorded rows can determine; the same as in
``calibration/fit/kernels.py``."""
START = {
    "launch": 3e3, "first": 700.0, "again": 500.0, "near": 0.6, "memory": 0.8, "arithmetic": 1.5,
    "cache": 0.6,
}  # fmt: skip
TENSOR = {"first": 1.5, "again": 1.0}  # of attention: over what the peak needs
COLD = {"": 1e-6, "family": 1600.0}  # s of a product, cycles of a family: where the search begins
DONOR = "nvidia"  # families of a GPU that nobody measured
STREAM = "stream"
DERIVED = "attention backward"  # of what is fitted of attention, wherever a file is read


@dataclass
class GpuConstants:
    """GPU constants that are known at one stage of a fit: roofline settings, kernel families.

    Parameters
    ----------
    settings : settings of ``roofline`` in SI by dotted name, without ``kernels``
    families : kernel families by name
    """

    settings: dict[str, Any]
    families: dict[str, KernelFamily] = field(default_factory=dict)

    @property
    def chip(self) -> GpuDatasheet:
        """Datasheet values of the GPU."""
        known = (float(self.settings[n]) for n in CHIP)
        return GpuDatasheet(*known)

    def has_peak(self, rows: GpuRows) -> Mask:
        """True for rows with a known peak flop rate, shape (n,); true for non-GEMMs."""
        known = [self.settings.get(f"peaks.{compute_element_type(t)}") for t in rows.texts]
        return np.asarray((rows.families != PRODUCT) | np.array([*map(bool, known)], bool))

    def roofline(self, **changed: float) -> Roofline:
        """Roofline backend with these constants; arguments replace some of its settings."""
        made = construct_with_groups(Roofline, unflatten_settings({**self.settings, **changed}))
        made.families = self.families
        return made

    def seconds(self, texts: Sequence[str], after: Mask) -> Floats:
        """Time of each op in s, shape (n,); cold-start penalty only after other kernels."""
        table = ops_table(texts)
        warm = with_cold_start(self, 0.0)
        found = np.empty(len(texts))
        for one, rows in ((self, after), (warm, ~after)):
            at = np.flatnonzero(rows)
            if len(at):
                found[at] = one.roofline().parts(table.take_with_placement(at)).sum(axis=0)
        return found


def with_cold_start(model: GpuConstants, cold: float) -> GpuConstants:
    """Constants with another cold-start penalty after other kernels."""
    families = {n: replace(f, cold=cold) for n, f in model.families.items()}
    return GpuConstants({**model.settings, COLD_START: cold}, families)


@dataclass(frozen=True)
class FamilyErrors:
    """Errors of a fitted GPU for one kernel family.

    Parameters
    ----------
    name : name of the family or stage
    fitted, held : ln(measured / predicted) of fitted rows, and of held-out rows, shape (n,) each
    """

    name: str
    fitted: Floats
    held: Floats

    @property
    def error(self) -> float:
        """Median error of the held-out rows; of the fitted rows if nothing was held out."""
        told = self.held if len(self.held) else self.fitted
        return median_error(told)


@dataclass(frozen=True)
class GpuFit:
    """A GPU fitted to a recording.

    Parameters
    ----------
    model : all constants of the fitted GPU
    constants : fitted constants by stage: "" for GEMMs, else the name of a type or family
    errors : errors by family
    left : constants and ops that were not fitted, each with the reason
    """

    model: GpuConstants
    constants: Mapping[str, tuple[FittedConstant, ...]]
    errors: Mapping[str, FamilyErrors]
    left: tuple[str, ...]


def fit_gpu(rows: GpuRows, settings: Mapping[str, Any]) -> GpuFit:
    """Fit all constants of a GPU that a recording can determine.

    Parameters
    ----------
    settings : known settings in SI, from the datasheet and from the GPU

    Raises
    ------
    ScenarioError
        The bf16 peak, the bandwidth or a chip constant is unknown.
    """
    known = flatten_settings(settings)
    _require_known(known)
    return _FitStages(rows, known).run()


def _require_known(settings: Mapping[str, Any]) -> None:
    needed = (f"peaks.{MAIN}", *CHIP)
    missing = [n for n in needed if not settings.get(n)]
    if missing:
        raise ScenarioError(
            f"fit gpu: {', '.join(missing)} of the GPU is unknown; give its entry with --start, or "
            "the datasheet value with --know NAME=VALUE"
        )


class _FitStages:
    """Stages of the fit, each of which changes the model."""

    def __init__(self, rows: GpuRows, settings: Mapping[str, Any]):
        known = {k: v for k, v in settings.items() if k in ROOFLINE_SETTINGS}
        self.rows, self.before = rows, known
        donor = str(settings.get("kernels") or DONOR)
        self.donor = load_families(donor)
        self.model = GpuConstants({**known, COLD_START: 0.0}, {})
        self.constants: dict[str, tuple[FittedConstant, ...]] = {}
        self.left = list(rows.left)
        self.family = rows.families
        self.dtype = np.array([compute_element_type(t) for t in rows.texts])
        self.is_product = (self.family == PRODUCT) & ~rows.after
        self.aligned = np.array([_is_aligned(t) for t in rows.texts], bool)

    def run(self) -> GpuFit:
        self._products()
        self._peaks()
        self._fp8_gemms()
        self._unaligned()
        for name in CONSTANTS:
            self._family(name)
        self.model.families.setdefault(PRODUCT, KernelFamily())
        self._cold_start_penalties()
        self._assumed()
        return GpuFit(self.model, self.constants, self._errors(), tuple(self._all_left()))

    def _fit(
        self, stage: str, mask: Mask, start: Mapping[str, float], predict_of: Any, what: str,
        other: Mapping[str, float] | None = None,
    ) -> dict[str, float] | None:  # fmt: skip
        """Fit the constants of a stage to its rows; None if there are too few rows."""
        at = self.rows.of(mask & ~self.rows.kept)
        if len(at) < FEW * len(start):
            if len(at):
                self.left.append(
                    f"{what}: {len(at)} ops, {len(start)} constants need {FEW * len(start)}"
                )
            return None
        found = fit_constants(predict_of(at), start, self.rows.seconds[at], other)
        self.constants[stage] = (*self.constants.get(stage, ()), *found)
        return {c.name: c.value for c in found}

    def _roofline_predict(self, at: NDArray[np.int_]) -> Any:
        table = ops_table([self.rows.texts[i] for i in at.tolist()])
        return lambda values: self.model.roofline(**values).parts(table).sum(axis=0)

    def _of_type(self, dtype: str) -> Mask:
        return np.asarray(self.is_product & self.aligned & (self.dtype == dtype))

    def _products(self) -> None:
        start = {n: float(self.before.get(n) or v) for n, v in PRODUCTS.items()}
        found = self._fit(
            "", self._of_type(MAIN), start, self._roofline_predict, f"GEMMs in {MAIN}", PRODUCTS
        )
        self.model.settings |= found or {}

    def _peaks(self) -> None:
        """Fit the peak flop rate of other element types, with the efficiency found for bf16."""
        for dtype in OTHER_PEAKS:
            mask, name = self._of_type(dtype), f"peaks.{dtype}"
            if not mask.any():
                continue
            start = {name: float(self.before.get(name) or self._quickest(mask))}
            found = self._fit("peaks", mask, start, self._roofline_predict, f"GEMMs in {dtype}")
            self.model.settings |= found or {}

    def _quickest(self, mask: Mask) -> float:
        """Highest flop rate among the recorded GEMMs that a mask selects, in flop/s."""
        at = self.rows.of(mask)
        table = ops_table([self.rows.texts[i] for i in at.tolist()])
        return float((table.flop / self.rows.seconds[at]).max())

    def _fp8_gemms(self) -> None:
        """Fit fp8 GEMMs with and without complete tiles; keep the fit with the smaller error."""
        mask = self._of_type(SCALED)
        if not mask.any():
            return
        if not self.before.get(f"peaks.{SCALED}"):
            self.left.append("GEMMs in fp8: their peak is unknown; give peaks.fp8 with --know")
            return
        start = {n: float(self.before.get(n) or v) for n, v in FP8.items()}
        at = self.rows.of(mask & ~self.rows.kept)
        tried = {}
        for tiles in (0, int(self.before["chip.processors"])):
            self.model.settings[TILES] = tiles
            self.constants.pop(SCALED, None)
            found = self._fit(SCALED, mask, start, self._roofline_predict, "GEMMs in fp8")
            if found is None:
                return
            wrong = np.log(self._roofline_predict(at)(found) / self.rows.seconds[at])
            tried[tiles] = (float(np.median(np.abs(wrong))), found, self.constants[SCALED])
        tiles = min(tried, key=lambda t: tried[t][0])
        _, found, self.constants[SCALED] = tried[tiles]
        self.model.settings |= {**found, TILES: tiles}

    def _unaligned(self) -> None:
        mask = np.asarray(self.is_product & ~self.aligned)
        start = {UNALIGNED: float(self.before.get(UNALIGNED) or 1.5)}
        found = self._fit("", mask, start, self._roofline_predict, "GEMMs with unaligned rows")
        self.model.settings |= found or {}

    def _family(self, name: str) -> None:
        mask = np.asarray((self.family == name) & ~self.rows.after)
        told = self.donor.get(name)
        usual = {**START, **(TENSOR if name == "attention" else {})}
        start = {k: (getattr(told, k) if told else 0.0) or usual[k] for k in CONSTANTS[name]}

        def predict_of(at: NDArray[np.int_]) -> Any:
            work, peak = self._kernel_works(at)

            def predict(values: Mapping[str, float]) -> Floats:
                one = _family_of(values)
                return np.asarray(one.time_parts(work, self.model.chip, peak).sum(axis=0))

            return predict

        other = {k: usual[k] for k in start}
        found = self._fit(name, mask, start, predict_of, name, other)
        if found is not None:
            self.model.families[name] = replace(
                _family_of(found), evidence=Evidence(self.rows.where)
            )

    def _kernel_works(self, at: NDArray[np.int_]) -> tuple[Floats, Floats]:
        """Work terms of some rows, shape (n, 7), and peak flop rate of their types, shape (n,)."""
        work, peak = [], []
        for i in at.tolist():
            shape = op_shape(self.rows.texts[i])
            assert shape is not None  # noqa: S101  it has a family
            work.append(kernel_work(shape))
            peak.append(float(self.model.settings.get(f"peaks.{self.dtype[i]}") or 1.0))
        return np.array(work, float).reshape(-1, 7), np.array(peak)

    def _cold_start_penalties(self) -> None:
        """Fit cold-start penalties after other kernels, for GEMMs and for each kernel family."""
        product = np.asarray(self.rows.after & (self.family == PRODUCT) & self.aligned)
        known = float(self.before.get(COLD_START) or COLD[""])
        found = self._fit("", product, {COLD_START: known}, self._roofline_predict,
                          "GEMMs after other kernels")  # fmt: skip
        own = found[COLD_START] if found else float(self.before.get(COLD_START, 0))
        self.model.settings[COLD_START] = own
        for name, family in self.model.families.items():
            told = self.donor.get(name)
            usual = told.cold if told else 0.0
            mask = np.asarray(self.rows.after & (self.family == name))
            if name == PRODUCT:
                continue

            def predict_of(at: NDArray[np.int_], family: KernelFamily = family) -> Any:
                work, peak = self._kernel_works(at)
                return lambda v: (
                    replace(family, **v).time_parts(work, self.model.chip, peak, "step").sum(axis=0)
                )

            begin = {"cold": usual or COLD["family"]}
            found = self._fit(name, mask, begin, predict_of, f"{name} after other kernels")
            self.model.families[name] = replace(family, cold=found["cold"] if found else usual)

    def _assumed(self) -> None:
        """Take families that were not recorded from the earlier entry, or from other GPUs."""
        mine = self.model.families
        derived = {DERIVED} if "attention" in self.constants else set()
        for name, other in self.donor.items():
            if name not in mine and name not in derived:
                mine[name] = other
        if "elementwise" in self.constants:
            own = mine["elementwise"]
            spread = self.donor[STREAM].evidence.quantiles
            mine[STREAM] = replace(own, evidence=Evidence(quantiles=spread))

    def _errors(self) -> dict[str, FamilyErrors]:
        """Errors by kernel family, over rows that the model predicts; also stored in families."""
        rows = self.rows
        fitted = [n for n in self.constants if n in CONSTANTS]
        known = np.isin(self.family, [*fitted, PRODUCT]) & self.model.has_peak(rows)
        at = rows.of(known)
        wrong = np.full(len(rows.texts), np.nan)
        texts = [rows.texts[i] for i in at.tolist()]
        wrong[at] = np.log(rows.seconds[at] / self.model.seconds(texts, rows.after[at]))
        found = {}
        for name in sorted(set(self.family[at].tolist())):
            mine = (self.family == name) & known
            found[name] = FamilyErrors(name, wrong[mine & ~rows.kept], wrong[mine & rows.kept])
            self._doubt(name, found[name])
        return found

    def _doubt(self, name: str, errors: FamilyErrors) -> None:
        levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
        told = errors.held if len(errors.held) else errors.fitted
        quantiles = {"": tuple(np.quantile(told, levels).round(3).tolist())}
        family = self.model.families[name]
        evidence = Evidence(self.rows.where, round(errors.error, 3), quantiles)
        self.model.families[name] = replace(family, evidence=evidence)

    def _all_left(self) -> list[str]:
        """Texts about rows left out and ops without a fitted family, each with the reason."""
        fitted = {n for n in self.constants if n in CONSTANTS} | {PRODUCT}
        answered = np.isin(self.family, list(fitted))
        names = [
            text.partition(" ")[0] for text, known in zip(self.rows.texts, answered, strict=True)
            if not known
        ]  # fmt: skip
        counts = {n: names.count(n) for n in dict.fromkeys(names)}
        return self.left + [
            f"{n}: {count} ops, for which the entry has no constants" for n, count in counts.items()
        ]


def _family_of(values: Mapping[str, Any]) -> KernelFamily:
    """Build a kernel family from its constants, given by name."""
    return KernelFamily(**values)


OTHERS = ("gemm.sustained", "gemm.burst", "gemm.odd")
"""Settings that no stage fits and that the new entry leaves out: power limit, and kernels of
another GPU for odd row lengths."""
ROOFLINE_SETTINGS = (
    *CHIP, *PRODUCTS, *FP8, TILES, UNALIGNED, COLD_START,
    *(f"peaks.{t}" for t in (MAIN, SCALED, *OTHER_PEAKS)),
)  # fmt: skip


def ops_table(texts: Sequence[str]) -> Ops:
    """Ops table of signatures, with flop and bytes, as a run has it.

    >>> ops_table(["compute:aten::mm bf16[2x4] bf16[4x2]"]).flop.tolist()
    [32.0]
    """
    known = list(dict.fromkeys(texts))
    work = {}
    for text in known:
        shape = op_shape(text)
        if shape is None:
            raise ScenarioError(
                f"fit gpu: the flop count of '{text}' is unknown; exclude it with --only"
            )
        one = kernel_work(shape)
        work[text] = (one.flop or one.blocks * one.depth * one.step, one.bytes)
    flop, moved = np.array([work[t] for t in texts], float).reshape(-1, 2).T
    number = {text: i for i, text in enumerate(known)}
    return Ops.of(
        kind=int(Kind.COMPUTE),
        flop=flop,
        bytes=moved,
        signature=[number[t] for t in texts],
        signatures=tuple(known),
    )


def _is_aligned(text: str) -> bool:
    """True if the rows of a GEMM are aligned, by the rule of the roofline."""
    parts = parse_signature(text)
    shape = matrix_product(parts)
    dtype = compute_element_type(text)
    return shape is None or dtype not in TENSOR_TYPES or rows_are_aligned(shape, WIDTH[dtype])
