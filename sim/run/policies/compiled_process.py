"""Compiled process: a policy as a kernel over arrays, called once per event.

This module describes one; ``policy_run.py`` runs it. ``sim/kernel/policy.py`` has the helpers that
a kernel calls, and ``docs/semantics.md``, section 5, the meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...facts.graph import Graph
from ...facts.system import System
from ...facts.way import Way
from ...record.step_grid import StepGrid
from ...units import Seconds, ticks

MOST_COLUMNS = 3  # integers of an arrival


class Arrivals(NamedTuple):
    """Table of arrivals: times in s after the start, ascending, and integers of each."""

    at: NDArray[np.float64]
    columns: NDArray[np.int64]

    def ticks(self, tick: Seconds) -> list[int]:
        """Times in ticks after the start."""
        found = ticks(self.at, tick)
        return np.asarray(found, np.int64).tolist()  # type: ignore[no-any-return]


class Mail(NamedTuple):
    """Mailboxes of a compiled process: names of those to which it sends, and of the one it reads.

    >>> Mail(["work"]).inbox
    ''
    """

    to: Sequence[str] = ()
    inbox: str = ""


NO_MAIL = Mail()


class GraphOnWays(NamedTuple):
    """Graph of a compiled process with the ways that its submissions may take.

    Parameters
    ----------
    graph : Graph or StepGrid
    ways : alternative GPUs or routes, for ``with_way`` in the kernel
    gpus : GPU of each rank without a way; None for the first GPUs

    Examples
    --------
    >>> from foretrace.sim.facts.graph import Builder
    >>> GraphOnWays(Builder("chunk").graph(), [Way(["node0.gpu1"])]).ways
    [Way(gpus=['node0.gpu1'], routes={})]
    """

    graph: Graph | StepGrid
    ways: Sequence[Way] = ()
    gpus: Sequence[str] | None = None


class CompiledProcess:
    """Policy as a kernel over arrays, which a run calls once for each of its events.

    Numbers stand for names in the kernel: part 0 is the first of ``parts``. It means the same as a
    generator process that starts one waiting process per event; see ``docs/semantics.md``.

    Parameters
    ----------
    kernel : function ``(state, event, turn) -> code``
        Decorate it with :func:`~foretrace.sim.kernel.policy.policy_kernel`, or it is interpreted.
    state : NamedTuple of arrays, or None
        Each run starts with a copy.
    graphs : mapping from name to Graph, StepGrid or GraphOnWays
        Graphs to submit; each is prepared once, at the start of the process.
    arrivals : up to 4 columns
        Times in s after the start of the process, ascending, and up to three integers of each.
    parts : names of the components that the kernel observes or changes
    metrics : names of the metrics that it emits
    counters : names of the counters that it adds to
        Their totals are emitted when the run ends.
    series : names of the time series that it records
    mail : Mail
        Mailboxes to which it sends, and the one whose messages it receives.
    touches : globs of component names, or None
        As of any process, see :class:`~foretrace.sim.run.process.Process`.
    actions : int
        Most actions in one call.
    name : str
        Name for messages and records; by default that of the kernel.

    Examples
    --------
    >>> from foretrace.sim.kernel import policy
    >>> from foretrace.sim.run.simulation import Simulation
    >>> from foretrace.sim.facts.system import System
    >>> @policy.policy_kernel
    ... def tick(state, event, turn):
    ...     if event[policy.KIND] == policy.TIMER:
    ...         policy.emit(turn, 0, 2.5)
    ...         return policy.DONE
    ...     policy.after(turn, 3 * policy.ticks_per_second(turn), 0)
    ...     return policy.GO_ON
    >>> run = Simulation(System((), ()), {}, engine="reference").run
    >>> run(None, CompiledProcess(tick, metrics=["level"])).metrics
    (('level', 3.0, 2.5),)
    """

    def __init__(
        self,
        kernel: Callable[[Any, Any, Any], Any],
        state: Any = None,
        *,
        graphs: Mapping[str, Graph | StepGrid | GraphOnWays] | None = None,
        arrivals: Sequence[ArrayLike] = (),
        parts: Sequence[str] = (),
        metrics: Sequence[str] = (),
        counters: Sequence[str] = (),
        series: Sequence[str] = (),
        mail: Mail = NO_MAIL,
        touches: Sequence[str] | None = None,
        actions: int = 64,
        name: str = "",
    ):
        self.kernel, self.__name__ = kernel, name or str(getattr(kernel, "__name__", "policy"))
        self.state = () if state is None else state
        if not isinstance(graphs, Mapping | None):
            raise self._error(
                f"graphs is a {type(graphs).__name__}; give a mapping from name to Graph, StepGrid "
                "or GraphOnWays"
            )
        self.graphs, self.arrivals = dict(graphs or {}), self._table(arrivals)
        self.parts, self.metrics, self.counters = tuple(parts), tuple(metrics), tuple(counters)
        self.series = tuple(series)
        self.mail, self.touches = Mail(tuple(mail.to), mail.inbox), touches
        self.actions = actions
        self._check()

    def __repr__(self) -> str:
        return f"<CompiledProcess {self.__name__}>"

    def __call__(self, sim: object) -> CompiledProcess:
        """Return itself; any process may return a compiled process in place of a generator."""
        return self

    @property
    def graphs_on_ways(self) -> list[GraphOnWays]:
        """Its graphs in order, each with its ways."""
        given = self.graphs.values()
        return [one if isinstance(one, GraphOnWays) else GraphOnWays(one) for one in given]

    def new_state(self) -> Any:
        """Copy of the state, for one run."""
        make: Any = type(self.state)
        arrays = [np.array(array, order="C") for array in self.state]
        return make(*arrays) if arrays else ()

    def check(self, system: System) -> None:
        """Raise a GraphError if the machine lacks one of its parts."""
        for name in self.parts:
            system.number(name)

    def _check(self) -> None:
        if not callable(self.kernel):
            raise self._error(f"kernel is a {type(self.kernel).__name__}; give a function")
        if self.state and not hasattr(self.state, "_fields"):
            raise self._error(
                f"state is a {type(self.state).__name__}; give a NamedTuple of arrays"
            )
        for field in getattr(self.state, "_fields", ()):
            self._check_array(field, getattr(self.state, field))
        if self.actions < 1:
            raise self._error(f"actions is {self.actions}; give 1 or more")
        listed = {key: getattr(self, key) for key in ("parts", "metrics", "counters", "series")}
        for column, names in {**listed, "mail.to": self.mail.to}.items():
            if len(set(names)) < len(names):
                raise self._error(f"{column} names one twice: {', '.join(names)}; give each once")
        for name, (graph, *_) in zip(self.graphs, self.graphs_on_ways, strict=True):
            if not isinstance(graph, Graph | StepGrid):
                raise self._error(
                    f"graph {name} is a {type(graph).__name__}; give a Graph, StepGrid or "
                    "GraphOnWays"
                )

    def _check_array(self, field: str, array: Any) -> None:
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf" or not array.ndim:
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise self._error(
                f"state.{field} is a {kind}; give a NumPy array of numbers, of 1 dimension or more"
            )

    def _table(self, columns: Sequence[ArrayLike]) -> Arrivals:
        """Arrivals, as checked columns."""
        if len(columns) > 1 + MOST_COLUMNS:
            raise self._error(
                f"arrivals has {len(columns)} columns; give the times and at most {MOST_COLUMNS} "
                "integers, and keep the rest in the state"
            )
        at = np.array(columns[0] if len(columns) else [], np.float64).reshape(-1)
        table = np.zeros((len(at), MOST_COLUMNS), np.int64)
        for k, column in enumerate(columns[1:]):
            values = np.asarray(column)
            if values.shape != at.shape or values.dtype.kind not in "iu":
                raise self._error(
                    f"column {k + 1} of arrivals is {values.dtype} of shape {values.shape}; give "
                    f"{len(at)} integers"
                )
            table[:, k] = values
        if len(at) and not (at[0] >= 0 and np.all(np.diff(at) >= 0) and np.isfinite(at[-1])):
            raise self._error("times of arrivals must be 0 or later, and ascend; sort them")
        return Arrivals(at, table)

    def _error(self, what: str) -> TypeError:
        return TypeError(f"{self.__name__}: {what}")
