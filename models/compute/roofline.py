"""GPUs, predicted: a kernel is limited by arithmetic or by memory, whichever is slower.

The roofline (Williams, Waterman, Patterson 2009, doi:10.1145/1498765.1498785) with what share
of both roofs is reached, what of the lower one the higher does not hide, and a launch cost, all
fitted to measured kernels; and, for processors, a higher roof for what fits the cache (Ilic,
Pratas, Sousa 2014, doi:10.1109/L-CA.2013.6).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Backend, Timing, Usage, backend
from ...sim.errors import BackendError
from ...sim.ops import Kind, Ops, require
from ...sim.signature import parse
from ...sim.system import System
from ...sim.units import Chunk, FlopRate, MemoryRate, Ratio, Seconds
from .matrix_product import product, tiles_flop

SHORT = 32  # terms that a product sums without joining
SCALING = 3  # B moved for each number that is scaled: bf16 in, fp8 out
COMPUTED_AS = {"fp8_e5m2": "fp8", "uint8": "int8", "complex64": "fp32", "complex128": "fp64"}


@backend("roofline")
class Roofline(Backend):
    """One GPU, timed by its roofline.

    The peak is that of the first operand's element type.  Give the peaks of all types in use.

    Parameters
    ----------
    bandwidth : MemoryRate
        Of its memory, as the datasheet has it.
    peak_fp64, peak_fp32, peak_tf32, peak_fp16, peak_bf16, peak_fp8, peak_int8 : FlopRate or None
        Dense peaks, as the datasheet has them; None refuses ops of that type.
    efficiency : Ratio
        Share of a peak that large kernels reach.
    efficiency_fp8 : Ratio or None
        The same for fp8, whose operands are scaled first; None for ``efficiency``.
    memory_efficiency : Ratio
        Share of ``bandwidth`` that large kernels reach.
    cache, cache_bandwidth : Chunk, MemoryRate, or None
        Ops that move no more bytes than this do so at this sustained rate; None: no cache.
    launch : Seconds
        Cost of any kernel, however small.
    launch_fp8 : Seconds or None
        The same for fp8, with the kernel that scales the first operand of a product, whose bytes
        then come on top; None for ``launch`` and operands that are scaled.
    exposed : Ratio
        Share of the shorter of arithmetic and memory that the longer does not hide.
    join : Seconds
        For each doubling of what a product sums: sums are shared out among threads and joined.
    tile_processors : int
        Multiprocessors that products of fp8 keep in whole tiles (see ``tiles_flop``), none of
        which is shared out; 0 for arithmetic that is spread evenly.
    tf32 : bool
        fp32 matrix products run on tensor cores.
    shared : bool
        Kernels use their GPU's ``hbm``, so that copies and kernels slow each other.

    Examples
    --------
    >>> gpu = Roofline(peak_bf16=1e12, bandwidth=1e9, launch=1e-6)
    >>> ops = Ops.of(flop=[0, 2e6], bytes=1000, signature=0, signatures=("compute:mm bf16[4x8]",))
    >>> gpu.timing(ops).fixed.round(9).tolist()
    [2e-06, 3e-06]
    """

    uniform = True

    def __init__(
        self,
        *,
        bandwidth: MemoryRate,
        peak_fp64: FlopRate | None = None,
        peak_fp32: FlopRate | None = None,
        peak_tf32: FlopRate | None = None,
        peak_fp16: FlopRate | None = None,
        peak_bf16: FlopRate | None = None,
        peak_fp8: FlopRate | None = None,
        peak_int8: FlopRate | None = None,
        efficiency: Ratio = 1.0,
        efficiency_fp8: Ratio | None = None,
        memory_efficiency: Ratio = 1.0,
        cache: Chunk | None = None,
        cache_bandwidth: MemoryRate | None = None,
        launch: Seconds = 0.0,
        launch_fp8: Seconds | None = None,
        exposed: Ratio = 0.0,
        join: Seconds = 0.0,
        tile_processors: int = 0,
        tf32: bool = False,
        shared: bool = False,
    ):
        stated = {
            "fp64": peak_fp64, "fp32": peak_tf32 if tf32 else peak_fp32, "tf32": peak_tf32,
            "fp16": peak_fp16, "bf16": peak_bf16, "fp8": peak_fp8, "int8": peak_int8,
        }  # fmt: skip
        own = {"fp8": efficiency if efficiency_fp8 is None else efficiency_fp8}
        self.peaks = {t: p * own.get(t, efficiency) for t, p in stated.items() if p is not None}
        self.sustained = bandwidth * memory_efficiency
        if (cache is None) != (cache_bandwidth is None):
            raise BackendError("roofline: a cache has a size and a rate; give both or neither")
        self.cache, self.cache_bandwidth = cache or 0.0, cache_bandwidth or self.sustained
        self.launch, self.shared = launch, shared
        self.launch_fp8 = launch if launch_fp8 is None else launch_fp8
        self.scales = launch_fp8 is not None
        self.exposed, self.join, self.tile_processors = exposed, join, tile_processors
        self._hbm: dict[int, int] = {}
        self.source = (
            f"model:roofline bandwidth={bandwidth:.4g} B/s launch={launch:.4g} s "
            f"efficiency={efficiency:.3g} memory_efficiency={memory_efficiency:.3g}"
        )

    def open(self, system: System) -> None:
        """Look up each GPU's memory (``hbm``)."""
        gpus = [system.number(g) for g in system.gpus]
        self._hbm = {g: system.part(g, "hbm") for g in gpus if system.part(g, "hbm") >= 0}

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """(n,) whether flop, bytes and the peak of its element type are known."""
        flop = np.where((ops.kind == Kind.COPY) & np.isnan(ops.flop), 0.0, ops.flop)
        peaks = np.array([t in self.peaks for t in _types(ops)] + [False])[ops.signature]
        return np.asarray((flop >= 0) & (ops.bytes >= 0) & (peaks | (flop == 0)))

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Launch, then the slower of arithmetic and memory, plus the exposed share of the other."""
        copies = ops.kind == Kind.COPY
        ops = ops.replace(flop=np.where(copies & np.isnan(ops.flop), 0.0, ops.flop))
        require(ops, "flop", "bytes")
        rate = np.where(ops.bytes <= self.cache, self.cache_bandwidth, self.sustained)
        launch, filled = self._products(ops)
        arithmetic, memory = ops.flop * filled / self._peak(ops), ops.bytes / rate
        busy = np.maximum(arithmetic, memory) + self.exposed * np.minimum(arithmetic, memory)
        if not self.shared:
            return Timing.of(launch + busy)
        return self._flow(ops, launch, busy)

    def _products(self, ops: Ops) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(n,) s of launch, and (n,) factor by which whole tiles exceed the arithmetic."""
        rows = [self._product(text) for text in ops.signatures]
        table = np.array([*rows, (self.launch, 1.0)])[ops.signature]
        return table[:, 0], table[:, 1]

    def _product(self, text: str) -> tuple[float, float]:
        """Launch seconds and tile factor of one signature."""
        parts = parse(text)
        shape, fp8 = product(parts), COMPUTED_AS.get(parts.dtype, parts.dtype) == "fp8"
        launch = self.launch_fp8 if fp8 else self.launch
        if shape is None or not math.prod(shape):
            return launch, 1.0
        if not fp8:
            return launch + self.join * math.log2(max(shape.k / SHORT, 1.0)), 1.0
        if self.scales:
            launch += SCALING * shape.batch * shape.m * shape.k / self.sustained
        if not self.tile_processors:
            return launch, 1.0
        return launch, tiles_flop(shape, self.tile_processors) / (2.0 * math.prod(shape))

    def _peak(self, ops: Ops) -> NDArray[np.float64]:
        """(n,) flop/s; infinite where there is no arithmetic."""
        types = _types(ops)
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

    def _flow(self, ops: Ops, launch: NDArray[np.float64], busy: NDArray[np.float64]) -> Timing:
        """Timing with the bytes as work on the GPU's memory, rate-limited by the roofline."""
        shape = [] if ops.at is None else ops.at.component.tolist()
        memory = [self._hbm.get(g, -1) for g in shape]
        if -1 in memory or not shape:
            raise BackendError(
                "roofline: 'shared' needs GPUs with an hbm; give the system their parts, "
                "or set shared: false"
            )
        limit = np.divide(ops.bytes, busy, out=np.full(len(ops), np.inf), where=busy > 0)
        idle = ops.bytes == 0  # arithmetic alone moves nothing
        fixed = launch + np.where(idle, busy, 0.0)
        usage = Usage(
            np.arange(len(ops) + 1, dtype=np.int64), np.array(memory, np.int32), np.ones(len(ops))
        )
        return Timing.of(fixed, ops.bytes, usage, np.where(idle, np.inf, limit))


def _types(ops: Ops) -> list[str]:
    """Element type that each signature computes in."""
    types = [parse(s).dtype for s in ops.signatures]
    return [COMPUTED_AS.get(t, t) for t in types]
