"""Input of the deadlock diagnosis, read from the reference engine."""

from __future__ import annotations

from ..engine_api.deadlock import StuckState
from ..engine_api.interface import MAX_TICK, State
from .capacity import ASKED
from .capacity import HELD as GRANTED
from .event_loop import EventLoop
from .op_state import HELD, QUEUED, WAITING, OpState


def stuck_state(engine: EventLoop) -> StuckState:
    """State of a run that cannot continue, as input of :func:`~..deadlock.diagnose`."""
    live = [row for row in engine.rows.values() if row.live]
    lines = {c: [s[3] for s in part.queue] for c, part in enumerate(engine.at) if part.queue}
    return StuckState(
        engine.parts.names,
        [row.id for row in live],
        {row.id: row.stopped_by for row in live if row.state == State.STOPPED},
        [row.id for row in live if _is_beyond_range(engine, row)],
        {row.id: why for row in live if (why := _starved_reason(engine, row))},
        _unmet_dependencies(live),
        lines,
        _holders(live),
        engine.blocked_queues(_held_capacities(engine)),
    )


def _unmet_dependencies(live: list[OpState]) -> dict[int, list[int]]:
    """For each open op, the open ops that it depends on."""
    unmet: dict[int, list[int]] = {row.id: [] for row in live}
    for row in live:
        for dependent, k in row.dependents:
            if dependent.live and dependent.at[k] == WAITING:
                unmet[dependent.id].append(row.id)
    return unmet


def _holders(live: list[OpState]) -> dict[int, list[int]]:
    """For each component, the ops that hold one of its slots."""
    holders: dict[int, list[int]] = {}
    for row in live:
        for slot, at in zip(row.slots, row.at, strict=True):
            if at == HELD and slot >= 0:
                holders.setdefault(slot, []).append(row.id)
    return holders


def _held_capacities(engine: EventLoop) -> dict[int, list[tuple[int, int]]]:
    """For each capacity, the amounts that ops hold and the op whose end releases each amount."""
    held: dict[int, list[tuple[int, int]]] = {}
    for row in engine.rows.values():
        for claim in row.claims:
            last = row if row.live or claim.until is None else claim.until
            if claim.state == GRANTED:
                held.setdefault(claim.component, []).append((last.id, claim.amount))
    return held


def _is_beyond_range(engine: EventLoop, row: OpState) -> bool:
    """True if the release or the end of an op lies beyond the range of ticks."""
    if row.state != State.RUNNING:
        return row.release > MAX_TICK
    return row.until is not None or engine.medium.rate_of(row.id) > 0


def _starved_reason(engine: EventLoop, row: OpState) -> str:
    names, at = engine.parts.names, engine.at
    if row.state == State.RUNNING:
        return f"runs at rate 0 on {', '.join(names[c] for c in sorted(row.usage)) or 'its limit'}"
    if row.id in engine.granted:
        return f"uses failed {next(names[c] for c in row.usage if at[c].failed)}"
    for k, slot in enumerate(row.slots):
        if row.at[k] == QUEUED and at[slot].failed:
            return f"queues for a slot of {names[slot]}, which failed"
    for claim in row.claims:
        if claim.state == ASKED and at[claim.component].failed:
            return f"waits for failed {names[claim.component]}"
    return ""
