"""Calls of the kernels of policies: the event, what it observes, and its actions.

An action that needs Python is left to it: `note_actions` then returns `SLOW`, and Python goes on
with the same row (``sim/run/policies/policy_run.py``).
"""

from __future__ import annotations

import numpy as np

from ...kernel import policy_rows as rows
from ...kernel.jit import Int, jit_without_refcounts
from ...kernel.native_calls import array_at, call_adapter, table_at
from ..memory import state_layout as lay
from ..memory.state_layout import NONE
from .desk_layout import (
    ACTIONS,
    ACTOR,
    ADAPTER,
    AMOUNT,
    ARRIVAL_COLUMNS,
    ARRIVAL_COUNT,
    ARRIVALS,
    AT,
    BEGAN,
    BEGINS,
    BLOCKED,
    BY,
    CALLED,
    CALLING,
    CHANGE_BY,
    CHANGED,
    CHANGED_AT,
    CHANGES,
    CODE,
    COMPONENT,
    EVENT,
    EVENTS,
    EVENTS_AT_TICK,
    FIRST_OF,
    FULL,
    HAS_RATE,
    HEAD,
    HOLDING,
    KIND,
    LATE,
    MAY,
    METRIC,
    METRICS,
    NEXT_SETTLED,
    NOTED,
    NUMBER,
    ORDER,
    OWN,
    PART_COUNT,
    PARTS,
    ROW,
    SAMPLES,
    SETTLED,
    SETTLED_OF,
    SETTLED_TAG,
    SLOW,
    TAG,
    TAKEN,
    TICK,
    TIMERS,
    USED,
    VALUES,
    WAITS,
    WHEN,
    WHOSE,
    Array,
    Desk,
)
from .mail_layout import LETTER_A, LETTER_B, LETTER_C, RECEIVER, SENDER
from .mail_lists import answer_box, free_letter, next_delivered, note_letter, receive
from .noted_actions import note
from .store_desk import CHANGED as STORES_CHANGED
from .submissions import note_submission
from .timer_heap import lift_timer, sink_first_timer

ARRIVAL_FIELDS = 3


@jit_without_refcounts
def set_timer(desk: Desk, p: Int, tick: Int, kind: Int, tag: Int) -> None:
    """Add a timer of a policy; the heap must have room."""
    now, timers = desk.now, desk.timers
    row = now[TIMERS]
    timers[row, AT], timers[row, ORDER] = tick, now[NUMBER]
    timers[row, WHOSE], timers[row, KIND], timers[row, TAG] = p, kind, tag
    now[NUMBER] += 1
    now[TIMERS] += 1
    desk.policies[p, WAITS] += 1
    lift_timer(timers, row)


@jit_without_refcounts
def begin_call(desk: Desk, p: Int, kind: Int, tag: Int, a: Int, b: Int, c: Int) -> None:
    """Begin to call a policy's kernel for an event."""
    now = desk.now
    event = array_at(now, desk.policies[p, EVENT], np.int64(rows.EVENT_COLUMNS))
    event[rows.KIND], event[rows.TAG], event[rows.NOW] = kind, tag, now[TICK]
    event[rows.A], event[rows.B], event[rows.C] = a, b, c
    now[CALLING], now[CALLED], now[ROW] = p, 0, 0
    now[EVENTS] += 1
    now[EVENTS_AT_TICK] += 1
    desk.policies[p, WAITS] -= 1


@jit_without_refcounts
def begin_call_of_timer(desk: Desk) -> None:
    """Begin to call a kernel for the first timer."""
    now, timers = desk.now, desk.timers
    p, kind, tag = timers[0, WHOSE], timers[0, KIND], timers[0, TAG]
    now[TIMERS] -= 1
    sink_first_timer(timers, now[TIMERS])
    if kind == rows.MESSAGE:
        begin_call_with_letter(desk, tag)
        return
    if kind != rows.ARRIVAL:
        begin_call(desk, p, kind, tag, 0, 0, 0)
        return
    of = desk.policies[p]
    columns = table_at(now, of[ARRIVAL_COLUMNS], of[ARRIVAL_COUNT], np.int64(ARRIVAL_FIELDS))
    begin_call(desk, p, kind, tag, columns[tag, 0], columns[tag, 1], columns[tag, 2])


@jit_without_refcounts
def begin_call_of_message(desk: Desk) -> None:
    """Begin to call a kernel for the next message that was delivered in this turn."""
    begin_call_with_letter(desk, next_delivered(desk.mail))


@jit_without_refcounts
def begin_call_with_letter(desk: Desk, k: Int) -> None:
    """Begin to call a kernel for a letter that it received."""
    one = desk.mail.letters[k]
    p, a, b, c = one[RECEIVER], one[LETTER_A], one[LETTER_B], one[LETTER_C]
    tag = answer_box(desk.mail, p, one[SENDER])
    free_letter(desk.mail, k)
    begin_call(desk, p, np.int64(rows.MESSAGE), tag, a, b, c)


@jit_without_refcounts
def begin_call_of_settled(desk: Desk) -> None:
    """Begin to call a kernel because this turn has settled."""
    now = desk.now
    one = desk.settled[now[NEXT_SETTLED]]
    now[NEXT_SETTLED] += 1
    if now[NEXT_SETTLED] == now[SETTLED]:
        now[NEXT_SETTLED] = now[SETTLED] = 0
    begin_call(desk, one[SETTLED_OF], np.int64(rows.SETTLED), one[SETTLED_TAG], 0, 0, 0)


@jit_without_refcounts
def await_message(desk: Desk, p: Int) -> None:
    """Wait for the next message; one that was kept arrives like a timer of no time."""
    k = receive(desk.mail, p)
    if k == NONE:
        desk.policies[p, WAITS] += 1
    else:
        set_timer(desk, p, desk.now[TICK], np.int64(rows.MESSAGE), k)


@jit_without_refcounts
def takeable(desk: Desk, world: Array, k: Int) -> Int:
    """Largest amount of a used part that a process could take now."""
    of = desk.used[k]
    if of[BLOCKED] == NONE:
        return of[AMOUNT]  # of a store: any amount is an error
    part = world[lay.PARTS] + of[COMPONENT] * lay.PART
    if of[BLOCKED] or world[part + lay.FAILED] or world[part + lay.HEAD] != NONE:
        return 0
    taken = desk.own[desk.own[of[OWN], FIRST_OF], TAKEN]
    return of[AMOUNT] - world[part + lay.TAKEN] - taken


@jit_without_refcounts
def waiting(world: Array, part: Int) -> Int:
    """Number of requests in the line of a capacity."""
    count, number = 0, world[part + lay.HEAD]
    while number != NONE:
        count += 1
        number = world[world[lay.CLAIMS] + number * lay.CLAIM + lay.BEHIND]
    return count


@jit_without_refcounts
def observe(desk: Desk, world: Array, p: Int) -> bool:
    """Fill the policy's table of parts; False if only Python can."""
    of = desk.policies[p]
    parts = table_at(desk.now, of[PARTS], of[PART_COUNT], np.int64(rows.PART_COLUMNS))
    for i in range(of[PART_COUNT]):
        k = of[USED] + i
        part = world[lay.PARTS] + desk.used[k, COMPONENT] * lay.PART
        total = desk.used[k, AMOUNT]
        parts[i, rows.TOTAL] = total
        parts[i, rows.FAILED] = world[part + lay.FAILED]
        parts[i, rows.HELD] = world[part + lay.TAKEN]
        parts[i, rows.TAKEABLE] = takeable(desk, world, k) if total >= 0 else 0
        parts[i, rows.WAITING] = waiting(world, part) if total >= 0 else 0
        if desk.used[k, HAS_RATE]:
            if world[lay.FLOWS]:
                return False  # its rate in use is a sum over all flows
            parts[i, rows.HELD] = 0
    return True


@jit_without_refcounts
def go_on_with_call(desk: Desk, world: Array) -> Int:
    """Call the kernel, unless it was called, and note its actions; 0, or why Python must go on."""
    now = desk.now
    p = now[CALLING]
    of = desk.policies[p]
    head = array_at(now, of[HEAD], np.int64(rows.HEAD_FIELDS))
    if not now[CALLED]:
        if not observe(desk, world, p):
            return SLOW
        head[rows.COUNT] = head[rows.STORE_STATE] = 0
        changed = desk.stores.numbers[STORES_CHANGED]
        now[CODE] = call_adapter(of[ADAPTER], desk.calls, p)
        now[CALLED] = 1
        if desk.stores.numbers[STORES_CHANGED] and not changed:
            now[ACTOR] = p
        is_known = now[CODE] == rows.GO_ON or now[CODE] == rows.DONE
        if not is_known or head[rows.COUNT] > head[rows.MOST]:
            return SLOW
    actions = table_at(now, of[ACTIONS], head[rows.MOST] + 1, np.int64(rows.ACTION_COLUMNS))
    values = array_at(desk.values, of[VALUES], head[rows.MOST] + 1)
    while now[ROW] < head[rows.COUNT]:
        code = note_action(desk, p, actions, values, head[rows.COUNT])
        if code:
            return code
        now[ROW] += 1
    if now[CODE] != rows.GO_ON:
        return SLOW
    event = array_at(now, of[EVENT], np.int64(rows.EVENT_COLUMNS))
    if event[rows.KIND] == rows.ARRIVAL and event[rows.TAG] + 1 < of[ARRIVAL_COUNT]:
        if now[TIMERS] == len(desk.timers):
            return FULL
        ticks = array_at(now, of[ARRIVALS], of[ARRIVAL_COUNT])
        row = event[rows.TAG] + 1
        set_timer(desk, p, ticks[row], np.int64(rows.ARRIVAL), row)
    if event[rows.KIND] == rows.MESSAGE:
        if now[TIMERS] == len(desk.timers):
            return FULL
        await_message(desk, p)
    if of[WAITS] == 0:
        return SLOW
    now[CALLING] = NONE
    return 0


@jit_without_refcounts
def note_action(desk: Desk, p: Int, actions: Array, values: Array, count: Int) -> Int:
    """Note one action of a call; 0, or why Python must go on with it."""
    now = desk.now
    row = now[ROW]
    verb = actions[row, rows.VERB]
    if verb == rows.AFTER:
        delay = actions[row, rows.A]
        if not 0 <= delay <= LATE - now[TICK]:
            return SLOW
        if now[TIMERS] == len(desk.timers):
            return FULL
        tick, tag = now[TICK] + delay, actions[row, rows.TAG]
        set_timer(desk, p, tick, np.int64(rows.TIMER), tag)
        return 0
    if verb == rows.EMIT:
        if not 0 <= actions[row, rows.A] < desk.policies[p, METRICS]:
            return SLOW
        return note_sample(desk, p, actions[row, rows.A], values[row])
    if now[NOTED] == len(desk.noted):
        return FULL
    if verb == rows.SUBMIT:
        return note_submission(desk, p, actions, count)
    if verb == rows.SEND:
        return note_letter(desk, p, actions)
    if verb == rows.SETTLE:
        desk.policies[p, WAITS] += 1
        note(desk, p, verb, actions[row, rows.TAG], 0, p)
        return 0
    if verb == rows.TAKE or verb == rows.RELEASE:
        return note_amount(desk, p, verb, actions[row, rows.A], actions[row, rows.B])
    return SLOW


@jit_without_refcounts
def note_sample(desk: Desk, p: Int, metric: Int, value: Int) -> Int:
    """Note a sample of a metric."""
    now = desk.now
    k = now[SAMPLES]
    if k == len(desk.samples):
        return FULL
    desk.samples[k, BY], desk.samples[k, METRIC], desk.samples[k, WHEN] = p, metric, now[TICK]
    desk.values[k] = value
    now[SAMPLES] += 1
    return 0


@jit_without_refcounts
def note_amount(desk: Desk, p: Int, verb: Int, part: Int, amount: Int) -> Int:
    """Note that an amount of a capacity is taken or released; the process owns it at once."""
    now, own = desk.now, desk.own
    if not 0 <= part < desk.policies[p, PART_COUNT]:
        return SLOW
    used = desk.used[desk.policies[p, USED] + part]
    if not used[MAY] or not 1 <= amount <= used[AMOUNT]:
        return SLOW
    if now[CHANGES] == len(desk.changes):
        return FULL
    k = used[OWN]
    if verb == rows.RELEASE:
        if own[k, HOLDING] < amount:
            return SLOW  # others of the same owner may hold it, or it is an error
        amount = -amount
    else:
        own[own[k, FIRST_OF], TAKEN] += amount
        if own[k, HOLDING] == 0:
            own[k, BEGAN] = now[BEGINS]
            now[BEGINS] += 1
    own[k, HOLDING] += amount
    note_change(desk, used[COMPONENT], amount)
    note(desk, p, verb, used[COMPONENT], amount, k)
    return 0


@jit_without_refcounts
def note_change(desk: Desk, component: Int, amount: Int) -> None:
    """Note a change of what processes hold; changes of one tick in a row are one."""
    now, k = desk.now, desk.now[CHANGES]
    last = desk.changes[k - 1 if k else 0]
    if k and last[CHANGED] == component and last[CHANGED_AT] == now[TICK]:
        last[CHANGE_BY] += amount
        return
    change = desk.changes[k]
    change[CHANGED_AT], change[CHANGED], change[CHANGE_BY] = now[TICK], component, amount
    now[CHANGES] += 1
