"""Settings of a GPU's roofline that belong together: peaks, matrix products, caches, the chip."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ...sim.units import Chunk, FlopRate, Hertz, MemoryRate, Ratio, Seconds


@dataclass(frozen=True)
class Peaks:
    """Dense peaks of a GPU by element type, as its datasheet has them.

    A type without a peak is one whose ops are refused.

    Parameters
    ----------
    fp64, fp32 : FlopRate or None
        Peaks of doubles and of floats.
    tf32 : FlopRate or None
        Peak of fp32 on tensor cores; that of ``fp32`` unless said.
    fp16, bf16 : FlopRate or None
        Peaks of types of 16 bits.
    fp8, fp4, int8 : FlopRate or None
        Peaks of types of at most 8 bits.
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
        """Peaks that are known by element type.

        Parameters
        ----------
        tf32 : whether fp32 runs on tensor cores

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
    """GEMMs of fp8, whose operands are scaled first.

    Parameters
    ----------
    efficiency : Ratio or None
        Share of the fp8 peak that large kernels reach; that of other types unless said.
    launch : Seconds or None
        Launch cost of a kernel of fp8, with the kernel that scales the first operand of a GEMM,
        whose bytes are added.  Unless said, the launch cost of any kernel, and operands are scaled
        already.  A GEMM that says ``quantized=1`` has scaled operands and the usual launch cost.
    tile_processors : int
        Multiprocessors that a GEMM fills with whole tiles (see ``tiles_flop``); 0 for arithmetic
        that is spread evenly.
    """

    efficiency: Ratio | None = None
    launch: Seconds | None = None
    tile_processors: int = 0


@dataclass(frozen=True)
class Fp4Gemm:
    """GEMMs of fp4.

    No table of measured fp4 GEMMs was available, so they have the doubt of an unfitted roofline.

    Parameters
    ----------
    efficiency : Ratio or None
        Share of the fp4 peak that large kernels reach; that of fp8 unless said.
    """

    efficiency: Ratio | None = None


@dataclass(frozen=True)
class Gemm:
    """Costs of matrix products (GEMMs).

    Parameters
    ----------
    join : Seconds
        Time added for each doubling of the summed dimension: sums are split among threads and
        joined.
    cold : Seconds
        Cold-start penalty of a GEMM whose code and operands are no longer cached, because other
        kernels ran since the last one like it.
    unaligned : Ratio
        Slowdown of a GEMM on tensor cores where rows of an operand do not begin at multiples of
        16 B, so that they are loaded in small pieces.
    odd : Ratio or None
        Slowdown where they do not begin at multiples of 4 B either: libraries take programs of
        older GPUs.  That of ``unaligned`` unless said.
    tf32 : bool
        fp32 GEMMs run on tensor cores.
    sustained : Ratio or None
        Share of the peaks of fp16 and bf16 that long GEMMs reach, whose power lowers the clock.
        Unless said, the same share as short ones.
    burst : Seconds
        Time saved at the start of a GEMM loop, before the power limit lowers the clock.  Only with
        ``caches: alone``: in a step, kernels follow one another.
    fp8 : Fp8Gemm
        GEMMs of fp8.
    fp4 : Fp4Gemm
        GEMMs of fp4.
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
        """Share of the peak of an element type that large kernels reach.

        >>> Gemm(fp8=Fp8Gemm(efficiency=0.5)).efficiency("fp4", usual=0.8)
        0.5
        """
        own = [self.fp4.efficiency] * (dtype == "fp4")
        own += [self.fp8.efficiency] * (dtype in ("fp8", "fp4"))
        return next((e for e in own if e is not None), usual)


@dataclass(frozen=True)
class CacheRoof:
    """A cache: a higher roof for ops whose bytes fit it.

    Parameters
    ----------
    size : Chunk or None
        Most bytes of an op that are moved at the rate of the cache; none unless said.
    bandwidth : MemoryRate or None
        Sustained rate of the cache.
    """

    size: Chunk | None = None
    bandwidth: MemoryRate | None = None


@dataclass(frozen=True)
class Chip:
    """Datasheet of the chip, which times of kernel families are counted in.

    Parameters
    ----------
    processors : int
        Multiprocessors or compute units.
    clock : Hertz or None
        Highest clock of the multiprocessors.
    cache : Chunk or None
        Size of the last-level cache that they share.
    """

    processors: int = 0
    clock: Hertz | None = None
    cache: Chunk | None = None
