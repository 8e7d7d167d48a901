"""Setting groups of a GPU roofline: peaks, GEMMs, caches, the chip."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ...sim.units import Chunk, FlopRate, Hertz, MemoryRate, Ratio, Seconds


@dataclass(frozen=True)
class Peaks:
    """Dense peak rates of a GPU by element type, from its datasheet.

    Ops in an element type without a peak are refused.

    Parameters
    ----------
    fp64, fp32 : FlopRate or None
        Peak rates for fp64 and fp32.
    tf32 : FlopRate or None
        Peak rate of fp32 GEMMs on tensor cores; default: that of ``fp32``.
    fp16, bf16 : FlopRate or None
        Peak rates of 16-bit types.
    fp8, fp4, int8 : FlopRate or None
        Peak rates of types with at most 8 bits.
    """

    fp64: FlopRate | None = None
    fp32: FlopRate | None = None
    tf32: FlopRate | None = None
    fp16: FlopRate | None = None
    bf16: FlopRate | None = None
    fp8: FlopRate | None = None
    fp4: FlopRate | None = None
    int8: FlopRate | None = None

    def known(self, tf32: bool) -> dict[str, FlopRate]:
        """Known peak rates by element type.

        Parameters
        ----------
        tf32 : True if fp32 GEMMs run on tensor cores

        Examples
        --------
        >>> Peaks(fp32=1e12, bf16=4e12).known(tf32=False)
        {'fp32': 1000000000000.0, 'tf32': 1000000000000.0, 'bf16': 4000000000000.0}
        """
        found = asdict(self) | {
            "fp32": self.tf32 if tf32 else self.fp32,
            "tf32": self.fp32 if self.tf32 is None else self.tf32,
        }
        return {t: p for t, p in found.items() if p is not None}


@dataclass(frozen=True)
class Fp8Gemm:
    """Costs of fp8 GEMMs, whose operands are quantized first.

    Parameters
    ----------
    efficiency : Ratio or None
        Fraction of the fp8 peak that large GEMMs reach. Default: that of other types.
    launch : Seconds or None
        Launch cost of an fp8 GEMM, including the kernel that quantizes its first operand, whose
        bytes are added. Default: the usual launch cost, with operands already quantized. A GEMM
        with ``quantized=1`` in its signature has quantized operands and the usual launch cost.
    tile_processors : int
        Number of multiprocessors that a GEMM occupies with complete tiles (see ``tiles_flop``); 0
        for perfectly even work.
    """

    efficiency: Ratio | None = None
    launch: Seconds | None = None
    tile_processors: int = 0


@dataclass(frozen=True)
class Fp4Gemm:
    """Costs of fp4 GEMMs.

    No measured fp4 GEMMs were available, so these have the error interval of an unfitted roofline.

    Parameters
    ----------
    efficiency : Ratio or None
        Fraction of the fp4 peak that large GEMMs reach. Default: that of fp8.
    """

    efficiency: Ratio | None = None


@dataclass(frozen=True)
class Gemm:
    """Costs of GEMMs.

    Parameters
    ----------
    join : Seconds
        Time added for each doubling of the summed dimension, because sums are split among threads
        and then combined.
    cold : Seconds
        Cold-start penalty of a GEMM whose code and operands are no longer cached, because other
        kernels ran since the last equal GEMM.
    unaligned : Ratio
        Slowdown factor of tensor-core GEMMs with operand rows that do not start at multiples of 16
        B.
    odd : Ratio or None
        Slowdown factor of GEMMs with rows that do not start at multiples of 4 B either; libraries
        then use kernels of older GPUs. Default: that of ``unaligned``.
    tf32 : bool
        True if fp32 GEMMs run on tensor cores.
    sustained : Ratio or None
        Fraction of the fp16 and bf16 peaks that long GEMMs reach under the power limit, which
        lowers the clock. Default: that of short GEMMs.
    burst : Seconds
        Time saved at the start of a GEMM loop, before the power limit lowers the clock. Used only
        with ``caches: alone``, since the kernels of a step follow each other without idle time.
    fp8 : Fp8Gemm
        Costs of fp8 GEMMs.
    fp4 : Fp4Gemm
        Costs of fp4 GEMMs.
    """

    join: Seconds = 0.0
    cold: Seconds = 0.0
    unaligned: Ratio = 1.0
    odd: Ratio | None = None
    tf32: bool = False
    sustained: Ratio | None = None
    burst: Seconds = 0.0
    fp8: Fp8Gemm = Fp8Gemm()
    fp4: Fp4Gemm = Fp4Gemm()

    def efficiency(self, dtype: str, usual: Ratio) -> Ratio:
        """Fraction of the peak of an element type that large GEMMs reach.

        >>> Gemm(fp8=Fp8Gemm(efficiency=0.5)).efficiency("fp4", usual=0.8)
        0.5
        """
        own = [self.fp4.efficiency] * (dtype == "fp4")
        own += [self.fp8.efficiency] * (dtype in ("fp8", "fp4"))
        return next((e for e in own if e is not None), usual)


@dataclass(frozen=True)
class CacheRoof:
    """Cache roof of a roofline: a higher rate for ops whose bytes fit into the cache.

    Parameters
    ----------
    size : Chunk or None
        Largest number of bytes of an op that move at cache rate. Default: no cache.
    bandwidth : MemoryRate or None
        Sustained bandwidth of the cache.
    """

    size: Chunk | None = None
    bandwidth: MemoryRate | None = None


@dataclass(frozen=True)
class Chip:
    """Datasheet values of the chip, in which the times of kernel families are expressed.

    Parameters
    ----------
    processors : int
        Number of multiprocessors or compute units.
    clock : Hertz or None
        Maximum clock of the multiprocessors.
    cache : Chunk or None
        Size of the last-level cache that all multiprocessors share.
    """

    processors: int = 0
    clock: Hertz | None = None
    cache: Chunk | None = None
