"""A processor by families of ops: each has a start, a rate of arithmetic, and costs of its bytes.

Bytes beyond a cache cost more: a line with a bend, so that there is no jump where an op just does
not fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.backend import Backend, Timing, backend
from ...sim.errors import BackendError
from ...sim.ops import Ops
from ...sim.system import System
from .demand import demand, family

FORM = "foretrace-families"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """How long ops of one family take.

    Parameters
    ----------
    launch : s
    flop_rate : flop/s; infinite for ops that only move bytes
    byte_rate : B/s of all bytes
    rate_beyond : B/s of what does not fit the cache, on top
    cache : B
    """

    launch: float = 0.0
    flop_rate: float = np.inf
    byte_rate: float = np.inf
    rate_beyond: float = np.inf
    cache: float = np.inf

    @classmethod
    def of(cls, told: Mapping[str, float | None]) -> Line:
        """From parameters by name; a rate or cache that is absent or 0 bounds nothing.

        >>> Line.of({"launch": 1e-6, "byte_rate": 1e9, "flop_rate": None}).flop_rate
        inf
        """
        return cls(**{name: told[name] or (0.0 if name == "launch" else np.inf)
                      for name in cls.__dataclass_fields__ if name in told})  # fmt: skip

    def seconds(self, flop: Floats, bytes: Floats) -> Floats:
        """(n,) s.

        >>> line = Line(1e-6, byte_rate=1e9, rate_beyond=1e9, cache=1e3)
        >>> line.seconds(np.zeros(2), np.array([1e3, 3e3])).round(9).tolist()
        [2e-06, 6e-06]
        """
        beyond = np.maximum(bytes - self.cache, 0.0) / self.rate_beyond
        moving = bytes / self.byte_rate + beyond
        return np.asarray(self.launch + np.maximum(flop / self.flop_rate, moving))


@backend("families")
class Families(Backend):
    """A processor, by fitted families of ops; ops are told by their signatures.

    Parameters
    ----------
    file : str
        As ``foretrace fit`` writes it.
    """

    def __init__(self, *, file: str):
        self.file = file
        self.source = "fitted: families of ops"
        self._lines: dict[str, Line] = {}

    @classmethod
    def of(cls, lines: Mapping[str, Line]) -> Families:
        """From lines at hand.

        >>> cpu = Families.of({"memory": Line(byte_rate=2e9)})
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
            self._lines = {name: Line.of(one) for name, one in told["families"].items()}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BackendError(
                f"{self.file}: holds no families of ops ({error}); make it with 'foretrace fit'"
            ) from error
        self.source = f"fitted: {told['source']}"

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Each distinct signature once."""
        used = np.unique(ops.signature)
        if len(used) and used[0] < 0:
            row = int(np.argmin(ops.signature))
            raise BackendError(f"op {row} ({ops.kind_names[row]}): has no signature to tell it by")
        seconds = np.full(len(ops.signatures), np.nan)
        for s in used.tolist():
            seconds[s] = self._seconds(ops.signatures[s])
        return Timing.of(seconds[ops.signature])

    def _seconds(self, signature: str) -> float:
        name = family(signature)
        if name not in self._lines:
            raise BackendError(
                f"{signature!r}: nothing of the family '{name}' was fitted, only "
                f"{', '.join(self._lines)}; measure some, or bind 'table'"
            )
        flop, moved = demand(signature)
        found = self._lines[name].seconds(np.array([flop]), np.array([moved]))
        return float(found[0])
