"""Delays and gaps before ops that began later than they were ready, and returns of collectives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....sim.facts.ops import Kind
from ...column_table import Ints
from .rank_graph import NEVER, RankGraph

LONG = 1e-4  # s: shorter gaps are delays of a launch


def add_gaps(graph: RankGraph, launched: int, launch: Ints, lag: int) -> RankGraph:
    """Insert a delay, a gap or both before launched work that began later than it was ready.

    A delay is the usual launch time. A gap is the remaining time, which nothing explains.

    Parameters
    ----------
    launched : index of the first op that is launched work; earlier ops get no gaps
    launch : usual launch time of each launched op in ticks, shape (n - launched,)
    lag : median ticks between consecutive work on one stream
    """
    ready = graph.release.copy()
    np.maximum.at(ready, graph.target, graph.end[graph.source])
    late = np.maximum(graph.start - ready, 0)
    late[:launched] = 0
    late[ready == NEVER] = 0
    usual = np.full(len(late), lag)
    usual[launched:] = np.maximum(launch, lag)
    delay = np.minimum(late, usual)
    return _insert_gaps_and_delays(graph, ready, delay, late - delay)


def _insert_gaps_and_delays(graph: RankGraph, ready: Ints, delay: Ints, gap: Ints) -> RankGraph:
    """Insert a gap, then a delay, before each op; times in ticks, 0 inserts nothing."""
    n = len(graph.start)
    delays, gaps = np.flatnonzero(delay), np.flatnonzero(gap)
    delay_op, gap_op = np.full(n, -1), np.full(n, -1)
    delay_op[delays] = n + np.arange(len(delays))
    gap_op[gaps] = n + len(delays) + np.arange(len(gaps))
    head = np.where(gap_op >= 0, gap_op, np.where(delay_op >= 0, delay_op, np.arange(n)))
    both = np.flatnonzero((delay > 0) & (gap > 0))
    only_gap = np.setdiff1d(gaps, both)
    late = np.concatenate([delays, gaps])
    release = np.concatenate([graph.release, np.full(len(late), NEVER)])
    release[head] = graph.release
    release[:n][head != np.arange(n)] = NEVER
    kinds = np.repeat([Kind.DELAY, Kind.GAP], [len(delays), len(gaps)]).astype(np.uint8)
    starts = np.concatenate([ready[delays] + gap[delays], ready[gaps]])
    ends = np.concatenate([graph.start[delays], ready[gaps] + gap[gaps]])
    start = np.maximum(graph.start, ready)
    return replace(
        graph,
        kind=np.concatenate([graph.kind, kinds]),
        lane=np.concatenate([graph.lane, graph.lane[late]]),
        period=np.concatenate([graph.period, graph.period[late]]),
        start=np.concatenate([start, starts]),
        end=np.concatenate([np.maximum(graph.end, start), ends]),
        event=np.concatenate([graph.event, graph.event[late]]),
        release=release,
        source=np.concatenate([graph.source, delay_op[delays], gap_op[both], gap_op[only_gap]]),
        target=np.concatenate([head[graph.target], delays, delay_op[both], only_gap]),
    )


def count_gaps_as_gpu_time(graph: RankGraph, work: Ints, *, earlier: bool = False) -> RankGraph:
    """Turn the gaps before some GPU work into GPU time, which scales with the GPU's speed.

    Parameters
    ----------
    work : op numbers of GPU work whose preceding gaps are turned into GPU time; -1 is ignored
    earlier : True if the GPU still executed work that was launched before the recording; then only
        long gaps are turned into GPU time, and they belong to no step
    """
    late = np.zeros(len(graph.kind), np.bool_)
    late[work[work >= 0]] = True
    late[graph.source[late[graph.target] & (graph.kind[graph.source] == Kind.DELAY)]] = True
    gap = graph.source[late[graph.target] & (graph.kind[graph.source] == Kind.GAP)]
    gap = gap[graph.lane[gap] >= graph.events.host_lane_count]
    if earlier:
        gap = gap[graph.end[gap] - graph.start[gap] > LONG * graph.events.trace.resolution]
    kind, event, period = graph.kind.copy(), graph.event.copy(), graph.period.copy()
    kind[gap], event[gap] = Kind.COMPUTE, -1
    period[gap] = -1 if earlier else period[gap]
    return replace(graph, kind=kind, event=event, period=period)


def add_collective_returns(graph: RankGraph, work: Ints) -> RankGraph:
    """Insert a return op after each collective on a library's thread, before ops that wait for it.

    The duration of a return op is 0 here. Once the other members are known, it is the time by which
    this rank's thread returned later than the first member.

    Parameters
    ----------
    work : op numbers of the collectives on a library's thread; -1 is ignored
    """
    n = len(graph.start)
    work = np.unique(work[work >= 0])
    return_op = np.full(n, -1)
    return_op[work] = n + np.arange(len(work))
    awaited = return_op[graph.source] >= 0
    end = graph.end[work]
    return replace(
        graph,
        kind=np.concatenate([graph.kind, np.full(len(work), Kind.DELAY, np.uint8)]),
        lane=np.concatenate([graph.lane, graph.lane[work]]),
        period=np.concatenate([graph.period, graph.period[work]]),
        start=np.concatenate([graph.start, end]),
        end=np.concatenate([graph.end, end]),
        event=np.concatenate([graph.event, graph.event[work]]),
        release=np.concatenate([graph.release, np.full(len(work), NEVER)]),
        source=np.concatenate([np.where(awaited, return_op[graph.source], graph.source), work]),
        target=np.concatenate([graph.target, return_op[work]]),
    )
