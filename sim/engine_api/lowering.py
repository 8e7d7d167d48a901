"""Lowering of placed and timed graphs to integers: the only place where values are rounded.

Rates are integers in units of 2^-K work units per second. K is chosen once per run and unit: the
largest value, up to 48, for which every component's ``max_rate`` stays below 2^58. Engine rates
must stay below 2^62, so weights down to 1/16 are possible.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..errors import UNBOUNDED, BackendError, GraphError, RangeError
from ..facts.backend import Timing, Usage
from ..facts.eviction.rule import EvictionRule
from ..facts.flat_graph import FlatGraph
from ..facts.system import System
from ..units import Seconds, ticks, ticks_per_second
from .interface import (
    MOST_WEIGHT,
    NO_CLAIMS,
    NO_LIMIT,
    ONE,
    Answer,
    Claims,
    ComponentTable,
    EngineGraph,
    Flows,
    OnlineTiming,
)
from .medium_api import Medium, bind_medium
from .queue_table import queue_table

log = logging.getLogger(__name__)

MAX_SCALE = 48
APART = 1e6  # ratio of weights on one component above which precision is lost
ROOM = 2.0**58  # upper bound of every component's `max_rate`, in rate units


def scale_exponents_by_unit(system: System) -> dict[str, int]:
    """Scale exponent K of each unit: rates in that unit are integers in 2^-K.

    Raises
    ------
    GraphError
        A rate is 2^58 units per second or more.

    Examples
    --------
    >>> from foretrace.sim.facts.system import Component
    >>> parts = (Component("nic", "nic", rate=25e9), Component("gpu", "gpu", slots=1))
    >>> scale_exponents_by_unit(System(parts))
    {'B': 19}
    """
    tops: dict[str, float] = {}
    for c in system.components.parts:
        if c.rate is not None:
            tops[c.unit] = max(tops.get(c.unit, 0.0), c.top)
    found = {}
    for unit, top in tops.items():
        if not top < ROOM:
            raise GraphError(
                "overflow",
                f"a rate of {top:g} {unit}/s is too high for the engine; use a larger unit than "
                f"{unit!r}",
            )
        k = MAX_SCALE
        while k and np.ldexp(top, k) >= ROOM:
            k -= 1
        found[unit] = k
    return found


def component_table(
    system: System, scale: Mapping[str, int], media: Mapping[str, Medium] | None = None
) -> ComponentTable:
    """Component table of a system, in the engine's integer units."""
    medium, plugged = bind_medium(system, media or {})
    parts = system.components

    def in_units(rate: float | None, unit: str) -> int:
        return -1 if rate is None else rate_units(rate, scale.get(unit, 0))

    return ComponentTable(
        parts.names,
        parts.column(lambda c: -1 if c.slots is None else c.slots, np.int32),
        parts.column(lambda c: in_units(c.rate, c.unit), np.int64),
        parts.column(lambda c: in_units(None if c.rate is None else c.top, c.unit), np.int64),
        parts.column(lambda c: c.unit, object),
        _whole_capacities(system),
        medium,
        plugged if medium is not None else np.empty(0, np.bool_),
        _rules_of_stores(system),
        queue_table(system),
    )


def _whole_capacities(system: System) -> NDArray[np.int64]:
    """Total of each component's capacity, -1 for none; empty if no component has one."""
    if all(part.capacity is None for part in system.components.parts):
        return np.empty(0, np.int64)
    return system.components.column(lambda c: -1 if c.total is None else c.total, np.int64)


def _rules_of_stores(system: System) -> dict[int, type[EvictionRule]]:
    """Eviction rule of each component that is a store."""
    parts = system.components
    numbers = np.flatnonzero(parts.column(lambda c: c.store is not None, bool)).tolist()
    return {c: store.rule for c in numbers if (store := parts[c].store)}


def rate_units(rate: float, k: int) -> int:
    """Convert a rate to units of 2^-k, rounded half to even.

    >>> rate_units(3.0, 2)
    12
    """
    return int(np.rint(np.ldexp(rate, k)))


def work_units(
    work: NDArray[np.float64],
    k: NDArray[np.int64],
    per_second: int,
    op: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Convert work to rate units x ticks, as 128-bit integers (high word, low word).

    Parameters
    ----------
    work : (n,) in the component's own unit
    k : (n,) scale exponent of each unit: one unit of work is 2^k rate units x s
    per_second : ticks in a second
    op : (n,) op numbers for error messages; None for row numbers

    Raises
    ------
    BackendError
        Work does not fit in 127 bits.

    Examples
    --------
    >>> hi, lo = work_units(np.array([3.0, 1e18]), np.array([1, 20]), 10**12)
    >>> [(int(h) << 64) + int(l) == w * 10**12 for h, l, w in zip(hi, lo, (6, 10**18 << 20))]
    [True, True]
    """
    with np.errstate(over="ignore"):  # infinite work is refused below
        left = np.rint(np.ldexp(work, k))
        beyond = np.any(left * float(per_second) >= 2.0**127)
    if beyond:
        row = int(np.argmax(left))
        name = row if op is None else int(op[row])
        raise BackendError(f"op {name}: work {work[row]:g} does not fit in 127 bits; split the op")
    hi, lo = np.zeros(len(left), np.int64), np.zeros(len(left), np.uint64)
    shift = 0
    while np.any(left):
        rest = np.floor(left / 2.0**20)
        limb = ((left - rest * 2.0**20).astype(np.int64) * per_second).astype(np.uint64)
        low = limb << np.uint64(shift) if shift < 64 else np.zeros_like(limb)
        hi += _high_bits(limb, shift)
        lo = lo + low
        hi += (lo < low).astype(np.int64)  # the carry
        left, shift = rest, shift + 20
    return hi, lo


def _high_bits(limb: NDArray[np.uint64], shift: int) -> NDArray[np.int64]:
    """Bits of ``limb << shift`` above the low 64 bits."""
    if shift == 0:
        return np.zeros(len(limb), np.int64)
    moved = limb >> np.uint64(64 - shift) if shift < 64 else limb << np.uint64(shift - 64)
    return moved.astype(np.int64)


def lower(
    name: str,
    block: FlatGraph,
    timing: Timing,
    system: System,
    scale: Mapping[str, int],
    tick: Seconds,
    online: NDArray[np.int16] | None = None,
    backends: tuple[OnlineTiming, ...] = (),
) -> EngineGraph:
    """Engine graph from one flat graph and its op timings.

    Parameters
    ----------
    timing : Timing
        One row per op; its usage is explicit (not None if there is work).

    Raises
    ------
    GraphError
        The graph is not placed. (The engine detects dependency cycles.)
    BackendError
        An op uses a component without a rate, uses several units, or has work without a bound.
    """
    if block.slot is None:
        raise GraphError(
            "unplaced", f"graph {name!r} is not placed on a system; call place() first"
        )
    if timing.usage is not None:
        warn_of_weights(name, timing.usage, system)
    release = ticks_from_seconds(block.release, tick)
    return EngineGraph(
        name,
        block.places.op,
        block.slot,
        block.successors.indptr,
        block.successors.values,
        release if np.any(release) else np.empty(0, np.int64),
        ticks_from_seconds(timing.fixed, tick),
        lower_flows(timing, system, scale, tick, online),
        np.empty(0, np.int16) if online is None else online,
        backends,
        lower_claims(timing),
    )


def ticks_from_seconds(
    times: NDArray[np.float64], tick: Seconds, rows: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Convert op times in s to ticks.

    Raises
    ------
    BackendError
        A time does not fit into ticks; the message names the op.
    """
    try:
        return ticks(times, tick)
    except RangeError as error:
        row = int(np.argmax(np.where(np.isnan(times), np.inf, np.abs(times))))
        raise BackendError(f"op {row if rows is None else rows[row]}: {error}") from error


def lower_claims(timing: Timing) -> Claims:
    """Capacity claims of ops in engine form, from their timings."""
    holds = timing.holds
    if holds is None:
        return NO_CLAIMS
    op = np.repeat(np.arange(len(holds), dtype=np.int32), np.diff(holds.indptr))
    return Claims(op, holds.component, holds.amount.astype(np.int64), holds.until)


def warn_of_weights(name: str, usage: Usage, system: System) -> None:
    """Log a warning if the weights on one component differ by more than a million."""
    if usage.weight.max(initial=0.0) <= APART * usage.weight.min(initial=np.inf):
        return  # then so on each component
    least = np.full(len(system.components), np.inf)
    most = np.zeros(len(system.components))
    np.minimum.at(least, usage.component, usage.weight)
    np.maximum.at(most, usage.component, usage.weight)
    for c in np.flatnonzero(most > APART * least).tolist():
        log.warning(
            "graph %r: weights on %s range from %g to %g; a ratio above a million loses precision: "
            "give the small weights a component of their own",
            name, system.components[c].name, least[c], most[c],
        )  # fmt: skip


def lower_flows(
    timing: Timing,
    system: System,
    scale: Mapping[str, int],
    tick: Seconds,
    online: NDArray[np.int16] | None = None,
    rows: NDArray[np.int64] | None = None,
) -> Flows:
    """Flows of the ops that share rates or have a limit; ``rows`` numbers ops in error messages."""
    n = len(timing)
    row_names = np.arange(n) if rows is None else rows
    if timing.work is None and timing.usage is None and timing.limit is None:
        return Flows.none()
    work = np.zeros(n) if timing.work is None else timing.work
    usage = merge_repeated_components(timing.usage or Usage.repeated([], n), system)
    limit = np.full(n, np.inf) if timing.limit is None else timing.limit
    uses = np.diff(usage.indptr)
    asked = np.zeros(n, bool) if online is None else online >= 0
    free = np.flatnonzero((work > 0) & (uses == 0) & np.isinf(limit) & ~asked)
    if len(free):
        raise BackendError(f"op {row_names[free[0]]}: {UNBOUNDED}")
    op = np.flatnonzero((uses > 0) | np.isfinite(limit))
    k = np.where(
        uses[op] > 0, _scale_of(op, usage, system, scale, row_names), scale_of_limit(limit[op])
    )
    hi, lo = work_units(work[op], k, ticks_per_second(tick), row_names[op])
    weight = weight_units(usage.weight)
    for bad in np.flatnonzero(weight == 0).tolist():
        who = int(np.searchsorted(usage.indptr, bad, "right")) - 1
        name = system.components[usage.component[bad]].name
        raise BackendError(f"op {row_names[who]}: {why_weight_refused(name, usage.weight[bad])}")
    indptr = np.zeros(len(op) + 1, np.int64)
    np.cumsum(uses[op], out=indptr[1:])
    return Flows(
        op.astype(np.int32), hi, lo, _rate_limits(limit[op], k), indptr, usage.component, weight,
    )  # fmt: skip


def merge_repeated_components(usage: Usage, system: System) -> Usage:
    """Usage with each component once per op; weights of repeated ones are added.

    >>> from foretrace.sim.facts.system import Component
    >>> wire = System((Component("wire", "link", rate=1e9),))
    >>> merge_repeated_components(Usage.repeated([0, 0], 2, 0.5), wire).weight.tolist()
    [1.0, 1.0]
    """
    if np.diff(usage.indptr).max(initial=0) < 2:
        return usage
    row = np.repeat(np.arange(len(usage)), np.diff(usage.indptr))
    key = row * len(system.components) + usage.component
    if np.all(np.diff(key) > 0) or np.all(np.diff(np.sort(key)) > 0):
        return usage
    once, at = np.unique(key, return_inverse=True)
    row, component = np.divmod(once, len(system.components))
    indptr = np.searchsorted(row, np.arange(len(usage) + 1)).astype(np.int64)
    weight = np.bincount(at.ravel(), usage.weight, len(once))
    return Usage(indptr, component.astype(np.int32), np.asarray(weight, np.float64))


def weight_units(weight: NDArray[np.float64]) -> NDArray[np.int64]:
    """Convert weights to units of 2^-40, rounded half to even; 0 for a weight out of range.

    >>> weight_units(np.array([1.0, 2.0**22, 1e-13, np.nan])).tolist()
    [1099511627776, 0, 0, 0]
    """
    with np.errstate(over="ignore"):  # an infinite weight is out of range
        units = np.rint(np.asarray(weight, np.float64) * ONE)
    return np.where((units >= 1) & (units < MOST_WEIGHT), units, 0).astype(np.int64)


def why_weight_refused(name: str, weight: float) -> str:
    """Part of an error message that explains why a weight on a component is out of range."""
    return (
        f"the weight on {name} is {weight:g}; it must be at least 2^-40 and below 2^22: give "
        f"{name} "
        "and the work another unit, or leave the use out"
    )


def _rate_limits(limit: NDArray[np.float64], k: NDArray[np.int64]) -> NDArray[np.int64]:
    """Convert rate limits to rate units, capped below 2^62."""
    finite = np.isfinite(limit)
    units = np.full(len(limit), NO_LIMIT, np.int64)
    with np.errstate(over="ignore"):  # it is capped
        exact = np.rint(np.ldexp(limit[finite], k[finite]))
    units[finite] = np.minimum(exact, np.nextafter(2.0**62, 0)).astype(np.int64)
    return units


def scale_of_limit(limit: NDArray[np.float64]) -> NDArray[np.int64]:
    """Scale exponent K (rate units are 2^-K) of flows that have a rate limit but use no component.

    >>> scale_of_limit(np.array([0.5, 1e9, 1e15])).tolist()
    [48, 28, 8]
    """
    _, exponent = np.frexp(limit)
    return np.asarray(np.clip(58 - exponent, 0, MAX_SCALE), np.int64)


def _scale_of(
    op: NDArray[np.int64],
    usage: Usage,
    system: System,
    scale: Mapping[str, int],
    row_names: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Scale exponent K of each flow; all components of a flow must have one unit."""
    index, units = system.rate_units
    number = index[usage.component]
    of_op = np.full(len(usage), -1, np.int64)
    row = np.repeat(np.arange(len(usage)), np.diff(usage.indptr))
    of_op[row] = number
    mixed = np.flatnonzero(of_op[row] != number)
    if len(mixed):
        c = system.components[usage.component[mixed[0]]]
        raise BackendError(
            f"op {row_names[row[mixed[0]]]}: uses {c.name} ({c.unit}) and a component of another "
            "unit; split it into two ops"
        )
    unrated = number == (units.index("") if "" in units else -1)
    if np.any(unrated):
        at = int(np.argmax(unrated))
        c = system.components[usage.component[at]]
        raise BackendError(
            f"op {row_names[row[at]]}: {c.name} is shared as a rate, but has no rate; give it "
            "one, or use another component"
        )
    k_of = np.array([scale.get(u, MAX_SCALE) for u in units], np.int64)
    return np.where(of_op[op] >= 0, k_of[of_op[op]], MAX_SCALE)


def lower_answers(
    timing: Timing,
    system: System,
    scale: Mapping[str, int],
    tick: Seconds,
    rows: NDArray[np.int64] | None = None,
) -> list[Answer]:
    """Engine form of an online backend's timings, per op; ``rows`` numbers ops in errors.

    Raises
    ------
    BackendError
        The timings contain amounts to hold, which must be known before an op starts.
    """
    if timing.holds is not None and len(timing.holds.component):
        raise BackendError(
            f"{system.components[timing.holds.component[0]].name}: an online backend returned "
            "amounts to hold; they are needed before the op starts: set online = False"
        )
    fixed = ticks_from_seconds(timing.fixed, tick, rows)
    shared = lower_flows(timing, system, scale, tick, rows=rows)
    found = [Answer(int(f), 0, {}) for f in fixed]
    for i, op in enumerate(shared.op.tolist()):
        found[op] = Answer(int(fixed[op]), shared.work(i), shared.usage(i), int(shared.limit[i]))
    return found
