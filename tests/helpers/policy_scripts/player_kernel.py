"""A kernel that plays a script of actions, and says all that it sees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from foretrace.sim.kernel import policy, policy_store
from foretrace.sim.kernel.jit import jit
from foretrace.sim.run.policies.compiled_process import CompiledProcess, GraphOnWays, Mail
from numpy.typing import NDArray
from policy_scripts import script as verbs
from policy_scripts.machine import graphs, grid, ways
from policy_scripts.script import PolicyScript

Ints = NDArray[np.int64]
LAST, HELD, OPEN, SUBMITTED = 0, 1, 5, 9  # of `now`: the step; then per part; per tag, twice
CAPACITIES, PARTS = verbs.CAPACITIES, len(verbs.PARTS)
KEYS, STORES = verbs.KEYS, len(verbs.STORES)


class State(NamedTuple):
    """Where the player is, and what it plays."""

    now: Ints
    first: Ints  # first action of each step
    actions: Ints
    codes: Ints
    rows: Ints  # that `table` must have at each step
    table: Ints
    kept: Ints  # number of holds of each entry, per store and key


@jit
def look_at_stores(turn):
    """Emit all that is seen of the stores."""
    for part in range(PARTS, PARTS + STORES):
        seen = 0
        for key in range(KEYS):
            seen = 16 * seen + policy_store.owners(turn, part, key) + 1
            seen = 4 * seen + policy_store.size(turn, part, key)
        policy.emit(turn, 1, seen)
        amounts = policy_store.used(turn, part), policy_store.held(turn, part)
        policy.emit(turn, 1, 100 * amounts[0] + amounts[1])
        policy.emit(turn, 1, 10 * policy.held(turn, part) + policy.failed(turn, part))


@jit
def use_store(state, turn, row):
    """Act on a store."""
    verb, part, key, c, must = row[0], row[1], row[2], row[3], row[4]
    at = (part - PARTS) * KEYS + key
    if verb == verbs.KEEP:
        held = policy_store.hold(turn, part, key, c)
        policy.emit(turn, 2, held)
        if held:
            state.kept[at] += 1
    elif verb == verbs.LET_GO:
        if must or state.kept[at]:
            policy_store.release(turn, part, key)
            if not must:
                state.kept[at] -= 1
    elif verb == verbs.PREFIX:
        keys = np.array([key, c, key + 1])
        policy.emit(turn, 2, policy_store.longest_prefix(turn, part, keys))
    elif must or policy_store.owners(turn, part, key) >= 0:
        if verb == verbs.DROP:
            policy.emit(turn, 2, policy_store.drop(turn, part, key))
        elif verb == verbs.TOUCH:
            policy_store.touch(turn, part, key)
        else:
            policy_store.set_order(turn, part, key, c)


@policy.policy_kernel
def play(state, event, turn):
    now, k = state.now, min(state.now[LAST], len(state.codes) - 1)
    if len(state.table) < state.rows[k]:
        return policy.grow(turn, 5, state.rows[k])
    kind, tag = event[policy.KIND], event[policy.TAG]
    for column in range(policy.C + 1):
        policy.emit(turn, 0, event[column])
    for part in range(PARTS):
        seen = policy.failed(turn, part) + 0
        if part < CAPACITIES:
            seen += 10 * policy.waiting(turn, part) + 1000 * policy.free(turn, part)
        policy.emit(turn, 1, seen)
    look_at_stores(turn)
    if kind in (policy.TIMER, policy.GRANT, policy.ENDED, policy.SETTLED):
        now[OPEN + tag] -= 1
    if kind == policy.ENDED:
        now[SUBMITTED + tag] -= 1
    if kind == policy.GRANT:
        now[HELD + event[policy.A]] += event[policy.B]
    for i in range(state.first[k], state.first[k + 1]):
        row = state.actions[i]
        verb, a, b, c, d = row[0], row[1], row[2], row[3], row[4]
        if verb == verbs.SUBMIT:
            policy.submit(turn, a, b)
            now[OPEN + b] += 1
            now[SUBMITTED + b] += 1
            if d >= verbs.ON_WAY:
                policy.with_way(turn, d // verbs.ON_WAY - 1)
            if a == verbs.GRID:
                policy.at(turn, 0, c)
            elif c:
                policy.with_flop(turn, 0, c)
            if d % verbs.ON_WAY:
                policy.with_key(turn, d % verbs.ON_WAY)
        elif verb == verbs.AFTER:
            policy.after(turn, a, b)
            now[OPEN + b] += 1
        elif verb == verbs.TAKE:
            took = policy.take(turn, a, b)
            policy.emit(turn, 2, took)
            if took and 0 <= a < CAPACITIES:
                now[HELD + a] += b
        elif verb == verbs.ACQUIRE:
            policy.acquire(turn, a, b, c)
            now[OPEN + c] += 1
        elif verb == verbs.RELEASE:
            amount = b if d else min(b, now[HELD + a])
            if amount:
                policy.release(turn, a, amount)
                now[HELD + a] -= amount
        elif verb == verbs.SEND:
            policy.send(turn, a, b, c, d)
        elif verb == verbs.RATE:
            policy.set_rate(turn, a, b * 1e8)
        elif verb == verbs.SAY:
            policy.emit(turn, a, b)
        elif verb == verbs.COUNT:
            policy.count(turn, a, b)
        elif verb == verbs.RECORD:
            policy.record(turn, a, b)
        elif verb == verbs.CANCEL:
            if d or now[OPEN + a]:
                policy.cancel(turn, a)
                now[OPEN + a] = now[SUBMITTED + a]
        elif verb == verbs.WATCH:
            if d or now[SUBMITTED + a]:
                policy.watch(turn, a)
        elif verb == verbs.SETTLE:
            policy.settle(turn, a)
            now[OPEN + a] += 1
        elif verb == verbs.LOOK:
            policy.emit(turn, 2, policy.free(turn, a))
        elif verb >= verbs.KEEP:
            use_store(state, turn, row)
    now[LAST] = k + 1
    return state.codes[k]


def compiled(script: PolicyScript) -> CompiledProcess:
    """The script as a compiled process."""
    steps, known = script.steps, graphs()
    sizes = [len(step.actions) for step in steps]
    flat = [action for step in steps for action in step.actions]
    at, columns = zip(*script.arrivals, strict=True) if script.arrivals else ((), ())
    on_ways = {name: GraphOnWays(known[name], ways()[name]) for name in verbs.GRAPHS}
    return CompiledProcess(
        play,
        State(
            np.zeros(SUBMITTED + verbs.TAGS, np.int64),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.array(flat, np.int64).reshape(-1, 5),
            np.array([step.code for step in steps], np.int64),
            np.array([step.rows for step in steps], np.int64),
            np.zeros(1, np.int64),
            np.zeros(KEYS * STORES, np.int64),
        ),
        graphs={**on_ways, "sized": grid()},
        arrivals=(np.array(at, float) * 1e-9, np.array(columns, np.int64)),
        parts=(*verbs.PARTS, *verbs.STORES),
        metrics=verbs.METRICS,
        counters=verbs.COUNTERS,
        series=verbs.SERIES,
        mail=Mail(verbs.BOXES, script.inbox),
        name=script.name,
        actions=200,
    )
