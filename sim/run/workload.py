"""Workload: what a job does, which components it needs, and which metrics it measures.

A :class:`Workload` is a class registered by name whose constructor is its schema, like a backend.
Its metrics and needs are known before any file is read. :meth:`Workload.start` returns the work;
it is called for every variant, replica and repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import ScenarioError
from ..facts.graph import Graph
from ..facts.metric import Metric
from ..record.distribution import Distribution
from ..registry import register
from ..units import Seconds

if TYPE_CHECKING:
    from ..facts.system import System
    from .job import Job
    from .process import Process
    from .result import Result

Samples = NDArray[np.float64] | Distribution
"""Values of a metric, or their distribution if there were too many to keep."""


@dataclass(frozen=True)
class Need:
    """Components of one pool: their kind, and their number; None for all of that kind."""

    kind: str = "gpu"
    count: int | None = None


@dataclass(frozen=True)
class Needs:
    """Pools of components and files that a workload needs before it can start.

    Parameters
    ----------
    pools : :class:`Need` of each pool, by name; ranks are placed on the first one
    files : files that it reads
    """

    pools: Mapping[str, Need] = field(default_factory=lambda: {"gpu": Need()})
    files: tuple[str, ...] = ()


class Size(NamedTuple):
    """Size of a workload, for estimates before a run: ranks, ops and periods."""

    ranks: int
    ops: int
    periods: int = 1


class Workload:
    """Base class of a job's work; its constructor is the schema. Subclass it and write ``start``.

    The constructor must not read files or run anything. One object is shared by all runs, so it
    must not change; the state of a run belongs to what ``start`` returns.

    Attributes
    ----------
    metrics : tuple of Metric
        Metrics that it measures in addition to :data:`~foretrace.sim.facts.metric.COMMON`.
    headline : str
        Main metric, with a statistic if it has several (``ttft.p99``).
    period : str
        Name of one repetition, if the headline is its time, e.g. ``iteration``; "" for none.
    until : Seconds or None
        Time after its arrival at which it is stopped; None to let it end by itself.
    periodic : bool
        True if its ops belong to periods.
    edit : function or None
        Function that changes each graph before it is submitted or prepared; None for none.
    waits : bool
        True if the job waits for the amounts that it ``holds``; False to end the run with an error
        if they are not free.
    renamed_settings : mapping
        Old names of its settings, and the dotted paths that replace them.

    Examples
    --------
    >>> from foretrace.sim.facts.graph import Builder
    >>> from foretrace.sim.facts.ops import Kind
    >>> class Requests(Workload):
    ...     metrics = (Metric("latency", "s", "From arrival to answer.", better="lower"),)
    ...     headline = "latency.p99"
    ...     def __init__(self, *, count: int):
    ...         self.count = count
    ...     def start(self, job):
    ...         def serve(sim):
    ...             for _ in range(self.count):
    ...                 build, began = Builder("answer"), sim.now
    ...                 build.op(Kind.COMPUTE)
    ...                 yield sim.submit(build.graph()).done
    ...                 sim.emit("latency", sim.now - began)
    ...         return serve
    >>> Requests(count=3).headline
    'latency.p99'
    """

    registered_name: ClassVar[str] = ""
    renamed_settings: ClassVar[Mapping[str, str]] = {}
    metrics: tuple[Metric, ...] = ()
    headline: str = "makespan"
    period: str = ""
    until: Seconds | None = None
    periodic: bool = False
    edit: Callable[[Graph], Graph] | None = None
    waits: bool = True

    @property
    def needs(self) -> Needs:
        """Pools of components and files that it needs; by default a pool ``gpu`` of all GPUs."""
        return Needs()

    def size(self) -> Size | None:
        """Size of the workload for estimates; None if it is known only after the start.

        It may read files.
        """
        return None

    def start(self, job: Job) -> Graph | Process:
        """Graph of this job, or a process that submits graphs; subclasses must write it."""
        raise TypeError(
            f"{type(self).__name__}: start() is missing; write it, to return a graph or a process"
        )

    def holds(self, job: Job, system: System) -> Mapping[str, int]:
        """Amounts of capacities that a job holds from its start to its end, by component.

        The job starts once it has all of them, and releases them when it ends.
        """
        return {}

    def plans(self, gpus: int, node: int, kept: Collection[str]) -> Iterable[Mapping[str, Any]]:
        """Parallel plans for this work, as values of its settings; empty if it has no plans.

        Parameters
        ----------
        gpus, node : number of GPUs in all, and per machine
        kept : names of settings that must not change
        """
        return ()

    def measure(self, result: Result) -> Mapping[str, Samples]:
        """Samples of each metric from a job's result; by default the values that it emitted."""
        return result.emitted.samples


class GivenGraphWorkload(Workload):
    """Workload that consists of one given graph.

    None instead of a graph makes a job without own work, to which processes can belong.
    """

    periodic = True

    def __init__(self, graph: Graph | None = None):
        self.graph = graph

    @property
    def needs(self) -> Needs:
        """No pool: ranks are placed on the GPUs of the machine, or where the graph was placed."""
        return Needs({})

    def start(self, job: Job) -> Graph | Process:
        """The given graph."""
        assert self.graph is not None  # noqa: S101  what only has processes is not started
        return self.graph


WORKLOADS: dict[str, type[Workload]] = {}
W = TypeVar("W", bound=type[Workload])


def workload(name: str) -> Callable[[W], W]:
    """Class decorator that registers a workload under the name that scenarios use.

    Raises
    ------
    ValueError
        The name is taken.
    """
    return register(WORKLOADS, "workloads", name, "registered_name")


def check_methods(made: Workload) -> None:
    """Raise an error if an attribute of a workload hides a method of the base class.

    Raises
    ------
    ScenarioError
        It names the attribute.
    """
    for name in ("start", "size", "holds", "plans", "measure"):
        if not callable(getattr(made, name)):
            raise ScenarioError(
                f"workload: {type(made).__name__} sets self.{name}, which hides its method "
                f"{name}(); store the value under another name"
            )


def check_start_result(found: Any, who: str) -> Graph | Process:
    """Raise an error if ``start`` returned neither a graph nor a process.

    Raises
    ------
    TypeError
        The value is neither a graph nor a process.

    Examples
    --------
    >>> check_start_result(3, "job a")
    Traceback (most recent call last):
    TypeError: job a: start returned a int; return a Graph, or a process: a generator function \
that is given the running simulation
    """
    name = type(found).__name__
    if isinstance(found, Graph) or callable(found):
        return found  # type: ignore[no-any-return]
    raise TypeError(
        f"{who}: start returned a {name}; return a Graph, or a process: a generator function "
        "that is given the running simulation"
    )
