"""Small graphs and component tables in engine units, written by hand for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..facts.eviction.rule import EvictionRule
from .interface import NO_LIMIT, Claims, ComponentTable, EngineGraph, Flows, OnlineTiming


class LiteralOp(NamedTuple):
    """Description of one op in engine units.

    Parameters
    ----------
    places : for each member: the component whose slots it queues for (-1 for none), and the numbers
        of the ops that it waits for
    usage : (component, weight in 2^-40) for each component whose rate it shares
    holds : (component, amount, until) for each capacity that it holds; ``until`` is the number of
        the op whose end releases the amount, -1 for none
    online : number of the online backend that times it, -1 for none; an odd number also declares
        its usage
    """

    places: tuple[tuple[int, tuple[int, ...]], ...] = ((-1, ()),)
    fixed: int = 0
    work: int = 0
    usage: tuple[tuple[int, int], ...] = ()
    limit: int = NO_LIMIT
    release: int = 0
    online: int = -1
    holds: tuple[tuple[int, int, int], ...] = ()


def literal_components(
    slots: tuple[int, ...],
    rates: tuple[int, ...],
    units: tuple[str, ...] = (),
    capacity: tuple[int, ...] = (),
    stores: Mapping[int, type[EvictionRule]] | None = None,
) -> ComponentTable:
    """Component table from plain tuples; every rate may be raised up to 2^58.

    Examples
    --------
    >>> literal_components((1, -1), (-1, 10)).names
    ('c0', 'c1')
    """
    rate = np.array(rates, np.int64)
    return ComponentTable(
        tuple(f"c{i}" for i in range(len(slots))),
        np.array(slots, np.int32),
        rate,
        np.where(rate >= 0, 2**58 - 1, -1),
        units,
        np.array(capacity, np.int64),
        stores=stores or {},
    )


def literal_graph(
    name: str, cases: Sequence[LiteralOp], backends: Sequence[OnlineTiming] = ()
) -> EngineGraph:
    """Engine graph from a list of literal ops.

    Examples
    --------
    >>> graph = literal_graph("pair", [LiteralOp(fixed=2), LiteralOp(((-1, (0,)), (3, ())))])
    >>> graph.slot.tolist(), graph.further.tolist(), graph.successors.tolist()
    ([-1, -1, 3], [1], [1])
    """
    n = len(cases)
    further = [(i, p) for i, c in enumerate(cases) for p in c.places[1:]]
    slot = [c.places[0][0] for c in cases] + [p[0] for _, p in further]
    pairs = [(d, i) for i, c in enumerate(cases) for d in c.places[0][1]]
    pairs += [(d, n + j) for j, (_, p) in enumerate(further) for d in p[1]]
    pairs = sorted(set(pairs))
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount([d for d, _ in pairs], minlength=n)[:n], out=indptr[1:])
    release = [c.release for c in cases]
    online = [c.online for c in cases]
    return EngineGraph(
        name,
        np.array([i for i, _ in further], np.int32),
        np.array(slot, np.int32),
        indptr,
        np.array([p for _, p in pairs], np.int32),
        np.array(release if any(release) else [], np.int64),
        np.array([0 if c.online >= 0 else c.fixed for c in cases], np.int64),
        _flows_of_cases(cases),
        np.array(online if any(b >= 0 for b in online) else [], np.int16),
        tuple(backends),
        _claims_of_cases(cases),
    )


def _claims_of_cases(cases: Sequence[LiteralOp]) -> Claims:
    rows = [(i, *hold) for i, case in enumerate(cases) for hold in case.holds]
    op, component, amount, until = zip(*rows, strict=True) if rows else ((),) * 4
    return Claims(
        np.array(op, np.int32),
        np.array(component, np.int32),
        np.array(amount, np.int64),
        np.array(until, np.int32),
    )


def _flows_of_cases(cases: Sequence[LiteralOp]) -> Flows:
    rows = [
        (i, c)
        for i, c in enumerate(cases)
        if (c.usage or c.limit != NO_LIMIT) and (c.online < 0 or c.online % 2)
    ]
    work = [0 if c.online >= 0 else c.work for _, c in rows]
    return Flows(
        np.array([i for i, _ in rows], np.int32),
        np.array([w >> 64 for w in work], np.int64),
        np.array([w & (2**64 - 1) for w in work], np.uint64),
        np.array([c.limit for _, c in rows], np.int64),
        np.cumsum([0, *(len(c.usage) for _, c in rows)]).astype(np.int64),
        np.array([u for _, c in rows for u, _ in c.usage], np.int32),
        np.array([w for _, c in rows for _, w in c.usage], np.int64),
    )
