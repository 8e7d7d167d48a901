"""Metrics of a run, each as a list of samples (``docs/definitions.md`` defines them).

A metric of periods has one sample per counted period. A utilization has 100 samples, one per equal
window of the run. Other metrics have one sample.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NEVER
from ..facts.graph import Graph
from ..facts.roles import NETWORK
from ..facts.system import UNCOUNTED
from ..record.distribution import Distribution
from ..record.run_record import RunRecord
from ..record.schedule import SubmittedRun
from ..units import seconds
from .activity import activity_by_window, arrivals_by_graph, exposed_communication_seconds
from .holdings import amounts_held_by_ops, amounts_held_by_processes
from .op_sums import stored_or_summed_aggregates
from .periods import counted_edges, period_edges, step_edges

log = logging.getLogger(__name__)

WINDOWS = 100
LEAST = 1e-9
SPANS_AT_ONCE = 1 << 12  # of all graphs whose use is summed together
Samples = NDArray[np.float64]


def measure(
    result: RunRecord, warm_up: int = 0, count: int | None = None
) -> dict[str, Samples | Distribution]:
    """Samples of all metrics of a run by name: built-in metrics, and those emitted by processes.

    Times have one sample per counted period, or a single sample of the complete run if there are no
    periods.

    Parameters
    ----------
    warm_up : int
        Number of iterations at the start that are not counted.
    count : int or None
        Number of iterations counted after the warm-up; None for all.

    Raises
    ------
    ValueError
        No iteration is left to count.
    """
    found: dict[str, Samples | Distribution] = {**built_in_samples(result, warm_up, count)}
    if period_edges(result) is not None:
        found["iteration_time"] = seconds(
            np.diff(counted_edges(result, warm_up, count)), result.tick
        )
    return found | result.emitted.samples


def built_in_samples(
    result: RunRecord, warm_up: int = 0, count: int | None = None
) -> dict[str, Samples]:
    """Samples of the built-in metrics of every run, by name; times are in s.

    Parameters
    ----------
    warm_up, count : number of iterations not counted at the start, and counted after that (None for
        all)

    Raises
    ------
    ValueError
        No iteration is left to count.
    """
    found: dict[str, Samples] = {"makespan": np.array([result.makespan])}
    whole = period_edges(result) is None and not warm_up
    edges = step_edges(result) if whole else counted_edges(result, warm_up, count)
    found |= _box_samples(result, edges, warm_up)
    for name, samples in utilization_windows(result).items():
        found[f"{name}.utilization"] = samples
    for name, samples in occupancy(result).items():
        found[f"{name}.occupancy"] = samples
    return found | _dropped_ops(result)


def _dropped_ops(result: RunRecord) -> dict[str, Samples]:
    """Number of dropped ops, of all, of each component and of each kind; {} without such queues."""
    queues = result.parts.queues
    dropped = None if queues is None else stored_or_summed_aggregates(result).dropped
    if dropped is None or queues is None:
        return {}
    found = {"dropped": float(dropped.sum())}
    for c in np.flatnonzero(queues.turns_away()).tolist():
        part = result.system.components[c]
        for name in {part.name, part.kind}:
            key = f"{name}.dropped"
            found[key] = found.get(key, 0.0) + float(dropped[c])
    return {name: np.array([count]) for name, count in found.items()}


def _box_samples(result: RunRecord, edges: NDArray[np.int64], warm_up: int) -> dict[str, Samples]:
    """Communication and waiting time in each period as means over ranks, if they were kept."""
    if not result.ranks:
        return {}
    if result.keep == "none":
        steps = exposed_communication_seconds(result)[warm_up : warm_up + len(edges) - 1]
        return {"exposed_communication": steps.mean(axis=1)}
    boxes = activity_by_window(result, edges)
    return {
        "exposed_communication": boxes["exposed_communication"].mean(axis=1),
        "overlapped_communication": boxes["overlapped"].mean(axis=1),
        "waiting": boxes["waiting"].mean(axis=1),
    }


def utilization_windows(result: RunRecord) -> dict[str, Samples]:
    """Utilization of each component in :data:`WINDOWS` equal windows of the run, by name.

    A GPU is busy while a kernel (compute or communication) runs on any of its streams. For a host
    it is busy cores over all cores, for a shared rate the mean rate over the full rate, and for a
    capacity the mean amount held over the total. A kind (``gpu``, ``nic``, …) has the value of its
    busiest component. Components without any activity are left out, and hosts without a core count.
    The work of a flow is spread evenly over its work phase. Empty if neither windows nor op rows
    were kept.
    """
    share = result.aggregates.windows if result.written is None else working_share_by_window(result)
    if share is None:
        log.info("utilization over time is left out: of this run only its mean was kept")
        return {}
    known = may_ops_overlap(result) | (result.parts.slots != UNCOUNTED)
    return _samples_by_component_and_kind(result, np.where(known[:, None], share, 0.0))


def occupancy(result: RunRecord) -> dict[str, Samples]:
    """Fraction of each component's slots in use, in :data:`WINDOWS` equal windows, by name.

    A kind (``gpu``, ``nic``, …) has the value of its busiest component. Idle components are left
    out.
    """
    share = result.aggregates.taken if result.written is None else slot_share_by_window(result)
    if share is None:
        return {}
    slots = result.parts.slots
    known = (slots > 0) & (slots != UNCOUNTED)
    return _samples_by_component_and_kind(result, np.where(known[:, None], share, 0.0))


def _samples_by_component_and_kind(
    result: RunRecord, share: NDArray[np.float64]
) -> dict[str, Samples]:
    """Samples by component, the busiest first, and by kind of component."""
    found: dict[str, Samples] = {}
    mean = share.mean(axis=1)
    for c in np.argsort(-mean, kind="stable").tolist():
        if mean[c] > 0:
            part = result.system.components[c]
            found.setdefault(part.kind, share[c])  # the busiest comes first
            found[part.name] = share[c]
    return found


def working_share_by_window(result: RunRecord) -> NDArray[np.float64]:
    """(components, windows) fraction of time each component is busy; needs op rows."""
    share, several = slot_share_by_window(result), may_ops_overlap(result)
    if several.any():
        edges, busy = _window_edges(result), np.zeros(share.shape)
        _spread_over_periods(*component_busy_spans(result, several), None, edges, busy)
        share[several] = (busy / np.maximum(np.diff(edges), 1e-300))[several]
    return share


def may_ops_overlap(result: RunRecord) -> NDArray[np.bool_]:
    """(components,) True if overlapping ops of a component count as busy once: GPUs, but not hosts.

    The cores of a host work independently, so there overlapping ops add up.
    """
    host = result.system.components.column(lambda part: part.kind == "host", bool)
    return np.asarray((result.parts.slots > 1) & ~host)


def component_busy_spans(
    result: RunRecord, chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Component, first tick and last tick of each interval in which a component is busy.

    A component is busy if any of its slots is in use, or if a communication kernel runs on it
    outside its slots. Such a kernel counts from the time at which it begins to wait for other
    ranks.
    """
    component, start, end = [], [], []
    for run, arrived in arrivals_by_graph(result):
        slot = result.slots(run)
        op = run.first + run.graph.explicit.op_of_place
        ended = result.columns.end[op] != NEVER
        kernels = communication_kernels(run.graph)
        place = np.flatnonzero((slot >= 0) & ended & ~kernels)
        place = place[chosen[slot[place]]]
        component.append(slot[place].astype(np.int64))
        start.append(result.columns.start[op[place]])
        end.append(result.columns.end[op[place]])
        if not kernels.any() or run.graph.gpus is None:
            continue
        place = np.flatnonzero(kernels & ended)
        gpu = run.graph.gpus[run.graph.explicit.rank[place]].astype(np.int64)
        on = chosen[gpu]
        component.append(gpu[on])
        start.append(arrived[place[on]])
        end.append(result.columns.end[op[place[on]]])
    of, a, b = (np.concatenate([np.empty(0, np.int64), *x]) for x in (component, start, end))
    order = np.lexsort((a, of))
    of, a, b = of[order], a[order], b[order]
    for first, last in pairwise([0, *np.flatnonzero(np.diff(of)) + 1, len(of)]):
        b[first:last] = np.maximum.accumulate(b[first:last])
    new = np.ones(len(of), bool)
    new[1:] = (of[1:] != of[:-1]) | (a[1:] > b[:-1])
    head = np.flatnonzero(new)
    last = np.append(head[1:], len(of))[: len(head)] - 1
    return of[head], a[head], b[last]


def communication_kernels(graph: Graph) -> NDArray[np.bool_]:
    """(n + e,) True for participants of ops that are a communication kernel on their rank's GPU.

    The stream must belong to the GPU: it contains kernels, or is described as a communication
    stream. Ops on host streams, and on streams without description, are not kernels.

    Examples
    --------
    >>> from ..facts.graph import Builder
    >>> from ..facts.ops import Kind
    >>> build = Builder("one of each")
    >>> for stream, kind in enumerate(("host", "compute", "network")):
    ...     _ = build.op(Kind.SEND, rank=0, stream=stream, peer=0, bytes=1.0)
    ...     build.set_stream_kind(0, stream, kind)
    >>> communication_kernels(build.graph()).tolist()
    [False, True, True]
    """
    block = graph.explicit
    found = np.isin(block.ops.kind[block.op_of_place], NETWORK)
    on_gpu = [lane for lane, kind in graph.streams.items() if kind in ("compute", "network")]
    if not on_gpu or not found.any():
        return np.zeros(len(found), bool)
    lanes = np.array(on_gpu, np.int64)
    width = 1 + max(int(lanes[:, 1].max()), int(block.stream.max(initial=0)))
    lane = block.rank.astype(np.int64) * width + block.stream
    return np.asarray(found & np.isin(lane, lanes[:, 0] * width + lanes[:, 1]))


def _window_edges(result: RunRecord) -> NDArray[np.float64]:
    edges = result.first_release + np.linspace(0, result.makespan_ticks, WINDOWS + 1)
    return np.asarray(edges, np.float64)


def slot_share_by_window(result: RunRecord) -> NDArray[np.float64]:
    """(components, windows) fraction of each component's slots in use; needs op rows."""
    edges = _window_edges(result)
    busy = np.zeros((len(result.parts), WINDOWS))
    for spans in _spans_of_graphs(result):
        _spread_over_periods(
            spans.component, spans.start, spans.end, spans.share, edges, busy, spans.group
        )
    for held in (amounts_held_by_ops(result), amounts_held_by_processes(result)):
        _spread_over_periods(held.component, held.start, held.end, held.share, edges, busy)
    width = np.maximum(np.diff(edges), 1e-300)
    share = busy / width / np.where(result.parts.slots > 0, result.parts.slots, 1)[:, None]
    share[share < LEAST] = 0.0  # what sums of floats leave behind
    return share


class _Spans(NamedTuple):
    """Intervals in which components are in use: ticks, share of the rate or slots, and group."""

    component: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    share: NDArray[np.float64]
    group: NDArray[np.int64]


EMPTY = np.zeros(0, np.int64)
NO_SPANS = _Spans(EMPTY, EMPTY, EMPTY, np.empty(0), EMPTY)


def _spans_of_graphs(result: RunRecord) -> Iterator[_Spans]:
    """Use of slots and of rates by each graph, a group each, of many graphs together."""
    rates = result.system.components.column(lambda c: c.rate or np.inf, float)
    found, size = list[_Spans](), 0
    for g, run in enumerate(result.runs):
        some = (_slot_spans(result, run, 2 * g), _rate_spans(result, run, rates, 2 * g + 1))
        found += some
        size += sum(len(one.component) for one in some)
        if size >= SPANS_AT_ONCE:
            yield _Spans(*map(np.concatenate, zip(*found, strict=True)))
            found, size = [], 0
    if size:
        yield _Spans(*map(np.concatenate, zip(*found, strict=True)))


def _slot_spans(result: RunRecord, run: SubmittedRun, group: int) -> _Spans:
    slot = result.slots(run)
    op = run.first + run.graph.explicit.op_of_place
    place = np.flatnonzero((slot >= 0) & (result.columns.end[op] != NEVER))
    at, many = op[place], len(place)
    return _Spans(
        slot[place].astype(np.int64), result.columns.start[at], result.columns.end[at],
        np.ones(many), np.full(many, group),
    )  # fmt: skip


def _rate_spans(
    result: RunRecord, run: SubmittedRun, rates: NDArray[np.float64], group: int
) -> _Spans:
    usage, work = run.answers.timing.usage, run.answers.timing.work
    if usage is None or work is None or not len(usage.component):
        return NO_SPANS
    row = np.repeat(np.arange(len(usage)), np.diff(usage.indptr))
    begin = result.columns.start[run.first + row] + run.lowered.fixed[row]
    end = result.columns.end[run.first + row]
    moved = work[row] * usage.weight / rates[usage.component]
    done = (end != NEVER) & (end > begin) & (moved > 0)
    length = seconds(end - begin, result.tick)
    share, used = moved[done] / length[done], usage.component[done].astype(np.int64)
    return _Spans(used, begin[done], end[done], share, np.full(len(used), group))


def _spread_over_periods(
    component: NDArray[Any],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    share: NDArray[np.float64] | None,
    edges: NDArray[np.float64],
    busy: NDArray[np.float64],
    group: NDArray[np.int64] | int = 0,
) -> None:
    """Add to ``busy`` the part of each window that the intervals of each component cover.

    Only rows of these components are computed. Groups are added one after the other, as in calls
    of their own: sums of floats depend on the order.
    """
    there, row = np.unique(group * len(busy) + component, return_inverse=True)
    began, ended = (
        np.diff(_covered_up_to_edges(row, at, share, edges, len(there))) for at in (start, end)
    )
    steps = np.stack([began, -ended], axis=1).reshape(-1, busy.shape[1])
    np.add.at(busy, np.repeat(there % len(busy), 2), steps)


def _covered_up_to_edges(
    component: NDArray[Any],
    at: NDArray[np.int64],
    share: NDArray[np.float64] | None,
    edges: NDArray[np.float64],
    components: int,
) -> NDArray[np.float64]:
    """(components, edges) integral of the usage that began before each edge, up to that edge.

    Interval ends are counted per window instead of sorted, since a run has far more intervals than
    windows.
    """
    bins = len(edges) + 1
    since = at - edges[0]
    # A mark on an edge may be counted on either side of it: there nothing lies between them.
    window = 1 + (since * ((bins - 2) / max(edges[-1] - edges[0], 1.0))).astype(np.int64)
    cell = component.astype(np.int64) * bins + window
    moments = since if share is None else share * since
    weight, moment = (
        np.bincount(cell, values, components * bins).reshape(components, bins)[:, :-1]
        for values in (share, moments)
    )
    before = np.cumsum(weight, axis=1) * (edges - edges[0])
    return np.asarray(before - np.cumsum(moment, axis=1))
