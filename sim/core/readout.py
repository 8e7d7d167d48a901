"""Reading of the engine's state: columns of times, and the input of the deadlock diagnosis."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..engine_api.deadlock import StuckState
from ..engine_api.interface import NEVER, OVER, EngineColumns
from .memory import state_layout as lay
from .memory.state_layout import NEVER as NEVER_RELEASED
from .memory.state_layout import NONE

if TYPE_CHECKING:
    from .state_view import StateView
    from .submitted_graph import SubmittedGraph

Ticks = NDArray[np.int64]
_NOTHING = np.empty(0, np.int64)
CLAIM_TIMES = {"asked": lay.ASKED_AT, "granted": lay.GRANTED_AT, "returned": lay.RETURNED_AT}


def read_op_columns(engine: StateView) -> EngineColumns:
    """Times and states so far of all ops in memory, one row per op."""
    made = [_columns_of_graph(engine, graph) for graph in engine.graphs]
    names = ("ready", "start", "end", "state", "attempts", "asked", "granted", "returned")
    found = {n: _concatenate([m[n] for m in made]) for n in names}
    before = np.cumsum([0, *(graph.count for graph in engine.graphs)])
    for op, more in engine.earlier.items():
        k = bisect_right(engine.firsts, op) - 1
        found["attempts"][before[k] + op - engine.firsts[k]] += more
    if len(made) == 1:
        return EngineColumns(**found, arrived=made[0]["arrived"])
    first = [m["arrived"][: len(m["start"])] for m in made]
    further = [m["arrived"][len(m["start"]) :] for m in made]
    return EngineColumns(**found, arrived=_concatenate([*first, *further]))


def _concatenate(columns: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays; a single array is returned without a copy."""
    filled = [c for c in columns if len(c)] or columns[:1]
    return filled[0] if len(filled) == 1 else np.concatenate(filled) if filled else np.empty(0, int)


def _columns_of_graph(engine: StateView, graph: SubmittedGraph) -> dict[str, NDArray[Any]]:
    n, e = graph.count, len(graph.shape.further)
    if graph.over and graph.ahead is not None:
        return {
            "ready": graph.ahead.begin,
            "start": graph.ahead.begin,
            "end": graph.ahead.finish,
            "state": np.full(n, lay.ENDED, np.uint8),
            "attempts": np.ones(n, np.int32),
            "arrived": graph.ahead.arrived,
            **claim_ticks(engine, graph),
        }
    if graph.base == NONE:
        never = np.full(n + e, NEVER, np.int64)
        zeros = np.zeros(n, np.int64)
        return {
            "ready": never[:n],
            "start": never[:n],
            "end": never[:n],
            "state": zeros.astype(np.uint8),
            "attempts": zeros.astype(np.int32),
            "arrived": never,
            **claim_ticks(engine, graph),
        }
    at = slice(graph.base, graph.base + n)
    times, rows = engine.store.times, engine.store.rows[at]
    arrived, end = times[graph.base : graph.base + n + e, lay.ARRIVED], times[at, lay.END]
    whole = bool(np.all(rows["state"] == lay.ENDED))  # then nothing will be written there again
    if not whole:
        arrived = np.maximum(arrived, NEVER)
        end = np.where(rows["state"] == lay.ENDED, end, NEVER)
    return {
        "ready": _ready_ticks(arrived, graph.shape.further, n),
        "start": times[at, lay.START] if whole else times[at, lay.START].copy(),
        "end": end,
        "state": rows["state"].copy(),
        "attempts": ((rows["flags"] & lay.STARTED) != 0).astype(np.int32),
        "arrived": arrived,
        **claim_ticks(engine, graph),
    }


def claim_ticks(engine: StateView, graph: SubmittedGraph) -> dict[str, NDArray[Any]]:
    """Ticks at which each capacity claim of a graph was requested, granted and released."""
    n = len(graph.shape.claims)
    if graph.lies is None or not n:
        never = np.full(n, NEVER, np.int64) if n else _NOTHING
        return dict.fromkeys(CLAIM_TIMES, never)
    claims = engine.store.claim_table[graph.lies.claim : graph.lies.claim + n]
    return {name: claims[:, column].copy() for name, column in CLAIM_TIMES.items()}


def _ready_ticks(arrived: Ticks, further: NDArray[np.int32], n: int) -> Ticks:
    """Tick at which the last participant of each op arrived; -1 if one has not arrived."""
    ready = arrived[:n].copy()
    if len(further):
        np.maximum.at(ready, further, arrived[n:])
        ready[arrived[:n] == NEVER] = NEVER
        ready[further[arrived[n:] == NEVER]] = NEVER
    return ready


def stuck_state(engine: StateView) -> StuckState:
    """State of a run that cannot continue, as input of the deadlock diagnosis."""
    open_ops = engine.open_ops()
    rows = engine.store.rows
    cells = {op: engine.cell(op) for op in open_ops}
    state = {op: int(rows[c]["state"]) for op, c in cells.items()}
    holders: dict[int, list[int]] = {}
    for op, c in cells.items():
        for p in engine.store.places(c):
            if rows[p]["at"] == lay.HELD and rows[p]["slot"] >= 0:
                holders.setdefault(int(rows[p]["slot"]), []).append(op)
    queues = {k: [op for op, _ in engine.queue(k)] for k in range(len(engine.parts))}
    return StuckState(
        engine.parts.names,
        open_ops,
        {op: engine.stopped_by[op] for op in open_ops if state[op] == lay.STOPPED},
        [op for op, c in cells.items() if _is_beyond_range(engine, c)],
        {op: why for op, c in cells.items() if (why := _starved_reason(engine, c))},
        _unmet_dependencies(engine, cells),
        {k: queue for k, queue in queues.items() if queue},
        holders,
        engine.blocked_queues(_held_capacities(engine)),
    )


def _held_capacities(engine: StateView) -> dict[int, list[tuple[int, int]]]:
    """For each capacity, the amounts that ops hold and the op whose end releases each amount."""
    held: dict[int, list[tuple[int, int]]] = {}
    table = engine.store.claim_table
    table = table[(table[:, lay.STANDS] == lay.IS_HELD) & (table[:, lay.HELD_BY] != NONE)]
    for claim in table[np.argsort(table[:, lay.HELD_BY], kind="stable")].tolist():
        over = engine.store.rows[claim[lay.HELD_BY]]["state"] in OVER
        last = claim[lay.UNTIL if over else lay.HELD_BY]
        held.setdefault(claim[lay.OF], []).append((engine.op_id(last), claim[lay.AMOUNT]))
    return held


def _unmet_dependencies(engine: StateView, cells: dict[int, int]) -> dict[int, list[int]]:
    """For each open op, the open ops that it depends on."""
    rows, links = engine.store.rows, engine.store.links
    found: dict[int, list[int]] = {op: [] for op in cells}
    for op, c in cells.items():
        for p in links[rows[c]["first"] : rows[c + 1]["first"]].tolist():
            other = engine.op_id(engine.first_cell_of_op(p))
            if other in found and rows[p]["at"] == lay.WAITING:
                found[other].append(op)
    return found


def _is_beyond_range(engine: StateView, c: int) -> bool:
    row = engine.store.rows[c]
    if row["state"] != lay.RUNNING:
        return bool(row["flags"] & NEVER_RELEASED)
    if row["flags"] & lay.FLOWING:
        return engine.rate_of_flow(engine.store.flow(c)) > 0
    return bool(row["flags"] & lay.BEYOND)


def _starved_reason(engine: StateView, c: int) -> str:
    store, names = engine.store, engine.parts.names
    row, flow = store.rows[c], store.flow(c)
    uses = store.sharing.usage(flow) if flow != NONE else {}
    if row["state"] == lay.RUNNING:
        return f"runs at rate 0 on {', '.join(names[k] for k in sorted(uses)) or 'its limit'}"
    places = store.places(c)
    if row["state"] == lay.PENDING and all(store.rows[p]["at"] == lay.HELD for p in places):
        return f"uses failed {next(names[k] for k in uses if engine.failed(k))}"
    for p in places:
        slot = int(store.rows[p]["slot"])
        if store.rows[p]["at"] == lay.QUEUED and engine.failed(slot):
            return f"queues for a slot of {names[slot]}, which failed"
    if row["flags"] & lay.HOLDS:
        for claim in engine.store.claims_of(c):
            if claim[lay.STANDS] == lay.IN_LINE and engine.failed(int(claim[lay.OF])):
                return f"waits for failed {names[int(claim[lay.OF])]}"
    return ""
