"""Stream of items in a run: it runs ahead of the clock, and processes wait for it.

Nothing outside changes a stream, so it runs ahead to what somebody waits for, or to its end. If a
process observes it before, it returns to its last copy and runs to the present tick.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import simpy

from ..engine_api.item_setup import ItemNames, ItemSetup
from ..errors import SimulationError
from ..facts.items import layout as lay
from ..kernel.jit import INTERPRETED
from ..run.process import Running, Steps
from .item_engine import ItemEngine
from .item_errors import item_error, policy_error
from .item_results import item_table, record_table

END_OF_TICK = 3  # priority of an event behind everything else at its tick
FIRST_BUDGET, LAST_BUDGET = 2**16, 2**24  # events of one call
FOREVER = 2**62


Wanted = tuple[int, int, int]  # quantity, its number, and its least value


class Ahead(NamedTuple):
    """What comes at the tick up to which a stream has run ahead."""

    met: tuple[tuple[Wanted, simpy.Event], ...] = ()
    is_over: bool = False
    error: SimulationError | None = None


class Wake(simpy.Event):
    """Tick up to which a stream has run ahead."""

    def __init__(self, flow: ItemFlow, tick: int):
        self.env, self._ok, self._value = flow.env, True, None
        self.callbacks = [flow.woken]
        self.env.schedule(self, END_OF_TICK, tick - int(self.env.now))  # type: ignore[arg-type]


class ItemFlow:
    """Running stream of items.

    A process that observes it at a tick sees all events of items up to and including this tick. A
    process that waits for it continues at the end of a tick, behind everything else due then.

    Parameters
    ----------
    names : ItemNames
        Names of the stream, its pools, classes and counters.
    setup : ItemSetup
        What its engine starts from.
    sim : Running
        Interface of its process to the run.

    Examples
    --------
    >>> from foretrace.sim.facts.items.arrival_process import Paced
    >>> from foretrace.sim.facts.items.pool import ItemPool
    >>> from foretrace.sim.facts.system import System
    >>> from foretrace.sim.items import item_policy as items
    >>> from foretrace.sim.items.item_stream import ItemStream
    >>> from foretrace.sim.run.simulation import Simulation
    >>> def serve(state, item, turn):
    ...     if items.kind(turn) == items.ARRIVES:
    ...         return 0
    ...     return 3000 if items.kind(turn) == items.STARTS else items.LEAVE
    >>> stream = ItemStream(serve, pools=[ItemPool("nf", 1)], arrivals=Paced(1e-6, count=9))
    >>> def watch(sim):
    ...     flow = stream.start(sim)
    ...     yield flow.reaches("ended", 2)
    ...     sim.emit("seen", flow.value("waiting", "nf"))
    >>> run = Simulation(System((), ()), {}, engine="reference", tick=1e-9).run
    >>> [row for row in run(None, watch).metrics if row[0] == "seen"]
    [('seen', 6e-06, 4.0)]
    """

    def __init__(self, names: ItemNames, setup: ItemSetup, sim: Running):
        self.names, self.env = names, sim.env
        self.__name__ = names.stream
        self._sim, self._engine = sim, _make_engine(setup, sim.engine)
        self.done = self.env.event()  # fires when all items have left
        self._wanted: list[tuple[Wanted, simpy.Event]] = []
        self._at = self._kept_at = int(self.env.now) - 1
        self._budget, self._closed = FIRST_BUDGET, False
        self._ahead = Ahead()
        self._wake = Wake(self, int(self.env.now))
        sim.at_end(self.close)

    def __call__(self, sim: Running) -> Steps:
        """Steps of the flow as a process."""
        return self.steps()

    def steps(self) -> Steps:
        """Wait for the end, as a process of the job."""
        try:
            yield self.done
            self.close()
        finally:
            if self._sim.stopped:  # otherwise the run failed
                self.close()

    def value(self, quantity: str, of: str = "") -> int:
        """Present value of a quantity.

        Parameters
        ----------
        quantity : ``arrived``, ``ended``, ``dropped``, ``counter`` or ``waiting``
        of : name of the counter, or of the pool in whose line items wait
        """
        self._observe()
        return int(self._engine.value(*self._quantity(quantity, of)))

    @property
    def state(self) -> Any:
        """Arrays of the policy at the present tick; a process may read them."""
        self._observe()
        return self._engine.state

    def reaches(self, quantity: str, at_least: int, of: str = "") -> simpy.Event:
        """Event that fires when a quantity has reached a value; see :meth:`value`.

        It never fires if the stream ends before; ``flow.reaches(…) | flow.done`` fires then too.
        """
        wanted = self._quantity(quantity, of)
        event = self.env.event()
        self._observe()
        if self._engine.value(*wanted) >= at_least:
            event.succeed()
            return event
        self._wanted.append(((*wanted, at_least), event))
        self._replan()
        return event

    def close(self) -> None:
        """Record the results, once; nothing happens afterwards."""
        if self._closed:
            return
        self._observe()
        self._closed = True
        self._cancel_wake()
        record_table(item_table(self._engine, self.names, self._sim), self.names, self._sim)

    def woken(self, _: simpy.Event) -> None:
        """Do what is due at this tick, and run ahead again."""
        due, self._ahead = self._ahead, Ahead()
        if due.error is not None:
            self._fail(due.error)
        elif due.is_over:
            if not self.done.triggered:
                self.done.succeed()
        else:
            for wanted, event in due.met:
                self._wanted.remove((wanted, event))
                event.succeed()
            self._run_ahead()

    def _run_ahead(self) -> None:
        """Run to the first quantity that is reached, to the end, or through some events."""
        self._observe()
        engine = self._engine
        engine.keep()
        self._kept_at = self._at
        engine.want([wanted for wanted, _ in self._wanted])
        status = self._run(FOREVER, self._budget)
        self._at = max(engine.now, self._at)
        error: SimulationError | None = None
        met: tuple[tuple[Wanted, simpy.Event], ...] = ()
        if status == lay.GOES_ON:
            met = tuple(one for one in self._wanted if engine.value(*one[0][:2]) >= one[0][2])
        elif status == lay.BUDGET:
            self._budget = min(4 * self._budget, LAST_BUDGET)
            error = self._endless_error()
        elif status != lay.OVER:
            error = item_error(status, engine, self.names)
        self._ahead = Ahead(met, status == lay.OVER, error)
        self._wake = Wake(self, self._at)

    def _observe(self) -> None:
        """Bring the engine to the present tick, from its last copy if it has run ahead of it."""
        now = int(self.env.now)
        if self._closed:
            return
        if self._at > now:
            self._engine.rewind()
        self._at = now
        self._engine.want(())
        status = self._run(now, FOREVER)
        if status in lay.ERRORS:
            raise item_error(status, self._engine, self.names)

    def _run(self, horizon: int, budget: int) -> int:
        """Run the engine; an error that the policy raises is named."""
        try:
            return int(self._engine.run(horizon, budget))
        except Exception as error:  # a policy can raise anything
            raise policy_error(error, self.names) from error

    def _replan(self) -> None:
        """Run ahead again at the end of this tick."""
        self._cancel_wake()
        self._ahead, self._budget = Ahead(), FIRST_BUDGET
        self._wake = Wake(self, int(self.env.now))

    def _cancel_wake(self) -> None:
        if self._wake.callbacks:
            self._wake.callbacks.clear()

    def _endless_error(self) -> SimulationError | None:
        """Error if arrivals have no end, and nothing else is left that could end the run."""
        queue = cast(Any, self.env)._queue
        if self._engine.setup.arrivals.bounded or any(not isinstance(e, Wake) for *_, e in queue):
            return None
        return self._error("its arrivals have no end; give them count or duration, or until")

    def _fail(self, error: SimulationError) -> None:
        """End the process with an error."""
        self._closed = True
        self.done.fail(error)

    def _quantity(self, quantity: str, of: str) -> tuple[int, int]:
        """Quantity and its number, from their names."""
        totals = {
            "arrived": lay.ARRIVED_ITEMS, "ended": lay.ENDED_ITEMS, "dropped": lay.DROPPED_ITEMS,
        }  # fmt: skip
        if quantity in totals:
            return totals[quantity], 0
        pools = [pool.name for pool in self.names.pools]
        if quantity == "counter":
            return lay.COUNTER, self._number(of, self.names.counters, quantity)
        if quantity == "waiting":
            return lay.LINE, self._number(of, pools, "pool")
        raise self._error(
            f"has no quantity {quantity!r}; ask for arrived, ended, dropped, counter or waiting"
        )

    def _number(self, name: str, known: Any, what: str) -> int:
        if name not in known:
            raise self._error(f"has no {what} {name!r}; name one of {', '.join(known) or 'none'}")
        return int(known.index(name))

    def _error(self, what: str) -> SimulationError:
        return SimulationError("items", f"{self.names.stream}: {what}")


def _make_engine(setup: ItemSetup, kind: str) -> Any:
    """Compiled engine; the plain one for a plain policy, and in a run of the reference engine."""
    if kind == "reference" or not (INTERPRETED or hasattr(setup.step, "py_func")):
        from ..reference.item_pools import ReferenceItems

        return ReferenceItems(setup)
    return ItemEngine(setup)
