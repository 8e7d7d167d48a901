"""Threads for concurrent runs; kernels and NumPy release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .map_function import MapFunction

if TYPE_CHECKING:
    from .variant import Variant

AT_ONCE = 20_000_000  # most ops of all concurrent runs: about 4 GB
Executor = Callable[["Variant"], MapFunction]


@contextmanager
def point_map_function(threads: int | None = None) -> Iterator[Executor]:
    """Context manager that yields, for each variant, the map function for its runs.

    It is that of a thread pool if the runs may be concurrent, else builtin ``map``.

    Parameters
    ----------
    threads : number of threads; by default one per core

    Examples
    --------
    >>> from ...config.loader import load
    >>> from .variants import build_variants
    >>> with point_map_function(2) as given:
    ...     each = given(build_variants(load("first"))[0])
    ...     list(each(abs, [-1, 2]))
    [1, 2]
    """
    most = len(os.sched_getaffinity(0)) if threads is None else threads
    with ThreadPoolExecutor(most) as pool:
        yield lambda point: pool.map if most > 1 and runs_may_overlap(point, most) else map


@contextmanager
def load_engine_in_background(engine: str) -> Iterator[None]:
    """Context manager that loads the compiled engine in a thread, while a trace is read."""
    with ThreadPoolExecutor(1) as pool:
        if engine == "core":
            pool.submit(_run_tiny_simulation)
        yield


def _run_tiny_simulation() -> None:
    from ....sim.core.engine import CoreEngine
    from ....sim.engine_api.engine_literal import LiteralOp, literal_components, literal_graph

    engine = CoreEngine(literal_components((1,), (-1,)))
    engine.submit(literal_graph("two on one slot", [LiteralOp(((0, ()),), fixed=1)] * 2))
    engine.run()


def runs_may_overlap(point: Variant, threads: int) -> bool:
    """True if runs of a point may be concurrent: no device is used, and memory suffices."""
    answered = point.coupled is None and not any(
        b.online for b in point.simulation.backends.values()
    )
    if point.graph is None:
        return False  # a process is Python, of which one thread runs at once
    return answered and threads * len(point.graph) <= AT_ONCE
