"""Processor model with one linear model per op family: a start-up time plus costs of the demand.

Costs are added. Bytes beyond the cache size have an extra cost in proportion to the fraction that
does not fit, so that the time is continuous in the size.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import BackendError
from ...sim.facts.backend import Backend, Timing, backend
from ...sim.facts.ops import Ops, require
from ...sim.facts.system import System
from ..value_doubts import range_from_median_error
from .caches import Caches
from .demand import Demand, demand, family, op_name

FORM = "foretrace-families"
RATES = ("flop_rate", "ragged_rate", "clash_rate", "byte_rate", "rate_beyond", "cache")
COSTS = ("launch", "piece")
BY_OP = ("factors", "launches")
UNCERTAIN = 0.15  # larger median held-out errors are listed in the source
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FittedLine:
    """Linear model of op time for one op family.

    Parameters
    ----------
    launch : start-up time of each op, in s
    piece : time per inner loop, in s
    flop_rate : flop/s; infinite for ops that only move bytes
    ragged_rate : amount of ``Demand.ragged`` that costs one second of extra time
    clash_rate : amount of ``Demand.clash`` that costs one second of extra time
    byte_rate : rate of all bytes, in B/s
    rate_beyond : rate in B/s at which bytes that do not fit the cache cost extra time
    cache : cache size in B
    factors : factor on all costs but start-up, by op name
    launches : start-up time in s of ops that differ from their family, by op name
    wrong : median relative error on held-out ops; NaN if unknown
    """

    launch: float = 0.0
    piece: float = 0.0
    flop_rate: float = np.inf
    ragged_rate: float = np.inf
    clash_rate: float = np.inf
    byte_rate: float = np.inf
    rate_beyond: float = np.inf
    cache: float = np.inf
    factors: Mapping[str, float] = field(default_factory=dict)
    launches: Mapping[str, float] = field(default_factory=dict)
    wrong: float = np.nan

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> FittedLine:
        """Build from parameters by name; a rate or cache that is absent or zero becomes infinite.

        >>> FittedLine.of({"launch": 1e-6, "byte_rate": 1e9, "flop_rate": None}).flop_rate
        inf
        """
        known: dict[str, Any] = {n: float(data.get(n) or np.inf) for n in RATES}
        known |= {n: float(data.get(n) or 0.0) for n in COSTS}
        known |= {n: data.get(n) or {} for n in BY_OP}
        return cls(**known, wrong=float(data.get("wrong", np.nan)))

    def with_memory(self, costs: Caches) -> FittedLine:
        """Copy in which bytes beyond the cache also cost time, at the memory rate of ``costs``.

        The model itself if its fit already has such a rate, or if its family does arithmetic.

        >>> costs = Caches([(2**18, 0.0), (2**22, 1e-8)], {}, 0.0, 1e9)
        >>> FittedLine(byte_rate=1e10).with_memory(costs).rate_beyond
        1000000000.0
        """
        if np.isfinite(self.rate_beyond) or np.isfinite(self.flop_rate):
            return self
        return replace(self, cache=costs.capacity, rate_beyond=costs.rate)

    def seconds(self, demands: Floats, factor: Floats | float = 1.0, launch: Any = None) -> Floats:
        """Time of ops with these demands in s, shape (n,): start-up plus the sum of all costs.

        All bytes cost ``byte_rate``; the fraction ``1 - cache / footprint`` that misses also costs
        ``rate_beyond``. Flop, loops, remainders and conflict misses have costs of their own.

        Parameters
        ----------
        demands : (n, 6) one ``Demand`` per row
        factor : factor of each op on all costs but start-up
        launch : start-up time of each op in s; default: that of the family

        Examples
        --------
        >>> line = FittedLine(1e-6, byte_rate=1e9, rate_beyond=5e8, cache=1e3)
        >>> demands = np.array([[0, 1e3, 1e3, 0, 0, 0], [0, 3e3, 3e3, 0, 0, 0]])
        >>> line.seconds(demands).round(9).tolist()  # 1 + 1, and 1 + 3 + 2000 / 500
        [2e-06, 8e-06]
        """
        flop, bytes, footprint, pieces, ragged, clash = demands.T
        missed = np.maximum(1.0 - self.cache / np.maximum(footprint, 1.0), 0.0)
        moving = bytes / self.byte_rate + bytes * missed / self.rate_beyond
        working = flop / self.flop_rate + ragged / self.ragged_rate + pieces * self.piece
        working = working + clash / self.clash_rate
        begin = self.launch if launch is None else launch
        return np.asarray(begin + factor * (moving + working))

    def op_seconds(self, signature: str, demands: Demand) -> float:
        """Time of one op in s, with its own factor and start-up time."""
        name = op_name(signature)
        begin = self.launches.get(name, self.launch)
        return float(self.seconds(np.array([demands]), self.factors.get(name, 1.0), begin)[0])


@backend("families")
class Families(Backend):
    """Processor backend that times ops with fitted linear models, one per op family.

    Parameters
    ----------
    file : str
        File of fitted models, as ``foretrace fit`` writes it.
    others : str
        Handling of ops of other families: ``refuse``, or ``recorded``, which keeps their recorded
        durations; the source then states their fraction of the time.
    caches : str
        ``alone``: warm caches for every op. ``step``: cache contents depend on the previous ops of
        the component, in row order; the file must contain cache costs.
    """

    def __init__(self, *, file: str, others: str = "refuse", caches: str = "alone"):
        if others not in ("refuse", "recorded"):
            raise BackendError(f"families: others is {others!r}; take 'refuse' or 'recorded'")
        if caches not in ("alone", "step"):
            raise BackendError(f"families: caches is {caches!r}; take 'alone' or 'step'")
        self.file, self.others, self.caches = file, others, caches
        self._costs: Caches | None = None
        self.source = "fitted: families of ops"
        self._lines: dict[str, FittedLine] = {}
        self._known: dict[tuple[str, float], float] = {}
        self._factors: dict[str, float] = {}

    @classmethod
    def of(cls, lines: Mapping[str, FittedLine]) -> Families:
        """Backend with models in memory, by family.

        >>> cpu = Families.of({"memory": FittedLine(byte_rate=2e9)})
        >>> cpu.timing(Ops.of(signature=0, signatures=("copy:h2h uint8[1000]",))).fixed.tolist()
        [1e-06]
        """
        other = cls(file="")
        other._lines = dict(lines)
        return other

    def open(self, system: System) -> None:
        """Read the fitted families from their file."""
        if self._lines:
            return
        try:
            with open(self.file) as lines:
                data: dict[str, Any] = json.load(lines)
            if data["form"] != FORM:
                raise ValueError(f"its form is {data['form']!r}, not {FORM!r}")
            self._lines = {name: FittedLine.of(one) for name, one in data["families"].items()}
            self.source = f"fitted: {data['source']}"
            self._costs = Caches.of(data["caches"]) if data.get("caches") else None
            if self._costs is not None:
                costs = self._costs
                self._lines = {n: line.with_memory(costs) for n, line in self._lines.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackendError(
                f"{self.file}: has no fitted op families ({error}); write it with 'foretrace fit'"
            ) from error
        if self.caches == "step" and self._costs is None:
            raise BackendError(
                f"{self.file}: has no cache costs; fit it with --caches, or write caches: alone"
            )

    def doubts(self) -> dict[str, tuple[Families, Families]]:
        """Sources of uncertainty: for each name, a slower and a faster variant of this backend.

        Errors within a family are treated as fully correlated. The variants scale the family to the
        ends of its 90 % interval, which follows from its median held-out error. For ``caches`` the
        variants are the modes ``step`` and ``alone``.

        >>> cpu = Families.of({"memory": FittedLine(byte_rate=2e9, wrong=0.1)})
        >>> ops = Ops.of(signature=0, signatures=("copy:h2h uint8[1000]",))
        >>> slower, quicker = cpu.doubts()["memory"]
        >>> slower.timing(ops).fixed.round(9).tolist(), cpu.timing(ops).fixed.tolist()
        ([1.28e-06], [1e-06])
        """
        ends = {
            n: range_from_median_error(line.wrong)
            for n, line in self._lines.items()
            if line.wrong > 0
        }
        variants = {
            name: (self._scaled_copy(name, exp(slow)), self._scaled_copy(name, exp(quick)))
            for name, (quick, slow) in ends.items()
        }
        if self._costs is not None:
            variants["caches"] = self._scaled_copy(caches="step"), self._scaled_copy(caches="alone")
        return variants

    def _scaled_copy(self, name: str = "", factor: float = 1.0, caches: str = "") -> Families:
        """Copy with one family's times multiplied by ``factor``, or with another cache mode."""
        other = Families.of(self._lines)
        other.others, other.source = self.others, self.source
        other.caches, other._costs = caches or self.caches, self._costs
        other._factors = {name: factor}
        return other

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """Mask of ops with a fitted family, or that may keep their recorded duration."""
        fitted = [family(s) in self._lines for s in ops.signatures]
        known = np.array([*fitted, False])[ops.signature]
        return known | (~np.isnan(ops.duration) & (self.others == "recorded"))

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Time of each op; the source states the fractions that are recorded or uncertain."""
        data = [
            None if s < 0 else self._op_seconds(ops.signatures[s], flop)
            for s, flop in zip(ops.signature.tolist(), ops.flop.tolist(), strict=True)
        ]
        fitted = np.array([t is not None for t in data], bool)
        if self.others == "refuse" and not fitted.all():
            row = int(np.argmin(fitted))
            what = ops.signature_text(row) or ops.kind_names[row]
            raise BackendError(
                f"op {row} ({what}): its family was not fitted (fitted: {', '.join(self._lines)}); "
                "measure and fit it, or set others: recorded"
            )
        seconds = np.array([t or 0.0 for t in data])
        if self._costs is not None and self.caches == "step":
            seconds = seconds + _cache_miss_seconds_in_order(self._costs, ops)
        if not fitted.all():
            require(ops.take(np.flatnonzero(~fitted)), "duration")
            seconds = np.where(fitted, seconds, ops.duration)
        return Timing.of(
            seconds, source="; ".join([self.source, *self._source_notes(ops, seconds, fitted)])
        )

    def _source_notes(self, ops: Ops, seconds: Floats, fitted: NDArray[np.bool_]) -> list[str]:
        """Notes for the source: fractions of the time that are recorded or uncertain."""
        whole = max(float(seconds.sum()), 1e-30)
        notes = (
            []
            if fitted.all()
            else [f"{seconds[~fitted].sum() / whole:.1%} of the time as recorded"]
        )
        uncertain = {n: line.wrong for n, line in self._lines.items() if line.wrong > UNCERTAIN}
        kind = np.array([family(s) if s else "" for s in (*ops.signatures, "")])[ops.signature]
        shares = {n: float(seconds[fitted & (kind == n)].sum()) for n in uncertain}
        variants = [f"{n} +-{uncertain[n]:.0%}" for n, share in shares.items() if share]
        if variants:
            notes.append(f"{sum(shares.values()) / whole:.1%} interpolated: {', '.join(variants)}")
        return notes

    def _op_seconds(self, signature: str, flop: float) -> float | None:
        """Time of one op in s; None if its family was not fitted.

        A positive ``flop`` from the trace overrides that of the signature, which may lack strides.
        """
        key = (signature, flop if flop > 0 else 0.0)
        if key not in self._known:
            line = self._lines.get(family(signature))
            if line is None:
                return None
            demands = demand(signature)
            data = demands._replace(flop=flop) if flop > 0 else demands
            factor = self._factors.get(family(signature), 1.0)
            self._known[key] = factor * line.op_seconds(signature, data)
        return self._known[key]


def _cache_miss_seconds_in_order(costs: Caches, ops: Ops) -> Floats:
    """Cache-miss time in s of each op after earlier ops of its component, shape (n,)."""
    where = np.zeros(len(ops)) if ops.at is None else np.asarray(ops.at.component)
    variants = np.zeros(len(ops))
    for one in np.unique(where).tolist():
        rows = np.flatnonzero((where == one) & (ops.signature >= 0))
        variants[rows] = costs.miss_seconds(
            [ops.signatures[s] for s in ops.signature[rows].tolist()]
        )
    return variants
