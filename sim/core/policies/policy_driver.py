"""Driver of compiled processes: between two ticks it runs their kernels in the compiled loop.

What the processes wait for moves from SimPy's queue to the desk, and back when anybody else has an
event, or when Python must decide something. ``sim/run/policies/policy_run.py`` then goes on; so it
defines what a compiled process means, and this folder only makes it fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import simpy

from ...engine_api.driven_policy import DrivenPolicy
from ...engine_api.interface import MAX_TICK
from ...engine_api.simpy_clock import NOTHING_RAN, Turn
from ...kernel.jit import compiled_for_arrays
from ..memory import state_layout as lay
from ..memory.state_layout import NONE
from ..simpy_loop import SimpyLoop
from . import desk_layout as dl
from .desk_filling import QueuedWaits
from .desk_layout import Array
from .desk_return import ReturnedDesk

DULL, LONGEST_REST = 16, 1 << 10  # calls in a loop that are too few; events until the next try


class PolicyDriver:
    """Driver of the compiled processes of one run.

    Parameters
    ----------
    engine : compiled engine of the run
    """

    def __init__(self, engine: SimpyLoop):
        self.engine = engine
        self.policies: list[DrivenPolicy] = []
        self.addresses: dict[DrivenPolicy, tuple[int, int]] = {}
        self._arrivals: dict[DrivenPolicy, Array] = {}
        self._rest = 0  # events until the next try
        self._owner = np.full(1, NONE, np.int64)

    def add(self, policy: DrivenPolicy) -> bool:
        """Drive a compiled process, if its kernel is compiled and returns integers: then True."""
        from ...kernel.native_calls import call_addresses

        if not hasattr(policy.kernel, "overloads"):
            return False
        found = call_addresses(policy.kernel, policy.state, policy.event, policy.turn)
        if found is not None:
            self.policies.append(policy)
            self.addresses[policy] = found
            self._arrivals[policy] = policy.arrival_ticks
        return found is not None

    def run(self) -> tuple[int, int, int] | None:
        """Run the loop if nothing prevents it; see ``SimpyAdapter.run_policies``."""
        engine = self.engine
        if engine.todo or engine.env.peek() <= engine.env.now or not self._may_run():
            return None
        if not self._concerns_policies(engine.env._queue[0][3]):
            return None
        self.policies = [one for one in self.policies if one.is_alive]
        driven = [one for one in self.policies if cast(Any, one) not in engine.watchers]
        if not driven:
            return None
        waits = self._waits(driven)
        due = engine.planned[0] if engine.planned else MAX_TICK
        if due <= waits.ended_at < MAX_TICK:
            return None
        first = min([due, waits.ended_at, *(timer[dl.AT] for timer in waits.timers)])
        if first >= waits.limit:
            return NOTHING_RAN, 0, self._rest_after(0, len(engine.env._queue))
        return self._run(driven, waits)

    def _concerns_policies(self, event: simpy.Event) -> bool:
        """False if an event, the next one, certainly wakes somebody else."""
        if isinstance(event, Turn):
            return True
        last: Any = getattr(event.callbacks[-1], "__self__", None) if event.callbacks else None
        return isinstance(last, simpy.Process) and cast(DrivenPolicy, last) in self.addresses

    def _may_run(self) -> bool:
        engine = self.engine
        world, waits = engine.store.world, engine.thresholds
        busy = engine.news or engine.losing or engine.mail.posted or engine.to_join
        return not (
            busy or waits.waiting or waits.next_turn or world.item(lay.ONLINE)
            or engine.store.plugged is not None or engine.parts.queues is not None
        )  # fmt: skip

    def _waits(self, driven: Iterable[DrivenPolicy]) -> QueuedWaits:
        """Split SimPy's queue into timers of policies and the rest."""
        number = {policy: k for k, policy in enumerate(driven)}
        timers, events, others, limit = [], [], [], MAX_TICK
        opened = {
            handle.done: (handle, number[p], tag, graph)
            for p in driven
            for handle, tag, graph in p.open_submissions()
        }
        ended = []
        for item in self.engine.env._queue:
            tick, _, order, event = item
            callbacks = event.callbacks
            if isinstance(event, Turn):
                continue  # planned anew after the loop
            if event in opened:
                ended.append((order, opened[event][0], int(tick)))
                continue
            who = getattr(callbacks[0], "__self__", None) if len(callbacks) == 1 else None
            k = number.get(cast(Any, who)) if isinstance(who, simpy.Event) else None
            found = None if k is None else cast(DrivenPolicy, who).timer(event)
            if k is None or found is None:
                others.append(item)
                limit = min(limit, int(tick))
            else:
                timers.append([int(tick), order, k, *found])
                events.append((cast(DrivenPolicy, who), event))
        handles = [handle for _, handle, _ in sorted(ended, key=lambda one: one[0])]
        at = ended[0][2] if ended else MAX_TICK
        return QueuedWaits(timers, events, opened, handles, at, others, limit)

    def _run(self, driven: list[DrivenPolicy], waits: QueuedWaits) -> tuple[int, int, int]:
        loop = PolicyLoop(self.engine, driven, self.addresses, self._arrivals, waits, self._owner)
        self._owner = loop.run()
        events, timers = loop.now.item(dl.EVENTS), loop.now.item(dl.TIMERS)
        rest = self._rest_after(events, len(waits.timers) + len(waits.others) + timers)
        return events, loop.now.item(dl.EVENTS_AT_TICK), rest

    def _rest_after(self, events: int, moved: int) -> int:
        """Number of SimPy's events until the next try, after a loop that moved some events."""
        if events >= DULL + moved // 16:
            self._rest = 0
            return 0
        self._rest = min(2 * self._rest + 1, LONGEST_REST)
        return self._rest + moved // 16


class PolicyLoop(ReturnedDesk):
    """One run of the compiled loop, from SimPy's events and back to them."""

    def run(self) -> Array:
        """Run until Python must decide; returns the array of the owners of graphs."""
        from .kernel_loop import run_policies

        self._make_room()
        error, call = None, None
        while True:
            store = self.engine.store
            machine = store.rows, store.times, store.links, store.world, store.sharing.state
            if call is None:
                call = compiled_for_arrays(run_policies, machine, self.desk)
            try:
                code = call(machine, self.desk)
            except Exception as raised:  # a kernel can raise anything
                code, error = dl.SLOW, raised
                break
            if code == lay.PAUSES and self.now[dl.EVENTS] < dl.ROUND:
                self._give_samples()
                self._give_changes()
            elif code == dl.FULL or (code == dl.FOLD and self._free_ended_graphs()):
                self._make_room()
            else:
                break
        self._return_to_simpy(code, error)
        return self.desk.owner
