"""Release of finished graphs: their times are returned, then their memory is freed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import NEVER, OVER, HeldOpTimes, State
from .memory.run_memory import GraphOffsets
from .memory.state_layout import ARRIVED, END, ENDED, OPEN_OPS, START
from .readout import CLAIM_TIMES, claim_ticks
from .submitted_graph import SubmittedGraph

if TYPE_CHECKING:
    from .state_view import StateView

Ticks = NDArray[np.int64]
NOTHING = np.empty(0, np.int64)


def read_and_free_graphs(engine: StateView) -> HeldOpTimes:
    """Read the times of all graphs in memory and free the finished ones; see ``Engine.give_back``.

    A graph that ran ahead of the clock is not freed: no process steers such a run.
    """
    held, graphs = _held_ops(engine)
    gone = [g for g, over in zip(graphs, held.over.tolist(), strict=False) if over]
    if held.over.any():
        _forget_graphs(engine, gone, held.over[len(graphs) :])
    return held


def _held_ops(engine: StateView) -> tuple[HeldOpTimes, list[SubmittedGraph]]:
    store, flat = engine.store, engine.flat
    graphs = list(engine.joined)
    cells = store.cells
    size = sum(len(g.shape.slot) for g in engine.to_join) + flat.waiting_places
    arrived, start, end = (np.full(cells + size, NEVER, np.int64) for _ in range(3))
    state, fresh = np.zeros(cells + size, np.uint8), np.zeros(cells + size, np.bool_)
    state[:cells] = store.state[:cells]
    over = state[:cells] == ENDED
    np.maximum(store.times[:cells, ARRIVED], NEVER, out=arrived[:cells])
    start[:cells] = store.times[:cells, START]
    end[:cells] = np.where(over, store.times[:cells, END], NEVER)
    fresh[:cells] = store.newly_ended_ops()
    base = [g.base for g in graphs]
    is_over = store.graph_table[:, OPEN_OPS] == 0
    told = np.array([not g.unreported for g in graphs], np.bool_)
    done = is_over[: len(graphs)] & told
    for graph in engine.to_join:  # handed in behind all that joined
        base.append(cells)
        cells += len(graph.shape.slot)
    fresh_graphs = np.zeros(len(engine.to_join), np.bool_)
    late = np.zeros(len(flat) - flat.joined, np.bool_)
    made = (
        np.concatenate([_column(engine, "first"), flat.first]),
        np.concatenate([_column(engine, "index"), flat.index]),
        np.concatenate([np.array(base, np.int64), flat.bases(cells)]),
        np.concatenate([done, fresh_graphs, is_over[len(graphs) :], late]),
    )
    graphs += engine.to_join
    claims = _claim_ticks(engine, graphs)
    return HeldOpTimes(*made, arrived, start, end, state, fresh, *claims), graphs


def _column(engine: StateView, name: str) -> Ticks:
    """A number of each graph in memory that has an object."""
    return np.array([getattr(g, name) for g in (*engine.joined, *engine.to_join)], np.int64)


def _claim_ticks(
    engine: StateView, graphs: Sequence[SubmittedGraph]
) -> tuple[Ticks, Ticks, Ticks, Ticks]:
    """Index of each graph's first claim; ticks of request, grant and release of all claims."""
    counts, flat = engine.flat.claims(engine.store)
    ends = np.cumsum([0, *(len(graph.shape.claims) for graph in graphs), *counts.tolist()])
    times = [claim_ticks(engine, g) for g in graphs if len(g.shape.claims)]
    asked, granted, returned = (
        np.concatenate([NOTHING, *(t[name] for t in times), own])
        for name, own in zip(CLAIM_TIMES, flat, strict=True)
    )
    return ends[:-1], asked, granted, returned


def _forget_graphs(
    engine: StateView, gone: Sequence[SubmittedGraph], flat_over: NDArray[np.bool_]
) -> None:
    store, dead = engine.store, set(map(id, gone))
    for graph in gone:
        graph.free_rows(store)
        engine.held_ops -= graph.count
        state = store.state[graph.base : graph.base + graph.count]
        for row in np.flatnonzero(state != ENDED).tolist():
            engine.past.add(graph.first + row, State(state[row]))
    engine.graphs = [g for g in engine.graphs if id(g) not in dead]
    engine.firsts = [g.first for g in engine.graphs]
    stay, before = [k for k, g in enumerate(engine.joined) if id(g) not in dead], len(engine.joined)
    engine.joined = [engine.joined[k] for k in stay]
    lies: list[GraphOffsets] = [g.lies for g in engine.joined if g.lies is not None]
    flat_stay, flat_lies = engine.flat.stay(flat_over)
    engine.flat.free_flows(store, flat_over)
    moved = store.keep_graphs([*stay, *(before + k for k in flat_stay)], [*lies, *flat_lies])
    for graph, to in zip(engine.joined, moved, strict=False):
        graph.move(to)
    for k, to in zip(flat_stay, moved[len(stay) :], strict=True):
        engine.flat.offsets[k] = to
    engine.held_ops -= int(engine.flat.ops[flat_over].sum())
    engine.flat = engine.flat.take(~flat_over)
    engine.bases = [g.base for g in engine.joined]
    for memory in (engine.earlier, engine.stopped_by):
        for op in [op for op in memory if engine.state(op) in OVER]:
            if engine._graph_of_op(op) is None:
                del memory[op]
