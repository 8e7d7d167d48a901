"""GPU roofline: a kernel is limited by compute or by memory, whichever is slower.

This is the roofline model (Williams, Waterman, Patterson 2009, doi:10.1145/1498765.1498785) with
four fitted constants: the fraction of each roof that is reached, the fraction of the shorter time
that is not overlapped, and a launch cost. For CPUs there is a higher roof for data that fits into
the cache (Ilic, Pratas, Sousa 2014, doi:10.1109/L-CA.2013.6). Kernels other than GEMMs (attention,
norms, streaming ops) use constants of their own family if they are known (``kernels.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.facts.backend import Backend, Timing, Usage, backend
from ...sim.facts.coded import Coded
from ...sim.facts.doubt import Doubt
from ...sim.facts.ops import Kind, Ops, require
from ...sim.facts.signature import WIDTH, parse_signature
from ...sim.facts.system import CORE, System
from ...sim.units import MemoryRate, Ratio, Seconds
from .gpu_groups import CacheRoof, Chip, Gemm, Peaks
from .kernel_work import KernelWork, kernel_work, streaming_work
from .kernels import REGIMES, Beside, GpuDatasheet, KernelFamily, load_families
from .matrix_product import COPIED, MatrixProduct, matrix_product, rows_are_aligned, tiles_flop
from .op_shape import QUANTIZED, op_shape

SHORT = 32  # summed dimension up to which a GEMM is not split
SCALING = 3  # B moved per quantized element: bf16 in, fp8 out
STREAM, ROOFLINE = "stream", "roofline"  # families of ops that only move bytes, and of all others
LIKE = "like"  # signature attribute that names the family of the error interval
HALF = ("fp16", "bf16")  # types whose long GEMMs were measured under the power limit
SCALED = ("fp8", "fp4")  # types of operands that are scaled
UNMEASURED = "fp4"  # type of products of which no table was at hand
TENSOR_TYPES = ("tf32", "fp16", "bf16")  # unaligned fp8 is an error
COMPUTED_AS = {"fp8_e5m2": "fp8", "uint8": "int8", "complex64": "fp32", "complex128": "fp64"}

BESIDE: dict[str, Beside] = {"step": "step", "alone": "nothing"}  # by ``caches``

Floats = NDArray[np.float64]
RENAMED = {
    **{f"peak_{t}": f"peaks.{t}" for t in Peaks.__dataclass_fields__},
    "efficiency_fp8": "gemm.fp8.efficiency",
    "launch_fp8": "gemm.fp8.launch",
    "tile_processors": "gemm.fp8.tile_processors",
    "efficiency_fp4": "gemm.fp4.efficiency",
    "sustained": "gemm.sustained",
    "burst": "gemm.burst",
    "join": "gemm.join",
    "cold": "gemm.cold",
    "unaligned": "gemm.unaligned",
    "odd": "gemm.odd",
    "tf32": "gemm.tf32",
    "cache": "cache.size",
    "cache_bandwidth": "cache.bandwidth",
    "processors": "chip.processors",
    "clock": "chip.clock",
    "shared_cache": "chip.cache",
}
"""Names of settings in release 0.1, and where they are now."""


@backend("roofline")
class Roofline(Backend):
    """Roofline model of one GPU.

    The peak is that of the first operand's element type, so give the peaks of all types in use. An
    op of given flop and bytes may name the family whose errors it has: ``compute:layers
    like=product bf16[]``; otherwise the error interval of all rooflines applies.

    ``stated_peaks`` holds the datasheet's flop/s by element type, ``peaks`` the rates that are
    reached.

    Parameters
    ----------
    bandwidth : MemoryRate
        Memory bandwidth from the datasheet.
    memory_efficiency : Ratio
        Fraction of ``bandwidth`` that large kernels reach.
    efficiency : Ratio
        Fraction of the peak that large kernels reach.
    launch : Seconds
        Launch cost of every kernel, independent of its size.
    exposed : Ratio
        Fraction of the shorter of compute and memory time that is not overlapped with the longer.
    peaks : Peaks
        Dense peak rates by element type.
    gemm : Gemm
        Costs of GEMMs.
    cache : CacheRoof
        Cache of the processor: a higher rate for ops whose bytes fit into it.
    caches : str
        State of the caches. ``step``: other kernels run between two equal ops, so GEMMs start cold.
        ``alone``: one op runs in a loop, as in microbenchmarks and tables of measured ops, so no op
        starts cold.
    chip : Chip
        Multiprocessors, clock and shared cache; ``kernels`` requires all three.
    kernels : str
        Constants of kernel families: a name in ``models/catalog/kernels``, or a file; "" for none,
        so that the roofline times every op.
    shared : bool
        Kernels use the bandwidth of their GPU's ``hbm``, so that copies and kernels slow each other
        down.

    Examples
    --------
    >>> gpu = Roofline(peaks=Peaks(bf16=1e12), bandwidth=1e9, launch=1e-6)
    >>> ops = Ops.of(flop=[0, 2e6], bytes=1000, signature=0, signatures=("compute:mm bf16[4x8]",))
    >>> gpu.timing(ops).fixed.round(9).tolist()
    [2e-06, 3e-06]
    """

    uniform = True
    renamed_settings: ClassVar[Mapping[str, str]] = RENAMED

    def __init__(
        self,
        *,
        bandwidth: MemoryRate,
        memory_efficiency: Ratio = 1.0,
        efficiency: Ratio = 1.0,
        launch: Seconds = 0.0,
        exposed: Ratio = 0.0,
        peaks: Peaks = Peaks(),
        gemm: Gemm = Gemm(),
        cache: CacheRoof = CacheRoof(),
        caches: str = "step",
        chip: Chip = Chip(),
        kernels: str = "",
        shared: bool = False,
    ):
        if gemm.sustained is not None and gemm.sustained > efficiency:
            raise BackendError(
                f"roofline: gemm.sustained is {gemm.sustained}, above the efficiency of short "
                f"GEMMs, {efficiency}; write a smaller value, or leave it out"
            )
        if (cache.size is None) != (cache.bandwidth is None):
            raise BackendError("roofline: a cache has a size and a bandwidth; give both or neither")
        if caches not in BESIDE:
            raise BackendError(f"roofline: caches is {caches!r}; take 'alone' or 'step'")
        if kernels and not (chip.processors and chip.clock and chip.cache):
            raise BackendError(
                f"roofline: kernels {kernels!r} need chip.processors, chip.clock and chip.cache of "
                "the GPU; give all three"
            )
        self.stated_peaks = peaks.known(gemm.tf32)
        self.peaks = {t: p * gemm.efficiency(t, efficiency) for t, p in self.stated_peaks.items()}
        self._sustained_peaks = {
            t: p * gemm.sustained
            for t, p in self.stated_peaks.items()
            if gemm.sustained and t in HALF
        }
        self.burst = gemm.burst if caches == "alone" else 0.0
        self.sustained = bandwidth * memory_efficiency
        self.cache, self.cache_bandwidth = cache.size or 0.0, cache.bandwidth or self.sustained
        self.launch, self.exposed, self.shared = launch, exposed, shared
        self.launch_fp8 = launch if gemm.fp8.launch is None else gemm.fp8.launch
        self.scales = gemm.fp8.launch is not None
        self.tile_processors = gemm.fp8.tile_processors
        self.beside = BESIDE[caches]
        self.join, self.cold = gemm.join, gemm.cold if caches == "step" else 0.0
        self.unaligned = gemm.unaligned
        self.odd = gemm.unaligned if gemm.odd is None else gemm.odd
        self.kernels = kernels
        self.families = load_families(kernels) if kernels else {}
        self.chip = GpuDatasheet(chip.processors, chip.clock or 0.0, bandwidth, chip.cache or 0.0)
        self._hbm: dict[int, int] = {}
        self._core: dict[int, int] = {}
        self.source = (
            f"model:roofline bandwidth={bandwidth:.4g} B/s launch={launch:.4g} s "
            f"efficiency={efficiency:.3g} memory_efficiency={memory_efficiency:.3g}"
        )

    def open(self, system: System) -> None:
        """Look up each GPU's memory (``hbm``) and its shared multiprocessors (``core``)."""
        self._hbm, self._core = system.parts_by_gpu("hbm"), system.parts_by_gpu("core")

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """Mask of ops with known flop, bytes and peak of the element type, shape (n,)."""
        flop, moved = self.demand(ops)
        peaks = np.array([t in self.peaks for t in _element_types(ops)] + [False])[ops.signature]
        return np.asarray(
            _timed_by_family(ops, self._family_of_signatures(ops))
            | ((flop >= 0) & (moved >= 0) & (peaks | (flop == 0)))
        )

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Time of each op; with ``kernels``, also the error interval of its family."""
        parts = self.parts(ops)
        doubt, source = self._doubts_and_sources(ops, parts) if self.families else (None, None)
        cores = self._parts_of(ops, self._core)
        if not self.shared and (cores < 0).all():
            return Timing(parts.sum(axis=0), source=source, doubt=doubt)
        launch, busy = parts[0] + parts[1], parts[2] + parts[3]
        if (cores < 0).all():
            flow = self._memory_timing(ops, launch, busy)
        else:
            flow = self._core_timing(ops, launch, busy, cores)
        return replace(flow, source=source, doubt=doubt)

    def parts(self, ops: Ops) -> Floats:
        """Launch, latency, memory and compute time of each op in s, shape (4, n).

        Their sum is the time.

        Raises
        ------
        BackendError
            An op has neither known flop and bytes nor operands to derive them from.

        Examples
        --------
        >>> gpu = Roofline(peaks=Peaks(bf16=1e12), bandwidth=1e9, launch=1e-6)
        >>> texts = ("compute:aten::mm bf16[1000x10] bf16[10x1000]",)
        >>> gpu.parts(Ops.of(flop=2e7, bytes=2e6, signature=0, signatures=texts)).T.tolist()
        [[1e-06, 0.0, 0.002, 0.0]]
        """
        family_and_work = self._family_of_signatures(ops)
        found = np.full((len(REGIMES), len(ops)), np.nan)
        mine = _timed_by_family(ops, family_and_work)
        rest = np.flatnonzero(~mine)
        if len(rest):
            found[:, rest] = self._roof_parts(ops.take_with_placement(rest))
        rows = np.flatnonzero(mine)
        for name in {_name(family_and_work[s]) for s in ops.signature[rows].tolist()}:
            at = [r for r in rows.tolist() if _name(family_and_work[ops.signature[r]]) == name]
            work = np.array([_work(family_and_work[ops.signature[r]]) for r in at], float)
            peak = self._peaks_of(ops.take_with_placement(np.array(at)))
            found[:, at] = self.families[name].time_parts(work, self.chip, peak, self.beside)
        return found * self._levels(ops, family_and_work)

    def _roof_parts(self, ops: Ops) -> Floats:
        """Time parts in s, shape (4, n), of ops without a kernel family of their own.

        Ops that only stream use the constants of the streaming family.
        """
        flop, moved = self.demand(ops)
        ops = ops.replace(flop=flop, bytes=moved)
        require(ops, "flop", "bytes")
        rate = np.where(ops.bytes <= self.cache, self.cache_bandwidth, self.sustained)
        launch, filled, strided = self._launch_and_factors(ops)
        flop = strided * ops.flop * filled
        arithmetic = np.maximum(
            flop / self._peak_flop_rates(ops), flop / self._sustained_flop_rates(ops) - self.burst
        )
        memory = strided * ops.bytes / rate
        slower = arithmetic > memory
        memory = np.where(slower, self.exposed, 1.0) * memory
        arithmetic = np.where(slower, 1.0, self.exposed) * arithmetic
        found = np.stack([launch, np.zeros(len(ops)), memory, arithmetic])
        if STREAM in self.families:
            at = np.flatnonzero((ops.flop == 0) & (ops.kind == Kind.COMPUTE))
            work = np.array([streaming_work(b) for b in ops.bytes[at].tolist()], float).reshape(
                -1, 7
            )
            each = np.ones(len(at))
            found[:, at] = self.families[STREAM].time_parts(work, self.chip, each, self.beside)
        return found

    def _family_of_signatures(self, ops: Ops) -> list[tuple[str, KernelWork] | None]:
        """Kernel family and work of each signature; None if the roofline times it."""
        return [self._family_and_work(text) for text in ops.signatures]

    def _family_and_work(self, text: str) -> tuple[str, KernelWork] | None:
        shape = op_shape(text)
        if shape is None or not self.families:
            return None
        family = self.families.get(shape.family)
        if family is None or not family.launch:
            return None
        work = kernel_work(shape)
        needs = work.step or work.flop
        return (shape.family, work) if not needs or _peak_of(self.peaks, text) else None

    def demand(self, ops: Ops) -> tuple[Floats, Floats]:
        """Flop and bytes of each op, each (n,): from the op, or derived from its operands.

        They are derived from the operands only if kernel families are set.

        >>> gpu = Roofline(bandwidth=1e9)
        >>> [v.tolist() for v in gpu.demand(Ops.of(flop=[1.0], bytes=[2.0]))]
        [[1.0], [2.0]]
        """
        shapes = [op_shape(text) if self.families else None for text in ops.signatures]
        works = [None if s is None else kernel_work(s) for s in shapes]
        told = [
            (w.flop or w.blocks * w.depth * w.step, w.bytes) if w else (np.nan, np.nan)
            for w in works
        ]
        table = np.array([*told, (np.nan, np.nan)], float)[ops.signature]
        flop = np.where(np.isnan(ops.flop), table[:, 0], ops.flop)
        flop = np.where((ops.kind == Kind.COPY) & np.isnan(flop), 0.0, flop)
        return flop, np.where(np.isnan(ops.bytes), table[:, 1], ops.bytes)

    def _peaks_of(self, ops: Ops) -> Floats:
        """Datasheet peak in flop/s of ops with tensor-core steps, shape (n,); 1 if unknown.

        The fraction that GEMMs reach does not apply to other kernels, whose constants include their
        own.
        """
        table = np.array([_peak_of(self.stated_peaks, text) or 1.0 for text in ops.signatures])
        return np.asarray(table[ops.signature])

    def _levels(self, ops: Ops, family_and_work: list[tuple[str, KernelWork] | None]) -> Floats:
        """Factor on the complete time of each op, from its kernel family, shape (n,); usually 1."""
        known = {n: f.level for n, f in self.families.items() if f.level != 1.0}
        if not known:
            return np.ones(len(ops))
        return np.array(
            [known.get(name, 1.0) for name in self._doubt_families(ops, family_and_work)], float
        )

    def _doubt_families(
        self, ops: Ops, family_and_work: list[tuple[str, KernelWork] | None]
    ) -> list[str]:
        """Name of the kernel family from which each op gets its error interval and level factor."""
        owned = zip(ops.signatures, family_and_work, strict=True)
        names = np.array([*(self._doubt_family(text, one) for text, one in owned), ROOFLINE])
        streams = (ops.flop == 0) & (ops.kind == Kind.COMPUTE)
        each = names[ops.signature]
        each = np.where((each == STREAM) & ~_timed_by_family(ops, family_and_work), ROOFLINE, each)
        told: list[str] = np.where((each == ROOFLINE) & streams, STREAM, each).tolist()
        return told

    def _doubts_and_sources(self, ops: Ops, parts: Floats) -> tuple[Coded[Doubt], Coded[str]]:
        """Error interval and source of each row."""
        told = self._doubt_families(ops, self._family_of_signatures(ops))
        regimes = parts.argmax(axis=0).tolist()
        doubts = {key: self._doubt(*key) for key in set(zip(told, regimes, strict=True))}
        sources = {name: self._source(name) for name in set(told)}
        return (
            Coded.of([doubts[key] for key in zip(told, regimes, strict=True)]),
            Coded.of([sources[name] for name in told]),
        )

    def _doubt_family(self, text: str, family_and_work: tuple[str, KernelWork] | None) -> str:
        """Name of the family whose errors an op has: its own, or the one named by ``like``."""
        like = (
            parse_signature(text).attributes.get(LIKE)
            if family_and_work is None or family_and_work[0] == STREAM
            else None
        )
        if like is not None:
            return self._checked_family(like, text)
        if family_and_work is not None:
            return family_and_work[0]
        shape = op_shape(text)
        if shape is None or shape.dtype == UNMEASURED:
            return ROOFLINE
        return shape.family if shape.family in self.families else ROOFLINE

    def _checked_family(self, name: str, text: str) -> str:
        if self.families and name not in self.families:
            raise BackendError(
                f"op {text!r}: {LIKE}={name} is not a family of kernels {self.kernels!r}; "
                "write one of "
                f"{', '.join(sorted(self.families))}"
            )
        return name

    def _doubt(self, name: str, regime: int) -> Doubt:
        known = self.families.get(name, KernelFamily()).evidence.quantiles
        word = REGIMES[regime]
        return Doubt(name, word, tuple(known.get(word, known.get("", ()))))

    def _source(self, name: str) -> str:
        family = self.families.get(name, KernelFamily())
        if family.level != 1.0:
            return f"fitted:{self.kernels} {name}, {family.evidence.source}"
        if name == ROOFLINE or (not family.launch and family.evidence.source):
            return self.source
        if not family.evidence.source:
            return f"assumed:{self.kernels} {name}, like other families"
        return f"fitted:{self.kernels} {name}, {family.evidence.error:.0%} on what was held out"

    def _launch_and_factors(self, ops: Ops) -> Floats:
        """Launch time in s, tile factor and alignment factor of each op, shape (3, n)."""
        rows = [self._launch_and_factors_of(text) for text in ops.signatures]
        return np.array([*rows, (self.launch, 1.0, 1.0)])[ops.signature].T

    def _launch_and_factors_of(self, text: str) -> tuple[float, float, float]:
        """Launch time in s, tile factor and alignment factor of one signature."""
        parts = parse_signature(text)
        dtype = COMPUTED_AS.get(parts.dtype, parts.dtype)
        shape = matrix_product(parts)
        scales = dtype == "fp8" and QUANTIZED not in parts.attributes
        launch = self.launch_fp8 if scales else self.launch
        if shape is None or not math.prod(shape):
            return launch, 1.0, 1.0
        launch += self.cold
        if dtype not in SCALED:
            launch += self.join * math.log2(max(shape.k / SHORT, 1.0))
            return launch, 1.0, self._alignment_factor(shape, dtype)
        if self.scales and scales:
            launch += SCALING * shape.batch * shape.m * shape.k / self.sustained
        if not self.tile_processors or dtype != "fp8":
            return launch, 1.0, 1.0
        return launch, tiles_flop(shape, self.tile_processors) / (2.0 * math.prod(shape)), 1.0

    def _alignment_factor(self, shape: MatrixProduct, dtype: str) -> float:
        """Slowdown factor of a GEMM relative to one with aligned rows."""
        if dtype not in TENSOR_TYPES or rows_are_aligned(shape, WIDTH[dtype]):
            return 1.0
        return self.unaligned if rows_are_aligned(shape, WIDTH[dtype], COPIED) else self.odd

    def _peak_flop_rates(self, ops: Ops) -> NDArray[np.float64]:
        """Peak rate of each op in flop/s, shape (n,); infinite for ops without arithmetic."""
        types = _element_types(ops)
        rates = np.array([self.peaks.get(t, np.nan) for t in types] + [np.nan])
        peak = np.where(ops.flop > 0, rates[ops.signature], np.inf)
        for row in np.flatnonzero(np.isnan(peak))[:1].tolist():
            i = int(ops.signature[row])
            what = types[i] if i >= 0 and types[i] else "an unknown element type"
            raise BackendError(
                f"op {row} ({ops.signature_text(row) or ops.kind_names[row]}): no peak for {what}, "
                f"only for {sorted(self.peaks)}; give that peak, or bind 'table' or 'recorded'"
            )
        return peak

    def _sustained_flop_rates(self, ops: Ops) -> NDArray[np.float64]:
        """Rate of each op under the power limit in flop/s, shape (n,); infinite if unknown."""
        table = [self._sustained_peaks.get(t, np.inf) for t in _element_types(ops)]
        return np.asarray(np.array([*table, np.inf])[ops.signature])

    def _core_timing(
        self, ops: Ops, launch: Floats, busy: Floats, cores: NDArray[np.int32]
    ) -> Timing:
        """Timing with the kernel's time as work on its GPU's multiprocessors.

        With ``shared``, its bytes also use memory bandwidth during that time.
        """
        memory = np.full(len(ops), -1, np.int32)
        if self.shared:
            memory = self._memory_of(ops)
        flows = (cores >= 0) & (busy > 0)
        moved = np.divide(self.demand(ops)[1], busy * CORE, out=np.zeros(len(ops)), where=flows)
        component = np.stack([cores, memory], axis=1)
        weight = np.stack([np.ones(len(ops)), moved], axis=1)
        uses = flows[:, None] & (component >= 0) & (weight > 0)
        indptr = np.concatenate([[0], np.cumsum(uses.sum(axis=1))]).astype(np.int64)
        return Timing.of(
            launch + np.where(flows, 0.0, busy), np.where(flows, busy * CORE, 0.0),
            Usage(indptr, component[uses], weight[uses]), np.where(flows, CORE, np.inf),
        )  # fmt: skip

    def _parts_of(self, ops: Ops, parts: Mapping[int, int]) -> NDArray[np.int32]:
        """Number of the part that belongs to each op's GPU, shape (n,); -1 for none."""
        asked = [] if ops.at is None or not parts else ops.at.component.tolist()
        return np.array([parts.get(g, -1) for g in asked] or [-1] * len(ops), np.int32)

    def _memory_of(self, ops: Ops) -> NDArray[np.int32]:
        """Component number of the memory (HBM) of each op's GPU, shape (n,)."""
        memory = self._parts_of(ops, self._hbm)
        if (memory < 0).any():
            raise BackendError(
                "roofline: 'shared' needs GPUs with an hbm; give the system their parts, "
                "or set shared: false"
            )
        return memory

    def _memory_timing(self, ops: Ops, launch: Floats, busy: Floats) -> Timing:
        """Timing with the op's bytes as work on GPU memory, at most at the roofline's rate."""
        moved = self.demand(ops)[1]
        memory = self._memory_of(ops)
        limit = np.divide(moved, busy, out=np.full(len(ops), np.inf), where=busy > 0)
        idle = moved == 0  # compute-only ops move nothing
        fixed = launch + np.where(idle, busy, 0.0)
        usage = Usage(np.arange(len(ops) + 1, dtype=np.int64), memory, np.ones(len(ops)))
        return Timing.of(fixed, moved, usage, np.where(idle, np.inf, limit))


def _timed_by_family(
    ops: Ops, family_and_work: list[tuple[str, KernelWork] | None]
) -> NDArray[np.bool_]:
    """Mask of ops that a kernel family times, shape (n,).

    The roofline times an op of the streaming family if its flop are known.
    """
    known = np.array([one is not None for one in family_and_work] + [False])[ops.signature]
    stream = np.array([_name(one) == STREAM for one in family_and_work] + [False])[ops.signature]
    return np.asarray(known & ~(stream & ~np.isnan(ops.flop)))


def _name(family_and_work: tuple[str, KernelWork] | None) -> str:
    return family_and_work[0] if family_and_work else ""


def _work(family_and_work: tuple[str, KernelWork] | None) -> KernelWork:
    return family_and_work[1] if family_and_work else KernelWork()


def _peak_of(peaks: Mapping[str, float], text: str) -> float | None:
    return peaks.get(compute_element_type(text))


def _element_types(ops: Ops) -> list[str]:
    """Element type in which each signature computes."""
    return [compute_element_type(s) for s in ops.signatures]


def compute_element_type(text: str) -> str:
    """Element type in which an op computes.

    >>> compute_element_type("compute:aten::mm fp8_e5m2[8x8] fp8[8x8]")
    'fp8'
    """
    dtype = parse_signature(text).dtype
    return COMPUTED_AS.get(dtype, dtype)
