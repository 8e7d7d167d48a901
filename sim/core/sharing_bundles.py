"""Flows that always run at one rate, as one: a bundle, with one clock for all of them.

A component that one flow uses alone is nothing but a limit of that flow.  So what a flow has in
common with others is the set of *shared* components it uses, and flows with equal sets and equal
limits run at one rate, whatever their weights and works.  Such flows are a *bundle*: levels are
computed over bundles, and a bundle has one clock, the exact integral of its rate.  A flow that
enters gets the tag ``clock + work left`` and is done when the clock reaches it, so a change of
rate costs the same for one flow as for ten thousand.

What a bundle takes of a shared component is a *cell*; cells lie in the use rows of one member,
the leader.
"""

from __future__ import annotations

import numpy as np

from ..machine import ONE
from .heap import ABSENT, BEFORE, NONE, insert, remove
from .jit import Int, lean
from .sharing_levels import queue
from .sharing_state import (
    BUCKET,
    BUNDLE,
    CAP,
    CEILING,
    CHAIN,
    CLOCK_HI,
    CLOCK_LO,
    COMPONENT,
    COUNT,
    DUE,
    FENCE,
    FIRST_DUE,
    FIRST_FREE,
    FIRST_TOUCHED,
    FRESH,
    HASH,
    HEAD,
    LAST_CELL,
    LEADER,
    LEVEL,
    LIMIT,
    LOAD_HI,
    LOAD_LO,
    MASK,
    NEXT_CELL,
    NEXT_TOUCHED,
    OPEN,
    OWNER,
    RATE,
    REACH,
    ROOT,
    SHARED,
    SINCE,
    SIZE,
    START,
    SUM,
    TAG_HI,
    TAG_LO,
    TOTAL,
    TOUCHED,
    WEIGHT,
    Array,
    State,
)
from .wide import add, div, mul, sub

EPOCH = -(2**62)  # high word of a new clock: tags of works up to 2^127 then fit
_BITS = (1 << 40) - 1


@lean
def attach(s: State, f: Int, now: Int) -> None:
    """The flow gets a bundle: the one of its kind, or a new one."""
    parts, flows, uses, bundles = s
    ceiling, fence, key = _kind(parts, flows, uses, f)
    b = _find(s, f, ceiling, fence, key)
    if b == 0:
        b = _found(s, f, ceiling, fence, key, now)
    else:
        _merge(s, f, b)
    advance(bundles, b, now)
    bundles[b, SIZE] += 1
    flows[f, BUNDLE] = b
    flows[f, TAG_HI], flows[f, TAG_LO] = add(
        bundles[b, CLOCK_HI],
        bundles[b, CLOCK_LO],
        flows[f, TAG_HI],
        flows[f, TAG_LO],
    )
    bundles[b, ROOT] = insert(flows, bundles[b, ROOT], f)
    touch(bundles, b)


@lean
def detach(s: State, f: Int, now: Int) -> None:
    """The flow leaves its bundle with its work left booked."""
    flows, bundles = s[1], s[3]
    b = flows[f, BUNDLE]
    advance(bundles, b, now)
    flows[f, TAG_HI], flows[f, TAG_LO] = left(s, f)
    bundles[b, ROOT] = remove(flows, bundles[b, ROOT], f)
    bundles[b, SIZE] -= 1
    flows[f, BUNDLE] = 0
    _take_back(s, f, b)
    touch(bundles, b)
    if bundles[b, SIZE] == 0:
        _dissolve(s, b)
    elif bundles[b, LEADER] == f:
        _hand_over(s, b, bundles[b, ROOT])


@lean
def left(s: State, f: Int) -> tuple[Int, Int]:
    """Work left of a flow when its bundle's clock was last read."""
    _, flows, _, bundles = s
    hi, lo = flows[f, TAG_HI], flows[f, TAG_LO]
    b = flows[f, BUNDLE]
    if b:
        hi, lo = sub(hi, lo, bundles[b, CLOCK_HI], bundles[b, CLOCK_LO])
        if hi < 0:  # done within the last tick
            return np.int64(0), np.int64(0)
    return hi, lo


@lean
def advance(bundles: Array, b: Int, now: Int) -> None:
    """Let the clock of a bundle reach now."""
    if now != bundles[b, SINCE]:
        hi, lo = mul(bundles[b, RATE], now - bundles[b, SINCE])
        hi, lo = add(bundles[b, CLOCK_HI], bundles[b, CLOCK_LO], hi, lo)
        bundles[b, CLOCK_HI], bundles[b, CLOCK_LO] = hi, lo
        bundles[b, SINCE] = now


@lean
def touch(bundles: Array, b: Int) -> None:
    """Have its rate and the end of its first flow computed when the turn settles."""
    if not bundles[b, TOUCHED]:
        bundles[b, TOUCHED] = 1
        bundles[b, NEXT_TOUCHED] = bundles[0, FIRST_TOUCHED]
        bundles[0, FIRST_TOUCHED] = b


@lean
def schedule(s: State, b: Int, now: Int) -> None:
    """Put the bundle where the end of its first flow belongs among what is due."""
    _, _, _, bundles = s
    tick = _end(s, b, now)
    if bundles[b, BEFORE] != ABSENT:
        if tick == bundles[b, DUE]:
            return
        bundles[0, FIRST_DUE] = remove(bundles, bundles[0, FIRST_DUE], b)
    if tick != NONE:
        bundles[b, DUE] = tick
        bundles[0, FIRST_DUE] = insert(bundles, bundles[0, FIRST_DUE], b)


@lean
def _end(s: State, b: Int, now: Int) -> Int:
    """First tick at which work of the bundle is done, NONE if there is none within the range."""
    bundles = s[3]
    advance(bundles, b, now)
    hi, lo = left(s, bundles[b, ROOT])
    if hi == 0 and lo == 0:
        return now
    rate = bundles[b, RATE]
    if rate == 0:
        return np.int64(NONE)
    hi, lo = sub(hi, lo, np.int64(0), np.int64(1))  # rounding up without going beyond 2^127
    ticks = div(hi, lo, rate)
    return np.int64(NONE) if ticks > OPEN - now - 1 else now + ticks + 1


@lean
def _kind(parts: Array, flows: Array, uses: Array, f: Int) -> tuple[Int, Int, Int]:
    """What limits and unshared components allow, the lowest fence, a hash of all and the shared."""
    ceiling, fence = flows[f, LIMIT], np.int64(OPEN)
    key = np.int64(0)
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        c = uses[u, COMPONENT]
        if parts[c, SHARED]:
            key = ((key * 1000003) & _BITS) + c
        elif parts[c, FENCE]:
            fence = min(fence, parts[c, FENCE])
        elif uses[u, WEIGHT] == ONE:
            ceiling = min(ceiling, parts[c, CAP])
        else:
            hi, lo = mul(parts[c, CAP], np.int64(ONE))
            ceiling = min(ceiling, div(hi, lo, uses[u, WEIGHT]))
    key = ((key * 1000003) & _BITS) ^ (ceiling & _BITS) ^ (ceiling >> 40)
    key = ((key * 1000003) & _BITS) ^ (fence >> 22)
    return ceiling, fence, key ^ (key >> 17)


@lean
def _find(s: State, f: Int, ceiling: Int, fence: Int, key: Int) -> Int:
    """The bundle of this kind, 0 when there is none."""
    bundles = s[3]
    b = bundles[key & bundles[0, MASK], BUCKET]
    while b:
        if (
            bundles[b, HASH] == key
            and bundles[b, CEILING] == ceiling
            and bundles[b, REACH] == fence
            and _same(s, f, bundles[b, LEADER])
        ):
            return b
        b = bundles[b, CHAIN]
    return np.int64(0)


@lean
def _shared(s: State, u: Int, end: Int) -> Int:
    """The first use from ``u`` on whose component is shared, or the end."""
    while u < end and not s[0][s[2][u, COMPONENT], SHARED]:
        u += 1
    return u


@lean
def _same(s: State, f: Int, g: Int) -> bool:
    """Whether two flows use the same shared components."""
    _, flows, uses, _ = s
    u, v = flows[f, START], flows[g, START]
    end_u, end_v = u + flows[f, COUNT], v + flows[g, COUNT]
    while True:
        u, v = _shared(s, u, end_u), _shared(s, v, end_v)
        if u == end_u or v == end_v:
            return bool(u == end_u and v == end_v)
        if uses[u, COMPONENT] != uses[v, COMPONENT]:
            return False
        u += 1
        v += 1


@lean
def _found(s: State, f: Int, ceiling: Int, fence: Int, key: Int, now: Int) -> Int:
    """A new bundle, led by the flow."""
    parts, flows, uses, bundles = s
    b = bundles[0, FIRST_FREE]
    if b:
        bundles[0, FIRST_FREE] = bundles[b, CHAIN]
    else:
        b = bundles[0, FRESH]
        bundles[0, FRESH] += 1
    bundles[b, RATE] = 0
    bundles[b, CLOCK_HI], bundles[b, CLOCK_LO] = EPOCH, 0
    bundles[b, SINCE] = now
    bundles[b, ROOT] = NONE
    bundles[b, LEADER], bundles[b, CEILING], bundles[b, HASH] = f, ceiling, key
    bundles[b, REACH] = fence
    at = key & bundles[0, MASK]
    bundles[b, CHAIN] = bundles[at, BUCKET]
    bundles[at, BUCKET] = b
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        c = uses[u, COMPONENT]
        if parts[c, SHARED]:
            parts[c, TOTAL] += uses[u, WEIGHT]
            uses[u, SUM], uses[u, OWNER] = uses[u, WEIGHT], b
            first = parts[c, HEAD]
            uses[u, LAST_CELL], uses[u, NEXT_CELL] = NONE, first
            if first != NONE:
                uses[first, LAST_CELL] = u
            parts[c, HEAD] = u
            queue(s, c)
    return b


@lean
def _merge(s: State, f: Int, b: Int) -> None:
    """The flow's weights join the cells of the bundle."""
    parts, flows, uses, bundles = s
    v, end_v = flows[bundles[b, LEADER], START], np.int64(OPEN)
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        c = uses[u, COMPONENT]
        if parts[c, SHARED]:
            v = _shared(s, v, end_v)
            parts[c, TOTAL] += uses[u, WEIGHT]
            uses[v, SUM] += uses[u, WEIGHT]
            queue(s, c)
            v += 1


@lean
def _take_back(s: State, f: Int, b: Int) -> None:
    """The flow's weights leave the cells of the bundle; a component that is full gets queued."""
    parts, flows, uses, bundles = s
    v, end_v = flows[bundles[b, LEADER], START], np.int64(OPEN)
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        c, weight = uses[u, COMPONENT], uses[u, WEIGHT]
        if parts[c, SHARED]:
            v = _shared(s, v, end_v)
            parts[c, TOTAL] -= weight
            uses[v, SUM] -= weight
            if parts[c, LEVEL] != OPEN:
                queue(s, c)
            else:
                hi, lo = mul(weight, bundles[b, RATE])
                hi, lo = sub(parts[c, LOAD_HI], parts[c, LOAD_LO], hi, lo)
                parts[c, LOAD_HI], parts[c, LOAD_LO] = hi, lo
            v += 1


@lean
def _dissolve(s: State, b: Int) -> None:
    """A bundle without flows gives its row back."""
    parts, flows, uses, bundles = s
    f = bundles[b, LEADER]
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        c = uses[u, COMPONENT]
        if parts[c, SHARED]:
            last, after = uses[u, LAST_CELL], uses[u, NEXT_CELL]
            if last == NONE:
                parts[c, HEAD] = after
            else:
                uses[last, NEXT_CELL] = after
            if after != NONE:
                uses[after, LAST_CELL] = last
    at = bundles[b, HASH] & bundles[0, MASK]
    if bundles[at, BUCKET] == b:
        bundles[at, BUCKET] = bundles[b, CHAIN]
    else:
        at = bundles[at, BUCKET]
        while bundles[at, CHAIN] != b:
            at = bundles[at, CHAIN]
        bundles[at, CHAIN] = bundles[b, CHAIN]
    if bundles[b, BEFORE] != ABSENT:
        bundles[0, FIRST_DUE] = remove(bundles, bundles[0, FIRST_DUE], b)
    bundles[b, CHAIN] = bundles[0, FIRST_FREE]
    bundles[0, FIRST_FREE] = b


@lean
def _hand_over(s: State, b: Int, g: Int) -> None:
    """The cells move into the use rows of another member."""
    parts, flows, uses, bundles = s
    f = bundles[b, LEADER]
    bundles[b, LEADER] = g
    v, end_v = flows[g, START], np.int64(OPEN)
    for u in range(flows[f, START], flows[f, START] + flows[f, COUNT]):
        c = uses[u, COMPONENT]
        if parts[c, SHARED]:
            v = _shared(s, v, end_v)
            last, after = uses[u, LAST_CELL], uses[u, NEXT_CELL]
            uses[v, SUM], uses[v, OWNER] = uses[u, SUM], b
            uses[v, LAST_CELL], uses[v, NEXT_CELL] = last, after
            if last == NONE:
                parts[c, HEAD] = v
            else:
                uses[last, NEXT_CELL] = v
            if after != NONE:
                uses[after, LAST_CELL] = v
            v += 1
