"""Lowering of single ops with Python scalars: the same integers as :mod:`.lowering`, in less time.

It serves submissions whose numbers are new each time, where a table has few rows. Anything unusual
is left to :mod:`.lowering`, which also raises the errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import frexp, inf, ldexp
from typing import NamedTuple

from ..facts.system import System
from ..units import Seconds, ticks_per_second
from .interface import NO_LIMIT, ONE, ComponentTable
from .lowering import MAX_SCALE
from .validation import FASTEST

OpUsage = tuple[tuple[int, float], ...]  # (component, weight) for each component that an op uses

TOP_LIMIT = 2**62 - 512  # highest rate limit: the last float below 2^62
MOST_TICKS, MOST_WORK_BITS = 2.0**62, 126  # beyond, the table is lowered, which checks the range
SAFE_RATE = 0.98 * FASTEST
LEAST_WEIGHT, MOST_WEIGHT = 2.0**-39, 2.0**21  # likewise
MOST_KNOWN = 65_536  # size of the cache of usages; then it is cleared
UNKNOWN, NOT_ASKED = -1, -2


class OpIntegers(NamedTuple):
    """Ticks, work (high and low word) and rate limit of an op, in engine integers."""

    ticks: int
    work_hi: int = 0
    work_lo: int = 0
    rate_limit: int = NO_LIMIT


class RowLowering:
    """Converts the numbers of single ops to engine integers.

    Parameters
    ----------
    parts : table of all components
    system : components of the machine
    scale : scale exponent K of each unit: rates in that unit are integers in 2^-K
    tick : length of a tick

    Examples
    --------
    >>> from foretrace.sim.engine_api.lowering import component_table
    >>> from foretrace.sim.facts.component import Component
    >>> wire = System((Component("wire", "link", rate=1e9),))
    >>> lowering = RowLowering(component_table(wire, {"B": 20}), wire, {"B": 20}, 1e-12)
    >>> lowering.integers(2e-6, 3.0, inf, ((0, 1.0),))
    OpIntegers(ticks=2000000, work_hi=0, work_lo=3145728000000000000, rate_limit=-1)
    """

    def __init__(
        self, parts: ComponentTable, system: System, scale: Mapping[str, int], tick: Seconds
    ):
        self._parts, self._system, self._scale = parts, system, scale
        self._per_second = ticks_per_second(tick)
        self._known: dict[OpUsage, int] = {}

    def integers(
        self, fixed: float, work: float, limit: float, usage: OpUsage
    ) -> OpIntegers | None:
        """Ticks, work and limit of an op; None if the numbers need the checks of the table."""
        scaled = fixed * self._per_second
        if not (0 <= scaled < MOST_TICKS and 0 <= work < inf and limit >= 0):
            return None
        if usage:
            k = self._known.get(usage, NOT_ASKED)
            if k == NOT_ASKED:
                k = self._scale_of(usage)
            if k == UNKNOWN:
                return None
        elif limit == inf:
            return None if work else OpIntegers(round(scaled))
        else:
            k = min(max(58 - frexp(limit)[1], 0), MAX_SCALE)
        if work >= MOST_TICKS:
            return None
        units = round(ldexp(work, k)) * self._per_second
        most = _rate_limit(limit, k)
        if units >> MOST_WORK_BITS or (not usage and most >= SAFE_RATE):
            return None
        return OpIntegers(round(scaled), units >> 64, units & (2**64 - 1), most)

    def may_hold(self, held: Sequence[tuple[int, int, int]]) -> bool:
        """True if capacities have the amounts, given as (component, amount, until), of an op."""
        total: dict[int, int] = {}
        for component, amount, until in held:
            if amount < 1 or until >= 0 or not 0 <= component < len(self._parts):
                return False
            total[component] = total.get(component, 0) + amount
        return all(amount <= self._parts.capacity_of(c) for c, amount in total.items())

    def _scale_of(self, usage: OpUsage) -> int:
        """Scale exponent of a usage, or UNKNOWN if the table has to be lowered; it is cached."""
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[usage] = k = self._find_scale(usage)
        return k

    def _find_scale(self, usage: OpUsage) -> int:
        parts, components = self._parts, self._system.components
        units, bound = set(), inf
        for c, weight in usage:
            if not (0 <= c < len(parts) and LEAST_WEIGHT <= weight <= MOST_WEIGHT):
                return UNKNOWN
            if components[c].rate is None or parts.is_plugged((c,)):
                return UNKNOWN
            units.add(components[c].unit)
            bound = min(bound, float(parts.top[c]) * (ONE / round(weight * ONE)))
        repeated = len({c for c, _ in usage}) < len(usage)
        if repeated or len(units) > 1 or not bound < SAFE_RATE:
            return UNKNOWN
        return self._scale.get(units.pop(), MAX_SCALE)


def _rate_limit(limit: float, k: int) -> int:
    """Rate limit in units of 2^-k, below 2^62."""
    if limit == inf:
        return NO_LIMIT
    return TOP_LIMIT if limit >= MOST_TICKS else min(round(ldexp(limit, k)), TOP_LIMIT)
