"""Plain engine of a stream of items, in SimPy: it defines what the compiled one means.

Each event is a SimPy timeout. So events of one tick happen in the order of their creation.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import simpy

from ..engine_api.item_setup import ItemSetup
from ..facts.items import layout as lay
from ..facts.items.arrival_process import TABLE
from ..facts.items.layout import NONE, ItemSums, ItemTurn
from ..facts.sampling import random_bits
from .item_arrivals import arrival_ticks


class Item:
    """Item inside: its row for the policy, the pool in which it is, and since when it waits."""

    def __init__(self, row: Any):
        self.row, self.at, self.since, self.visits = row, NONE, 0, 0


class PlainPool:
    """Pool with its line and the items that wait for it at their source."""

    def __init__(self, servers: int | None, length: int, others: Sequence[int], last: int):
        self.servers = float("inf") if servers is None else servers
        self.length = float("inf") if length == NONE else length
        self.others, self.last = others, last
        self.busy = 0
        self.line: deque[Item] = deque()
        self.held_up: deque[Item] = deque()

    @property
    def has_room(self) -> bool:
        """True if one more item may come; free servers count as room."""
        return len(self.line) < self.length + self.servers - self.busy


class ItemError(Exception):
    """What is wrong with a stream: a status and a value."""

    def __init__(self, status: int, wrong: int):
        super().__init__(status, wrong)
        self.status, self.wrong = status, wrong


class ReferenceItems:
    """Plain engine of one stream, with the methods of the compiled one.

    Parameters
    ----------
    setup : what it starts from
    """

    def __init__(self, setup: ItemSetup):
        self.setup = setup
        self._step: Callable[..., int] = getattr(setup.step, "py_func", setup.step)
        self._wanted: Sequence[tuple[int, int, int]] = ()
        self._kept = (0, setup.start - 1)
        self._begin()

    def _begin(self) -> None:
        setup = self.setup
        self.state = copy.deepcopy(setup.state)
        self._env = simpy.Environment(initial_time=setup.start)
        queues = setup.queues
        self._pools = [
            PlainPool(n, int(queues.length[k]), queues.elsewhere[k].tolist(), int(queues.last[k]))
            for k, n in enumerate(setup.servers)
        ]
        head = np.zeros(lay.HEAD_FIELDS, np.int64)
        head[lay.PER_SECOND], head[lay.NOW] = setup.per_second, setup.start
        head[lay.KEY] = random_bits(*setup.key).astype(np.int64).item()
        shown = np.zeros((len(self._pools), 3), np.int64)
        shown[:, lay.SERVERS] = [2**62 if n is None else n for n in setup.servers]
        self._turn = ItemTurn(head, shown, np.zeros(setup.counters, np.int64))
        self._sums = _empty_sums(setup.classes, len(self._pools))
        self.inside, self.steps, self.wrong = 0, 0, 0
        self._status = lay.GOES_ON
        self._ticks = arrival_ticks(setup)
        self._number = 0
        self._await_arrival()

    # The interface of an engine.

    def run(self, horizon: int, budget: int) -> int:
        """Process events up to and including a tick; returns a status."""
        while self._status == lay.GOES_ON:
            if self._env.peek() == float("inf"):
                return lay.DEADLOCK if self.inside else lay.OVER
            if self._env.peek() > horizon:
                return lay.REACHED
            if budget == 0:
                return lay.BUDGET
            if self.inside == self.setup.most_inside and self._arrives_next:
                return lay.NO_ROWS
            budget -= 1
            self._process_event()
            if any(self.value(*want[:2]) >= want[2] for want in self._wanted):
                return self._status
        return self._status

    def _process_event(self) -> None:
        self.steps += 1
        try:
            self._env.step()
        except ItemError as fault:
            self._status, self.wrong = fault.status, fault.wrong

    def keep(self) -> None:
        """Remember the present state, to `rewind` to."""
        self._kept = self.steps, self.now

    def rewind(self) -> None:
        """Return to the state that was kept last, by doing all again."""
        self._begin()
        for _ in range(self._kept[0]):
            self._process_event()

    def want(self, wanted: Sequence[tuple[int, int, int]]) -> None:
        """Stop where one of these quantities has reached its value."""
        self._wanted = wanted

    @property
    def now(self) -> int:
        """Tick of the last event."""
        return int(self._turn.head[lay.NOW])

    @property
    def full_pools(self) -> list[int]:
        """Pools for which items wait at their source."""
        return [k for k, pool in enumerate(self._pools) if pool.held_up]

    @property
    def longest_line(self) -> int:
        """Pool with the longest line."""
        return max(range(len(self._pools)), key=lambda k: len(self._pools[k].line))

    def value(self, quantity: int, of: int = 0) -> int:
        """Present value of a quantity."""
        if quantity == lay.COUNTER:
            return int(self._turn.counts[of])
        if quantity == lay.LINE:
            return len(self._pools[of].line)
        sums = self._sums
        by_class = {
            lay.ARRIVED_ITEMS: sums.came, lay.ENDED_ITEMS: sums.left, lay.DROPPED_ITEMS: sums.lost,
        }  # fmt: skip
        return sum(by_class[quantity])

    def sums(self) -> ItemSums:
        """Sums so far."""
        return self._sums._replace(inside=self.inside, counts=self._turn.counts.tolist())

    # Events.

    def _after(self, ticks: int, call: Callable[[], None]) -> simpy.Event:
        event = self._env.timeout(ticks)
        event.callbacks.append(lambda _: self._at_event(call))
        return event

    def _at_event(self, call: Callable[[], None]) -> None:
        self._turn.head[lay.NOW] = int(self._env.now)
        call()
        if self._turn.head[lay.STATUS] != lay.GOES_ON:
            raise ItemError(self._turn.head.item(lay.STATUS), self._turn.head.item(lay.WRONG))

    def _await_arrival(self) -> None:
        tick = next(self._ticks, None)
        self._next_arrival = None
        if tick is not None:
            self._next_arrival = self._after(tick - int(self._env.now), self._arrive)

    @property
    def _arrives_next(self) -> bool:
        return self._env._queue[0][3] is self._next_arrival

    def _arrive(self) -> None:
        row = np.zeros(lay.SEEN_COLUMNS, np.int64)
        row[lay.NUMBER], row[lay.ARRIVED] = self._number, self._env.now
        arrivals = self.setup.arrivals
        if arrivals.kind == TABLE:
            columns = arrivals.columns[self._number]
            row[lay.A : lay.A + len(columns)] = columns
        self._number += 1
        self.inside += 1
        item = Item(row)
        answer = self._call(lay.ARRIVES, item, NONE)
        self._sums.came[self._class(item)] += 1
        self._route(item, answer)
        self._await_arrival()

    def _end(self, item: Item) -> None:
        source = item.at
        self._sums.worked[self._class(item)][source] += int(self._env.now) - item.since
        answer = self._call(lay.ENDS, item, source)
        if self._route(item, answer):
            self._serve_freed(source)

    # Pools.

    def _route(self, item: Item, answer: int) -> bool:
        """Send an item where the policy said; False if it waits at its source."""
        of = self._class(item)
        if answer == lay.LEAVE:
            latency = int(self._env.now) - int(item.row[lay.ARRIVED])
            self._sums.left[of] += 1
            self._sums.latency[of] += latency
            self._sums.longest[of] = max(self._sums.longest[of], latency)
            assert self._sums.latencies is not None  # noqa: S101
            self._sums.latencies[of].append(latency)
            self.inside -= 1
            return True
        pool = NONE if answer == lay.DROP else self._pool_with_room(answer)
        if pool == NONE:
            at = item.at if answer == lay.DROP else answer  # item.at is -1 outside: the last column
            self._sums.drops[of][at] += 1
            self._sums.lost[of] += 1
            self.inside -= 1
            return True
        item.since = int(self._env.now)
        if not self._pools[pool].has_room:
            self._pools[pool].held_up.append(item)
            return False
        self._enter(item, pool)
        return True

    def _pool_with_room(self, number: int) -> int:
        """Pool to which an item goes that was sent to one; NONE to drop it."""
        pool = self._pools[number]
        tried = (number, *pool.others)
        return next((k for k in tried if self._pools[k].has_room), pool.last)

    def _enter(self, item: Item, number: int) -> None:
        pool = self._pools[number]
        item.at = number
        if pool.busy < pool.servers:
            self._start(item, number)
        else:
            pool.line.append(item)

    def _start(self, item: Item, number: int) -> None:
        """Let a server take an item."""
        now = int(self._env.now)
        waited, item.since = now - item.since, now
        self._pools[number].busy += 1
        time = self._call(lay.STARTS, item, number)
        of = self._class(item)
        self._sums.served[of][number] += 1
        self._sums.waited[of][number] += waited
        item.visits = 0 if waited or time else item.visits + 1
        if item.visits > lay.MOST_VISITS:
            self._note_fault(lay.LOOP, number)
        self._after(time, lambda: self._end(item))

    def _serve_freed(self, first: int) -> None:
        """Let freed servers go on: of one pool after the other, in the order in which they came."""
        freed = deque([first])
        while freed:
            number = freed[0]
            pool = self._pools[number]
            pool.busy -= 1
            if pool.line:
                self._start(pool.line.popleft(), number)
            if pool.held_up and pool.has_room:
                item = pool.held_up.popleft()
                source = item.at
                self._enter(item, number)
                if source != NONE:
                    _insert_behind_its_pool(freed, source)
            freed.popleft()

    # The policy.

    def _call(self, kind: int, item: Item, number: int) -> int:
        """Call the policy for one item; the answer of a wrong call is to leave, or no time."""
        head, pools = self._turn.head, self._turn.pools
        head[lay.KIND], head[lay.POOL] = kind, number
        for k, pool in enumerate(self._pools):
            pools[k, lay.BUSY], pools[k, lay.WAITING] = pool.busy, len(pool.line)
        with np.errstate(over="ignore"):  # as in compiled code
            answer = int(self._step(self.state, item.row, self._turn) | 0)  # refuses floats
        if not 0 <= item.row[lay.CLASS] < self.setup.classes:
            self._note_fault(lay.BAD_CLASS, int(item.row[lay.CLASS]))
            item.row[lay.CLASS] = 0
        if kind == lay.STARTS and not 0 <= answer <= lay.MAX_TICK - int(self._env.now):
            self._note_fault(lay.BAD_TIME if answer < 0 else lay.OVERFLOW, answer)
            return 0
        if kind != lay.STARTS and not lay.DROP <= answer < len(self._pools):
            self._note_fault(lay.BAD_POOL, answer)
            return lay.LEAVE
        return answer

    def _note_fault(self, status: int, wrong: int) -> None:
        if self._turn.head[lay.STATUS] == lay.GOES_ON:
            self._turn.head[lay.STATUS], self._turn.head[lay.WRONG] = status, wrong

    def _class(self, item: Item) -> int:
        return int(item.row[lay.CLASS])


def _insert_behind_its_pool(freed: deque[int], source: int) -> None:
    """Append a freed server; servers of a pool that is in the list already go on with that pool."""
    places = [k for k, pool in enumerate(freed) if pool == source]
    freed.insert(places[-1] + 1 if places else len(freed), source)


def _empty_sums(classes: int, pools: int) -> ItemSums:
    def zeros(columns: int) -> list[list[int]]:
        return [[0] * columns for _ in range(classes)]

    def totals() -> list[int]:
        return [0] * classes

    return ItemSums(
        zeros(pools), zeros(pools), zeros(pools), zeros(pools + 1), totals(), totals(), totals(),
        totals(), totals(), 0, [], [[] for _ in range(classes)],
    )  # fmt: skip
