"""Validation of graphs and of process commands, common to both engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..argument import as_integer, shown
from ..errors import UNBOUNDED, BackendError, GraphError, SimulationError
from .interface import (
    MAX_TICK,
    MOST_WEIGHT,
    NO_LIMIT,
    ONE,
    Answer,
    ComponentTable,
    EngineGraph,
    Flows,
)
from .queue_table import QueueTable

WORK_BITS = 127
FASTEST = 1 << 62  # upper bound of all rates, in rate units


def check_graph(parts: ComponentTable, graph: EngineGraph) -> None:
    """Raise an error for a graph that no engine can run; dependency cycles are not checked.

    Raises
    ------
    GraphError
        Its kind is ``unknown place``, ``no slots``, ``unknown component``, ``no rate``, ``weight``,
        ``negative``, ``unbounded``, ``too fast``, ``unknown op``, ``no capacity``, ``amount`` or
        ``queue``, and it names the first bad row.

    Examples
    --------
    >>> from foretrace.sim.engine_api.engine_literal import LiteralOp
    >>> from foretrace.sim.engine_api.engine_literal import literal_components, literal_graph
    >>> check_graph(literal_components((1,), (-1,)), literal_graph("g", [LiteralOp(((7, ()),))]))
    Traceback (most recent call last):
    ...
    foretrace.sim.errors.GraphError: unknown place: graph 'g' op 0: component 7 does not exist; \
components are 0 to 0
    """
    if len(graph.claims):
        _check_claims(parts, graph)
    if parts.queues is not None and len(graph.further):
        _check_queues_of_collectives(parts, parts.queues, graph)
    if _passes_quick_check(parts, graph):
        return
    n = len(graph)
    op = np.concatenate([np.arange(n), graph.further])
    used = np.repeat(graph.flows.op, np.diff(graph.flows.indptr))
    _check_components(parts, graph, op, used)
    flows = graph.flows
    _check_weights(graph, used)
    for column, row in ((graph.fixed, None), (graph.release, None), (flows.work_hi, flows.op)):
        at = np.arange(len(column)) if row is None else row
        _refuse_op(graph, at, column < 0, "negative", "a time or work is negative; give 0 or more")
    _refuse_op(
        graph,
        flows.op,
        flows.limit < NO_LIMIT,
        "negative",
        "its limit is negative; give 0 or more, or -1 for none",
    )
    works = (flows.work_hi > 0) | (flows.work_lo > 0)
    free = works & (np.diff(flows.indptr) == 0) & (flows.limit == NO_LIMIT)
    _refuse_op(graph, flows.op, free, "unbounded", UNBOUNDED)
    fast = "its weights allow a rate of 2^62 units or more; give it a limit"
    _refuse_op(graph, flows.op, may_exceed_rate_range(parts, flows), "too fast", fast)
    after = graph.successors
    owner = np.repeat(np.arange(n), np.diff(graph.indptr))
    lost = (after < 0) | (after >= len(op))
    said = f"a successor of it does not exist; places are 0 to {len(op) - 1}"
    _refuse_op(graph, owner, lost, "unknown op", said)


def _check_queues_of_collectives(
    parts: ComponentTable, queues: QueueTable, graph: EngineGraph
) -> None:
    """Raise an error for an op on several ranks that a full queue could turn away on one of them.

    Its other places may already hold slots, and the op cannot continue without one place.
    """
    op = np.concatenate([np.arange(len(graph)), graph.further])
    several = np.isin(op, graph.further) & (graph.slot >= 0)
    away = np.append(queues.turns_away(), False)[np.minimum(graph.slot, len(parts))]
    said = "an op on several ranks cannot be turned away by the queue of component {}; let that "
    said += "queue wait (full: wait), or run the op elsewhere"
    _refuse_op(graph, op, several & away, "queue", said, graph.slot)


def _passes_quick_check(parts: ComponentTable, graph: EngineGraph) -> bool:
    """True if a quick check shows that a graph is valid, without building a table of its size."""
    slot, after, times = graph.slot, graph.successors, (graph.fixed, graph.release)
    places = len(graph) + len(graph.further)
    if len(graph.flows) or slot.min(initial=-1) < -1 or slot.max(initial=-1) >= len(parts):
        return False
    if after.min(initial=0) < 0 or after.max(initial=-1) >= places:
        return False
    return _have_slots(parts, slot) and all(column.min(initial=0) >= 0 for column in times)


def _have_slots(parts: ComponentTable, slot: NDArray[np.int32]) -> bool:
    """True if every component that an op queues for has slots."""
    first, end = max(int(slot.min(initial=0)), 0), int(slot.max(initial=-1)) + 1
    if end - first <= len(slot) and np.all(parts.slots[first:end] >= 0):
        return True  # quick check: all between the first and the last have slots
    return not np.any(parts.slots[slot[slot >= 0]] < 0)


def _check_components(
    parts: ComponentTable, graph: EngineGraph, op: NDArray[np.int64], used: NDArray[np.int32]
) -> None:
    count = len(parts)
    slot, rated = graph.slot, graph.flows.component
    _refuse_op(
        graph,
        op,
        (slot < -1) | (slot >= count),
        "unknown place",
        "component {} does not exist",
        slot,
        count,
    )
    bad = (slot >= 0) & (parts.slots[slot] < 0) if count else slot >= 0
    said = "component {} has no slots to queue for; give it slots, or write -1"
    _refuse_op(graph, op, bad, "no slots", said, slot)
    missing = (rated < 0) | (rated >= count)
    _refuse_op(
        graph, used, missing, "unknown component", "component {} does not exist", rated, count
    )
    bad = parts.rate[rated] < 0 if count else missing
    said = "component {} has no rate to share; give it a rate, or leave it out"
    _refuse_op(graph, used, bad, "no rate", said, rated)
    if len(parts.plugged):
        inside = parts.plugged[rated]
        first = inside[np.searchsorted(used, used)]
        said = "component {} and another are in different media; put both in one, or split the op"
        _refuse_op(graph, used, inside != first, "medium", said, rated)


def _check_weights(graph: EngineGraph, used: NDArray[np.int32]) -> None:
    component, weight = graph.flows.component, graph.flows.weight
    _refuse_op(
        graph,
        used,
        weight < 1,
        "weight",
        "its weight is below 2^-40; give a larger one, or leave it out",
    )
    _refuse_op(
        graph,
        used,
        weight >= MOST_WEIGHT,
        "weight",
        "its weight is 2^22 or more; give a smaller one",
    )
    order = np.lexsort((component, used))
    op, named = used[order], component[order]
    twice = (np.diff(op) == 0) & (np.diff(named) == 0)
    _refuse_op(
        graph, op[1:], twice, "weight", "component {} is named twice; add up its weights", named[1:]
    )


def excess_weight_error(
    parts: ComponentTable,
    usage: Mapping[int, Mapping[int, int]],
    open_ops: Callable[[], Sequence[int]],
) -> SimulationError | None:
    """Error if the weights of all flows on one component add up to too much; otherwise None.

    Parameters
    ----------
    usage : ``{component: weight}`` of every op in its work phase, by op

    Examples
    --------
    >>> from foretrace.sim.engine_api.engine_literal import literal_components
    >>> wire = literal_components((-1,), (10,))
    >>> excess_weight_error(wire, {3: {0: 2**61}}, tuple) is None
    True
    >>> excess_weight_error(wire, {3: {0: 2**61}, 4: {0: 2**61}}, tuple).ops
    (3, 4)
    """
    mass: dict[int, int] = {}
    for uses in usage.values():
        for c, weight in uses.items():
            mass[c] = mass.get(c, 0) + weight
    heavy = min((c for c, whole in mass.items() if whole >= MOST_WEIGHT), default=None)
    if heavy is None:
        return None
    ops = tuple(op for op, uses in sorted(usage.items()) if heavy in uses)
    message = (
        f"{parts.names[heavy]}: the weights of {len(ops):,} ops in flight sum to "
        f"{mass[heavy] / ONE:g}; the sum must stay below 2^22: divide its rate and its weights "
        f"by one number"
    )
    return SimulationError("weight", message, ops, open_ops())


def _check_claims(parts: ComponentTable, graph: EngineGraph) -> None:
    """Raise an error for capacity claims that can never be granted."""
    claims, n = graph.claims, len(graph)
    op, c, until = claims.op, claims.component, claims.until
    missing = (c < 0) | (c >= len(parts))
    _refuse_op(
        graph, op, missing, "unknown component", "component {} does not exist", c, len(parts)
    )
    lost = (until < -1) | (until >= n) | (until == op)
    _refuse_op(
        graph,
        op,
        lost,
        "unknown op",
        f"holds until op {{}} ends; give another of the {n} ops, or -1",
        until,
    )
    whole = [parts.capacity_of(k) for k in c.tolist()]
    amount = claims.amount.tolist()
    held: dict[tuple[int, int], int] = {}  # an op may hold a component twice
    for i, k, n in zip(op.tolist(), c.tolist(), amount, strict=True):
        held[i, k] = held.get((i, k), 0) + n
    for i, k, n, most in zip(op.tolist(), c.tolist(), amount, whole, strict=True):
        name, where = parts.names[k], f"graph {graph.name!r} op {i}"
        if most < 0:
            raise GraphError(
                "no capacity", f"{where}: holds of {name}, which has no capacity; give it one", (i,)
            )
        if k in parts.stores:
            said = f"{where}: holds of {name}, which is a store; let a process hold its entries"
            raise GraphError("no capacity", said, (i,))
        if n < 1:
            raise GraphError("amount", f"{where}: holds {n} of {name}; hold 1 or more", (i,))
        if held[i, k] > most:
            said = (
                f"{where}: holds {held[i, k]} of {name}; its capacity is {most}, so hold at most "
                "that"
            )
            raise GraphError("amount", said, (i,))


def _refuse_op(
    graph: EngineGraph,
    op: NDArray[np.int64] | NDArray[np.int32],
    bad: NDArray[np.bool_],
    kind: str,
    what: str,
    value: NDArray[np.int32] | None = None,
    count: int | None = None,
) -> None:
    """Raise an error for the first op marked as bad, if there is one."""
    at = np.flatnonzero(bad)
    if not len(at):
        return
    first = int(at[np.argmin(op[at])])
    said = what.format(None if value is None else int(value[first]))
    said += "" if count is None else f"; components are 0 to {count - 1}"
    row = int(op[first])
    raise GraphError(kind, f"graph {graph.name!r} op {row}: {said}", (row,))


def may_exceed_rate_range(parts: ComponentTable, flows: Flows) -> NDArray[np.bool_]:
    """True for each flow whose rate may not fit into 63 bits."""
    bound = np.where(flows.limit == NO_LIMIT, np.inf, flows.limit.astype(np.float64))
    owner = np.repeat(np.arange(len(flows)), np.diff(flows.indptr))
    np.minimum.at(bound, owner, parts.top[flows.component] * (ONE / flows.weight))
    fast = np.isfinite(bound) & (bound >= 0.99 * FASTEST)
    for i in np.flatnonzero(fast).tolist():
        fast[i] = highest_possible_rate(parts, flows.usage(i), int(flows.limit[i])) >= FASTEST
    return fast


def highest_possible_rate(
    parts: ComponentTable, usage: Mapping[int, int], limit: int = NO_LIMIT
) -> int:
    """Highest rate that a flow can reach, in rate units; 0 if nothing bounds it.

    Examples
    --------
    >>> from foretrace.sim.engine_api.engine_literal import literal_components
    >>> highest_possible_rate(literal_components((-1,), (10,)), {0: 2 * ONE}) == 2**57 - 1
    True
    """
    bounds = [int(parts.top[c]) * ONE // weight for c, weight in usage.items()]
    return min([*bounds, *([] if limit == NO_LIMIT else [limit])], default=0)


def check_rate(parts: ComponentTable, component: int, rate: int) -> None:
    """Raise an error if a component cannot be set to a rate.

    Raises
    ------
    SimulationError
        Of kind ``action``.
    """
    name = _component_name(parts, component)
    if parts.rate[component] < 0:
        raise SimulationError("action", f"{name}: has no rate to set; fail() it instead")
    if not rate >= 0:
        raise SimulationError("action", f"{name}: rate is {rate}; it must be >= 0")
    if rate > parts.top[component]:
        raise SimulationError(
            "action",
            f"{name}: rate {rate} is above its maximum {parts.top[component]}; give it a larger "
            f"max_rate",
        )


def check_component(parts: ComponentTable, component: int) -> None:
    """Raise an error if a component number does not exist.

    Raises
    ------
    SimulationError
        Of kind ``action``.
    """
    _component_name(parts, component)


def _component_name(parts: ComponentTable, component: int) -> str:
    if not 0 <= component < len(parts):
        raise SimulationError(
            "action", f"component {component} does not exist; components are 0 to {len(parts) - 1}"
        )
    return parts.names[component]


def check_op(op: int, count: int) -> int:
    """Id of an op as an integer; raise an error if it was never submitted.

    Raises
    ------
    GraphError
        Of kind ``unknown op``.
    """
    if type(op) is int and 0 <= op < count:
        return op

    def refuse(_: str) -> GraphError:
        known = f"ops are 0 to {count - 1}" if count else "submit a graph first"
        ops = (op,) if isinstance(op, int) else ()
        return GraphError("unknown op", f"op {shown(op)} does not exist; {known}", ops)

    return as_integer("op", op, refuse, 0, count - 1)


def check_resume(
    parts: ComponentTable,
    op: int,
    places: int,
    slots: Sequence[int] | None,
    usage: Mapping[int, int] | None,
) -> None:
    """Raise an error if a stopped op cannot resume with these slots or this usage.

    Raises
    ------
    SimulationError
        Of kind ``action``.
    """
    wrong = ""
    if slots is not None and len(slots) != places:
        wrong = f"{len(slots)} slots for {places} ranks; give one slot for each rank"
    for c in slots or ():
        if c != -1 and not (0 <= c < len(parts) and parts.slots[c] >= 0):
            wrong = f"component {c} has no slots; name one with slots, or write -1"
        elif c != -1 and places > 1 and parts.queues and parts.queues.turns_away()[c]:
            wrong = f"it runs on several ranks, and the queue of component {c} turns ops away"
    if wrong := wrong or _why_usage_refused(parts, usage or {}, NO_LIMIT):
        raise SimulationError("action", f"op {op}: it cannot be resumed: {wrong}", (op,))


def _why_usage_refused(parts: ComponentTable, usage: Mapping[int, int], limit: int) -> str:
    """Reason why an op cannot have a usage; "" if it can."""
    for c, weight in usage.items():
        if not (0 <= c < len(parts) and parts.rate[c] >= 0) or not 1 <= weight < MOST_WEIGHT:
            return (
                f"usage of component {c} with weight {weight}; name a component with a rate, and a "
                f"weight of 1 or more and below {MOST_WEIGHT}"
            )
    if len(units := parts.units(usage)) > 1:
        return f"usage in several units ({', '.join(sorted(units))}); use components of one unit"
    if len({parts.is_plugged([c]) for c in usage}) > 1:
        names = _component_names(parts, usage)
        return f"usage in two media ({names}); use components of one medium"
    fast = highest_possible_rate(parts, usage, limit) >= FASTEST
    return "weights that allow a rate of 2^62 units or more; give a limit" if fast else ""


def why_move_refused(
    parts: ComponentTable, before: Mapping[int, int], after: Mapping[int, int]
) -> str:
    """Reason why an op's remaining work cannot continue with another usage; "" if it can.

    Remaining work has the unit of the components used before; without any, that of the op's limit.
    """
    if not after or parts.units(before) == parts.units(after):
        return ""
    names = _component_names(parts, before) or "its limit"
    others = _component_names(parts, after)
    return (
        f"its work has the unit of {names}, and {others} has another unit; move it to components "
        "of the same unit"
    )


def _component_names(parts: ComponentTable, usage: Mapping[int, int]) -> str:
    return ", ".join(parts.names[c] for c in usage)


def check_amount(parts: ComponentTable, component: int, amount: int) -> None:
    """Raise an error if an amount of a capacity cannot be requested.

    Raises
    ------
    SimulationError
        Of kind ``action``.
    """
    name, whole = _component_name(parts, component), parts.capacity_of(component)
    if whole < 0:
        raise SimulationError("action", f"{name}: has no capacity; give the component one")
    if component in parts.stores:
        raise SimulationError("action", f"{name}: is a store; hold entries of it, not an amount")
    if not 1 <= amount <= whole:
        raise SimulationError(
            "action", f"{name}: amount is {amount}; it must be between 1 and its capacity {whole}"
        )


def check_release(parts: ComponentTable, component: int, amount: int, held: int) -> None:
    """Raise an error if more is released than the owner holds.

    Raises
    ------
    SimulationError
        Of kind ``action``.
    """
    if amount > held:
        raise SimulationError(
            "action",
            f"{_component_name(parts, component)}: {amount} released, but its owner holds {held} "
            "of it; release each amount once",
        )


def check_reaches(
    parts: ComponentTable, what: str, component: int, at_least: int | None, at_most: int | None
) -> None:
    """Raise an error for an invalid threshold.

    Raises
    ------
    SimulationError
        Of kind ``action``.
    """
    name = _component_name(parts, component)
    if not isinstance(what, str) or what not in ("queue", "held", "flows"):
        raise SimulationError(
            "action", f"{name}: {shown(what)} is unknown; give queue, held or flows"
        )
    has = parts.rate if what == "flows" else parts.slots
    if has[component] < 0 and (what == "flows" or parts.capacity_of(component) < 0):
        raise SimulationError(
            "action", f"{name}: it has no {what}; name another component, or another quantity"
        )
    if at_least is None and at_most is None:
        raise SimulationError("action", f"{name}: give at_least or at_most")
    for bound, value in (("at_least", at_least), ("at_most", at_most)):
        if value is not None:
            as_integer(bound, value, lambda why: SimulationError("action", f"{name}: {why}"))


def check_answer(parts: ComponentTable, op: int, answer: Answer) -> None:
    """Raise an error if an online backend returned an impossible timing.

    Raises
    ------
    BackendError
        The message names the op and the value.
    """
    wrong = ""
    if answer.fixed < 0 or answer.work < 0 or answer.limit < NO_LIMIT:
        wrong = f"{answer}, with a negative number; return 0 or more"
    elif answer.fixed > MAX_TICK or answer.limit > MAX_TICK:
        wrong = f"{answer}, with a number that does not fit in 63 bits; return smaller ones"
    elif answer.work >> WORK_BITS:
        wrong = f"work {answer.work}, which does not fit in 127 bits; return less work"
    elif answer.work and not answer.usage and answer.limit == NO_LIMIT:
        wrong = UNBOUNDED
    if wrong := wrong or _why_usage_refused(parts, answer.usage, answer.limit):
        raise BackendError(f"op {op}: its online backend returned {wrong}")
