"""Workload: what a job does, what it needs, and which metrics it measures.

A :class:`Workload` is a class registered by name whose constructor is its schema, as a backend's
is.  It says before any file is read what it measures and needs; :meth:`Workload.start` says what is
to be done, anew for every variant, replica and re-run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..facts.graph import Graph
from ..facts.metric import Metric
from ..registry import register
from ..units import Seconds

if TYPE_CHECKING:
    from ..facts.system import System
    from .job import Job
    from .process import Process
    from .result import Result

Samples = NDArray[np.float64]


@dataclass(frozen=True)
class Need:
    """Components of one pool: their kind, and how many; None for all there are."""

    kind: str = "gpu"
    count: int | None = None


@dataclass(frozen=True)
class Needs:
    """Pools of components and files that a workload needs before it can start.

    Parameters
    ----------
    pools : :class:`Need` by name; its ranks are placed on the first one
    files : that it reads
    """

    pools: Mapping[str, Need] = field(default_factory=lambda: {"gpu": Need()})
    files: tuple[str, ...] = ()


class Size(NamedTuple):
    """Size of a workload, for a plan."""

    ranks: int
    ops: int
    periods: int = 1


class Workload:
    """Base class of what a job does; its constructor is the schema. Write ``start``.

    Building one reads and runs nothing.  It is shared by all runs of it, so it changes nothing of
    itself: what a run remembers lives in what ``start`` returns.

    Attributes
    ----------
    metrics : tuple of Metric
        What it measures beyond :data:`~foretrace.sim.facts.metric.COMMON`.
    headline : str
        The answer: a metric, and its statistic where it has several (``ttft.p99``).
    period : str
        What it calls one of its repetitions, whose time is its headline; "" where it has none.
    until : Seconds or None
        It is stopped so long after its arrival; None lets it end by itself.
    periodic : bool
        Whether its ops say in which period they are; else they are in none.
    edit : function or None
        What becomes of each graph that its processes submit or prepare.
    waits : bool
        Whether it waits for what it ``holds``, or ends the run where that is not free.
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
        """Pools of components and files; one pool ``gpu`` with every GPU unless said."""
        return Needs()

    def size(self) -> Size | None:
        """Size for a plan; it may read files. None where only starting it tells."""
        return None

    def start(self, job: Job) -> Graph | Process:
        """Graph of this job, or a process that submits graphs."""
        raise TypeError(
            f"{type(self).__name__}: start() is missing; write it, to return a graph or a process"
        )

    def holds(self, job: Job, system: System) -> Mapping[str, int]:
        """Amounts of capacities, by component, that a job has from its start to its end.

        It starts once it has all of them, and gives them back when it is over.
        """
        return {}

    def plans(self, gpus: int, node: int, kept: Collection[str]) -> Iterable[Mapping[str, Any]]:
        """Parallel plans of its work, as values of its own settings; none where it has no plans.

        Parameters
        ----------
        gpus, node : that it runs on, and how many of them are in a machine
        kept : names of settings that stay as they are
        """
        return ()

    def measure(self, result: Result) -> Mapping[str, Samples]:
        """Samples of each metric, from the result of one job: the values that it emitted."""
        return result.emitted.samples


class GivenGraphWorkload(Workload):
    """Workload of one given graph; of None for processes that belong to no other job."""

    periodic = True

    def __init__(self, graph: Graph | None = None):
        self.graph = graph

    @property
    def needs(self) -> Needs:
        """No pool: its ranks are on the GPUs of the machine, or where it was placed."""
        return Needs({})

    def start(self, job: Job) -> Graph | Process:
        """Graph as given."""
        assert self.graph is not None  # noqa: S101  what only has processes is not started
        return self.graph


WORKLOADS: dict[str, type[Workload]] = {}
W = TypeVar("W", bound=type[Workload])


def workload(name: str) -> Callable[[W], W]:
    """Register a workload under the name that scenarios use.

    Raises
    ------
    ValueError
        The name is taken.
    """
    return register(WORKLOADS, "workloads", name, "registered_name")


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
    if name == "CompiledProcess":
        raise TypeError(
            f"{who}: start returned a {name}, which is not supported yet; return a process"
        )
    if isinstance(found, Graph) or callable(found):
        return found  # type: ignore[no-any-return]
    raise TypeError(
        f"{who}: start returned a {name}; return a Graph, or a process: a generator function "
        "that is given the running simulation"
    )
