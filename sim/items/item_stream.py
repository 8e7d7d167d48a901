"""Stream of items: the description of a policy, the pools, and the arrivals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine_api.item_setup import ItemNames, ItemSetup
from ..engine_api.queue_table import QueueTable
from ..errors import SimulationError
from ..facts.items.arrival_process import ArrivalProcess, GivenArrivals
from ..facts.items.pool import ItemPool
from ..facts.metric import Metric
from ..facts.waiting_room import ELSEWHERE
from ..run.process import Running, Steps
from .item_flow import ItemFlow

ITEM_METRICS = (
    Metric("latency", "s", "From the arrival of an item until it leaves.", better="lower"),
    Metric("*.latency", "s", "Latency of the items of one class.", better="lower"),
    Metric("arrived", "1", "Items that arrived.", ()),
    Metric("ended", "1", "Items that left.", ()),
    Metric("drops", "1", "Items dropped by full lines and by the policy.", (), "lower"),
    Metric("*.drops", "1", "Items dropped at one pool, or of one class.", (), "lower"),
    Metric("*.wait", "s", "Mean time that an item waits for one pool.", (), "lower"),
)
"""Metrics of a stream, for the ``metrics`` of a workload."""

MOST_INSIDE = 2**22
MOST_LATENCIES = 2**20


class ItemStream:
    """Stream of items through pools, steered by one compiled policy; it is a process.

    ``start`` of a workload may return it. A process that wants to wait for it calls :meth:`start`.
    Numbers stand for names in the policy: pool 0 is the first of ``pools``.

    Parameters
    ----------
    policy : function ``(state, item, turn) -> code``
        Decorate it with :func:`~foretrace.sim.items.item_policy.item_kernel`, or it is interpreted.
    state : NamedTuple of arrays, or None
        Each run starts with a copy.
    pools : sequence of ItemPool
    arrivals : Poisson, Paced, OnOff or GivenArrivals
    classes : names of the classes of items; items arrive in the first
    counters : names of the counters that the policy adds to
    name : str
        Name for messages, results and random draws; by default that of the policy.
    most_inside : int
        Most items inside; more end the run with an error, since lines grow without end.
    most_latencies : int
        Number of latencies that are kept one by one; beyond it, quantiles are of buckets, with a
        relative error of at most 0.4 %.

    Examples
    --------
    >>> from foretrace.sim.facts.items.arrival_process import Paced
    >>> from foretrace.sim.facts.system import System
    >>> from foretrace.sim.items import item_policy as items
    >>> from foretrace.sim.run.simulation import Simulation
    >>> def serve(state, item, turn):
    ...     if items.kind(turn) == items.ARRIVES:
    ...         return 0
    ...     return 3000 if items.kind(turn) == items.STARTS else items.LEAVE
    >>> stream = ItemStream(serve, pools=[ItemPool("nf", 1)], arrivals=Paced(1e-6, count=3))
    >>> result = Simulation(System((), ()), {}, engine="reference", tick=1e-9).run(None, stream)
    >>> result.emitted.samples["latency"].tolist(), result.items[0].rows()
    ([3e-06, 5e-06, 7e-06], [('item', 'nf', 3, 6e-06, 9e-06, 0.0, 0)])
    """

    def __init__(
        self,
        policy: Callable[[Any, Any, Any], Any],
        state: Any = None,
        *,
        pools: Sequence[ItemPool],
        arrivals: ArrivalProcess | GivenArrivals,
        classes: Sequence[str] = ("item",),
        counters: Sequence[str] = (),
        name: str = "",
        most_inside: int = MOST_INSIDE,
        most_latencies: int = MOST_LATENCIES,
    ):
        self.policy, self.state = policy, () if state is None else state
        self.__name__ = name or str(getattr(policy, "__name__", "items"))
        self.pools, self.arrivals = tuple(pools), arrivals
        self.classes, self.counters = tuple(classes), tuple(counters)
        self.most_inside, self.most_latencies = most_inside, most_latencies
        self._check()
        self.queues = self._queue_table()
        self.names = ItemNames(self.__name__, self.pools, self.classes, self.counters)

    def __repr__(self) -> str:
        return f"<ItemStream {self.__name__}>"

    def __call__(self, sim: Running) -> Steps:
        """Steps of the stream as a process."""
        return ItemFlow(self.names, self.setup(sim), sim).steps()

    def start(self, sim: Running) -> ItemFlow:
        """Start the stream now, as a further process of the job; returns what to wait for."""
        flow = ItemFlow(self.names, self.setup(sim), sim)
        sim.start([flow])
        return flow

    def setup(self, sim: Running) -> ItemSetup:
        """What an engine starts from.

        Raises
        ------
        SimulationError
            Items are less than a tick apart.
        """
        try:
            arrivals = self.arrivals.table(sim.tick)
        except ValueError as error:
            raise SimulationError("items", f"{self.__name__}: {error}") from error
        return ItemSetup(
            self.policy, self.state, [pool.servers for pool in self.pools], self.queues, arrivals,
            len(self.classes), len(self.counters), sim.job.random_key(self.__name__),
            int(sim.env.now), round(1 / sim.tick), self.most_inside, self.most_latencies,
        )  # fmt: skip

    def _check(self) -> None:
        if not callable(self.policy):
            raise self._error(f"policy is a {type(self.policy).__name__}; give a function")
        if self.state and not hasattr(self.state, "_fields"):
            raise self._error(
                f"state is a {type(self.state).__name__}; give a NamedTuple of arrays"
            )
        for field in getattr(self.state, "_fields", ()):
            array = getattr(self.state, field)
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
                raise self._error(f"state.{field} is {type(array).__name__}; give a NumPy array")
        if not isinstance(self.arrivals, ArrivalProcess | GivenArrivals):
            raise self._error(
                f"arrivals is a {type(self.arrivals).__name__}; give Poisson, Paced, OnOff or "
                "GivenArrivals"
            )
        for setting in ("pools", "classes"):
            if not getattr(self, setting):
                raise self._error(f"{setting} is empty; give one or more")
        self._check_names("pools", [pool.name for pool in self.pools])
        self._check_names("classes", self.classes)
        self._check_names("counters", self.counters)
        for setting, least in (("most_inside", 1), ("most_latencies", 0)):
            value = getattr(self, setting)
            if not isinstance(value, int) or value < least:
                raise self._error(f"{setting} is {value!r}; give a whole number, {least} or more")

    def _check_names(self, setting: str, names: Sequence[str]) -> None:
        if len(set(names)) < len(names):
            raise self._error(f"{setting} names one twice: {', '.join(names)}; give each once")

    def _queue_table(self) -> QueueTable:
        """Lines of the pools, in the form that engines read."""
        number = {pool.name: k for k, pool in enumerate(self.pools)}
        found = {}
        for k, pool in enumerate(self.pools):
            if pool.queue is None:
                continue
            others = pool.queue.elsewhere if pool.queue.full == ELSEWHERE else ()
            for other in others:
                if other not in number or number[other] == k:
                    raise self._error(
                        f"pool {pool.name} sends items to {other!r}; name another one of "
                        f"{', '.join(number)}"
                    )
            found[k] = pool.queue.length, pool.queue.full, [number[other] for other in others]
        return QueueTable.of(found, len(self.pools))

    def _error(self, what: str) -> TypeError:
        return TypeError(f"{self.__name__}: {what}")
