"""A processor by families of ops: each has a start, and costs of what its ops ask for.

The costs add up: an operand is packed before it is multiplied, a row begun before it is summed.
Bytes that do not fit a cache cost more, by the share that does not fit: a line with a bend, so
that there is no jump where an op just does not fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Backend, Timing, backend
from ...sim.errors import BackendError
from ...sim.ops import Ops, require
from ...sim.system import System
from .caches import Caches
from .demand import Demand, demand, family, op_name

FORM = "foretrace-families"
RATES = ("flop_rate", "ragged_rate", "clash_rate", "byte_rate", "rate_beyond", "cache")
COSTS = ("launch", "piece")
BY_OP = ("factors", "launches")
UNSURE = 0.15  # of the held-out median: what is told with its name
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FittedLine:
    """Fitted duration of the ops of one family, as costs that add up.

    Parameters
    ----------
    launch : s
    piece : s of each inner loop
    flop_rate : flop/s; infinite for ops that only move bytes
    ragged_rate : 1/s of the flop, or numbers, that fill no vector, on top
    clash_rate : 1/s of numbers whose line of the cache is lost too early, on top
    byte_rate : B/s of all bytes
    rate_beyond : B/s of the share that does not fit the cache, on top
    cache : B
    factors : by op, how much longer all but its start takes than the family's line says
    launches : by op, its start where it is not the family's, s
    wrong : relative error of the median op that was held out of the fit; NaN for unknown
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
    def of(cls, told: Mapping[str, Any]) -> FittedLine:
        """From parameters by name; a rate or cache that is absent or 0 bounds nothing.

        >>> FittedLine.of({"launch": 1e-6, "byte_rate": 1e9, "flop_rate": None}).flop_rate
        inf
        """
        known: dict[str, Any] = {n: float(told.get(n) or np.inf) for n in RATES}
        known |= {n: float(told.get(n) or 0.0) for n in COSTS}
        known |= {n: told.get(n) or {} for n in BY_OP}
        return cls(**known, wrong=float(told.get("wrong", np.nan)))

    def seconds(self, asked: Floats, factor: Floats | float = 1.0, launch: Any = None) -> Floats:
        """(n,) s.

        Parameters
        ----------
        asked : (n, 6) of each op, as ``Demand`` has it
        factor : of each op, as in ``factors``
        launch : of each op, s; the family's unless given

        Examples
        --------
        >>> line = FittedLine(1e-6, byte_rate=1e9, rate_beyond=1e9, cache=1e3)
        >>> asked = np.array([[0, 1e3, 1e3, 0, 0, 0], [0, 3e3, 3e3, 0, 0, 0]])
        >>> line.seconds(asked).round(9).tolist()
        [2e-06, 6e-06]
        """
        flop, bytes, footprint, pieces, ragged, clash = asked.T
        missed = np.maximum(1.0 - self.cache / np.maximum(footprint, 1.0), 0.0)
        moving = bytes / self.byte_rate + bytes * missed / self.rate_beyond
        working = flop / self.flop_rate + ragged / self.ragged_rate + pieces * self.piece
        working = working + clash / self.clash_rate
        begin = self.launch if launch is None else launch
        return np.asarray(begin + factor * (moving + working))

    def one(self, signature: str, asked: Demand) -> float:
        """Seconds of one op."""
        name = op_name(signature)
        begin = self.launches.get(name, self.launch)
        return float(self.seconds(np.array([asked]), self.factors.get(name, 1.0), begin)[0])


@backend("families")
class Families(Backend):
    """A processor, by fitted families of ops; ops are told by their signatures.

    Parameters
    ----------
    file : str
        As ``foretrace fit`` writes it.
    others : str
        What to do with ops of other families: ``refuse``, or ``recorded``, which lets them last as
        the trace has them; the source then says what share of the time that is.
    caches : str
        ``alone``: each op finds what it needs near the core.  ``step``: it finds what those before
        it on its component left, in the order of the rows; the file has to say what caches cost.
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
        """From lines at hand.

        >>> cpu = Families.of({"memory": FittedLine(byte_rate=2e9)})
        >>> cpu.timing(Ops.of(signature=0, signatures=("copy:h2h uint8[1000]",))).fixed.tolist()
        [1e-06]
        """
        made = cls(file="")
        made._lines = dict(lines)
        return made

    def open(self, system: System) -> None:
        """Read the file."""
        if self._lines:
            return
        try:
            with open(self.file) as lines:
                told: dict[str, Any] = json.load(lines)
            if told["form"] != FORM:
                raise ValueError(f"its form is {told['form']!r}")
            self._lines = {name: FittedLine.of(one) for name, one in told["families"].items()}
            self.source = f"fitted: {told['source']}"
            self._costs = Caches.of(told["caches"]) if told.get("caches") else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackendError(
                f"{self.file}: holds no families of ops ({error}); make it with 'foretrace fit'"
            ) from error
        if self.caches == "step" and self._costs is None:
            raise BackendError(
                f"{self.file}: does not say what caches cost; fit it with --caches, or take "
                "caches: alone"
            )

    def doubts(self) -> dict[str, tuple[Families, Families]]:
        """What may be wrong: the same slower and quicker, for each family and for the caches.

        Ops of one family are all wrong alike, by what the fit missed of what it had not seen.  What
        is found in the caches lies between what an op alone finds and what those before it left.

        >>> cpu = Families.of({"memory": FittedLine(byte_rate=2e9, wrong=0.1)})
        >>> ops = Ops.of(signature=0, signatures=("copy:h2h uint8[1000]",))
        >>> slower, quicker = cpu.doubts()["memory"]
        >>> slower.timing(ops).fixed.tolist(), cpu.timing(ops).fixed.tolist()
        ([1.1e-06], [1e-06])
        """
        found = {
            name: (self._other(name, 1 + line.wrong), self._other(name, 1 / (1 + line.wrong)))
            for name, line in self._lines.items()
            if line.wrong > 0
        }
        if self._costs is not None:
            found["caches"] = self._other(caches="step"), self._other(caches="alone")
        return found

    def _other(self, name: str = "", factor: float = 1.0, caches: str = "") -> Families:
        """The same where ops of one family take that many times as long, or find other caches."""
        made = Families.of(self._lines)
        made.others, made.source = self.others, self.source
        made.caches, made._costs = caches or self.caches, self._costs
        made._factors = {name: factor}
        return made

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Each distinct op once; the source says what is recorded, and what is not well known."""
        told = [
            None if s < 0 else self._seconds(ops.signatures[s], flop)
            for s, flop in zip(ops.signature.tolist(), ops.flop.tolist(), strict=True)
        ]
        mine = np.array([t is not None for t in told], bool)
        if self.others == "refuse" and not mine.all():
            row = int(np.argmin(mine))
            what = ops.signature_text(row) or ops.kind_names[row]
            raise BackendError(
                f"op {row} ({what}): of no family that was fitted ({', '.join(self._lines)}); "
                "measure some and fit them, or set others: recorded"
            )
        seconds = np.array([t or 0.0 for t in told])
        if self._costs is not None and self.caches == "step":
            seconds = seconds + _in_order(self._costs, ops)
        if not mine.all():
            require(ops.take(np.flatnonzero(~mine)), "duration")
            seconds = np.where(mine, seconds, ops.duration)
        return Timing.of(seconds, source="; ".join([self.source, *self._said(ops, seconds, mine)]))

    def _said(self, ops: Ops, seconds: Floats, mine: NDArray[np.bool_]) -> list[str]:
        """What share of the time is as recorded, and what of families that are not well known."""
        whole = max(float(seconds.sum()), 1e-30)
        said = [] if mine.all() else [f"{seconds[~mine].sum() / whole:.1%} of the time as recorded"]
        unsure = {n: line.wrong for n, line in self._lines.items() if line.wrong > UNSURE}
        kind = np.array([family(s) if s else "" for s in (*ops.signatures, "")])[ops.signature]
        shares = {n: float(seconds[mine & (kind == n)].sum()) for n in unsure}
        found = [f"{n} +-{unsure[n]:.0%}" for n, share in shares.items() if share]
        if found:
            said.append(f"{sum(shares.values()) / whole:.1%} interpolated: {', '.join(found)}")
        return said

    def _seconds(self, signature: str, flop: float) -> float | None:
        """Seconds of one op; None for a family that was not fitted.

        A trace may know the flop of an op better than its signature does (strides).
        """
        key = (signature, flop if flop > 0 else 0.0)
        if key not in self._known:
            line = self._lines.get(family(signature))
            if line is None:
                return None
            asked = demand(signature)
            told = asked._replace(flop=flop) if flop > 0 else asked
            factor = self._factors.get(family(signature), 1.0)
            self._known[key] = factor * line.one(signature, told)
        return self._known[key]


def _in_order(costs: Caches, ops: Ops) -> Floats:
    """(n,) s that each op takes for what those before it on its component left in the caches."""
    where = np.zeros(len(ops)) if ops.at is None else np.asarray(ops.at.component)
    found = np.zeros(len(ops))
    for one in np.unique(where).tolist():
        rows = np.flatnonzero((where == one) & (ops.signature >= 0))
        found[rows] = costs.extra([ops.signatures[s] for s in ops.signature[rows].tolist()])
    return found
