"""The shared-rate medium, compiled: weighted max-min over everything an op uses at once.

An op in its work phase is a *flow*.  This is the plain form: every change fills all components
again.  Kernels take the state ``state`` of a :class:`~.sharing_state.Sharing`.
"""

from __future__ import annotations

import numpy as np

from ..machine import ONE
from .jit import Int, jit
from .sharing_state import (
    CAP,
    COMPONENT,
    COUNT,
    FLOWS,
    LEFT_HI,
    LEFT_LO,
    LEVEL,
    LIMIT,
    ON,
    RATE,
    REST_HI,
    REST_LO,
    SINCE,
    START,
    WEIGHT,
    WIDTH,
    Array,
)
from .wide import MAX, add, div, mul, sub

State = tuple[Array, Array, Array, Array]


@jit
def join(s: State, f: Int, now: Int) -> None:
    """The flow enters its work phase with its stored work left; it has a rate from `settle` on."""
    parts, flows, uses, _ = s
    flows[f, ON] = 1
    flows[f, SINCE] = now
    flows[f, RATE] = 0
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        parts[uses[u, COMPONENT], FLOWS] += 1


@jit
def leave(s: State, f: Int, now: Int) -> None:
    """Progress is booked and the work left is stored."""
    parts, flows, uses, _ = s
    _book(flows, f, now)
    flows[f, ON] = 0
    flows[f, RATE] = 0
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        parts[uses[u, COMPONENT], FLOWS] -= 1


@jit
def set_rate(s: State, c: Int, rate: Int) -> None:
    """Change a component's rate, from the next `settle` on."""
    s[0][c, CAP] = rate


@jit
def settle(s: State, now: Int) -> None:
    """Once a turn, after its last round: rates are computed, flows keep their progress."""
    parts, flows, uses, _ = s
    for c in range(len(parts)):
        parts[c, LEVEL] = -1
        parts[c, REST_HI], parts[c, REST_LO] = mul(parts[c, CAP], np.int64(ONE))
        parts[c, WIDTH] = 0
    todo = 0
    for f in range(len(flows)):
        if flows[f, ON]:
            _book(flows, f, now)
            flows[f, RATE] = -1
            todo += 1
            for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
                parts[uses[u, COMPONENT], WIDTH] += uses[u, WEIGHT]
    while todo:
        todo -= _freeze(parts, flows, uses)


@jit
def _freeze(parts: Array, flows: Array, uses: Array) -> Int:
    """Stop every flow on every component of the lowest level; how many there were."""
    lowest = MAX
    for c in range(len(parts)):
        if parts[c, WIDTH]:
            lowest = min(lowest, div(parts[c, REST_HI], parts[c, REST_LO], parts[c, WIDTH]))
    for f in range(len(flows)):
        if flows[f, ON] and flows[f, RATE] < 0 and flows[f, LIMIT] >= 0:
            lowest = min(lowest, flows[f, LIMIT])
    for c in range(len(parts)):
        if parts[c, WIDTH] and lowest == div(parts[c, REST_HI], parts[c, REST_LO], parts[c, WIDTH]):
            parts[c, LEVEL] = lowest
    done = 0
    for f in range(len(flows)):
        if flows[f, ON] and flows[f, RATE] < 0 and _is_full(parts, flows, uses, f, lowest):
            flows[f, RATE] = lowest
            done += 1
    for f in range(len(flows)):
        if flows[f, ON] and flows[f, RATE] == lowest:
            for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
                c = uses[u, COMPONENT]
                if parts[c, WIDTH]:
                    hi, lo = mul(uses[u, WEIGHT], lowest)
                    hi, lo = sub(parts[c, REST_HI], parts[c, REST_LO], hi, lo)
                    parts[c, REST_HI], parts[c, REST_LO] = hi, lo
                    parts[c, WIDTH] -= uses[u, WEIGHT]
    return done


@jit
def _is_full(parts: Array, flows: Array, uses: Array, f: Int, lowest: Int) -> bool:
    """Whether something that the flow uses is full at this level."""
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        if parts[uses[u, COMPONENT], LEVEL] == lowest:
            return True
    return bool(flows[f, LIMIT] == lowest)


@jit
def _book(flows: Array, f: Int, now: Int) -> None:
    """Subtract what was done since the flow was last looked at."""
    hi, lo = mul(flows[f, RATE], now - flows[f, SINCE])
    hi, lo = sub(flows[f, LEFT_HI], flows[f, LEFT_LO], hi, lo)
    if hi < 0:
        hi, lo = np.int64(0), np.int64(0)
    flows[f, LEFT_HI], flows[f, LEFT_LO] = hi, lo
    flows[f, SINCE] = now


@jit
def _end(flows: Array, f: Int) -> Int:
    """The first tick at which the flow's work is done, MAX for never."""
    hi, lo = flows[f, LEFT_HI], flows[f, LEFT_LO]
    if hi == 0 and lo == 0:
        return flows[f, SINCE]
    if flows[f, RATE] == 0:
        return MAX
    hi, lo = add(hi, lo, np.int64(0), flows[f, RATE] - 1)
    ticks = div(hi, lo, flows[f, RATE])
    if ticks >= MAX - flows[f, SINCE]:
        return MAX
    return flows[f, SINCE] + ticks


@jit
def due(s: State) -> Int:
    """The tick of the earliest completion; MAX when there is none within the range."""
    flows = s[1]
    first = MAX
    for f in range(len(flows)):
        if flows[f, ON]:
            first = min(first, _end(flows, f))
    return first


@jit
def take_due(s: State, now: Int, out: Array) -> Int:
    """Flows whose work is done at ``now`` leave; their numbers, ascending; how many."""
    flows = s[1]
    n = 0
    for f in range(len(flows)):
        if flows[f, ON] and _end(flows, f) <= now:
            out[n] = f
            n += 1
    for i in range(n):
        leave(s, out[i], now)
    return n


@jit
def put(s: State, f: Int, hi: Int, lo: Int) -> None:
    """Replace the work left of a flow that is not in flight."""
    s[1][f, LEFT_HI], s[1][f, LEFT_LO] = hi, lo


@jit
def rate(s: State, f: Int) -> Int:
    """Rate of a flow in flight as the last `settle` left it."""
    return s[1][f, RATE]


@jit
def left(s: State, f: Int) -> tuple[Int, Int]:
    """Stored work left of a flow that is not in flight: high and low word."""
    return s[1][f, LEFT_HI], s[1][f, LEFT_LO]


@jit
def in_flight(s: State, f: Int) -> bool:
    """Whether the flow has joined."""
    return bool(s[1][f, ON] != 0)


@jit
def level(s: State, c: Int) -> Int:
    """Level of a full component, -1 where it is not full."""
    return int(s[0][c, LEVEL])


@jit
def users(s: State, c: Int) -> Int:
    """Flows in flight that use a component."""
    return int(s[0][c, FLOWS])
