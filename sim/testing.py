"""Checks of the contracts of backends and policies, to use in the tests of a plug-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import Any
from unittest.mock import patch

import numpy as np

from .errors import ForetraceError
from .facts.backend import Backend, Timing, check_timing
from .facts.ops import Ops
from .run.process import Process
from .run.simulation import ENGINES, Simulation
from .run.workload import Workload

__all__ = ["check_backend", "check_same_run"]


def check_backend(make: Callable[[], Backend], ops: Ops) -> None:
    """Check that a backend keeps its contract for the given ops; raises AssertionError otherwise.

    The contract: the constructor opens nothing; the backend has a source once it is open; times are
    finite and not negative; a second call returns the same timings; and each op is timed by itself,
    so that a permuted or sliced table gives the same rows.

    Parameters
    ----------
    make : function without arguments that creates the backend
    ops : ops to time; if they are placed, the backend is opened for their system first

    Raises
    ------
    AssertionError
        The message states the broken rule.
    BackendError
        A timing is impossible.

    Examples
    --------
    >>> class Fixed(Backend):
    ...     source = "a test"
    ...     def timing(self, ops, now=0.0):
    ...         return Timing.of(np.full(len(ops), 1e-6))
    >>> from foretrace.sim.facts.backend import Timing
    >>> check_backend(Fixed, Ops.of(flop=[1, 2, 3]))
    """
    with _nothing_opened():
        made = make()
    if ops.at is not None:
        made.open(ops.at.system)
    _require_that(bool(made.source), "its source is empty; state where its numbers come from")
    n = len(ops)
    whole = made.timing(ops)
    check_timing(whole, ops, type(made).__name__)
    _require_that(
        bool(made.knows(ops).all()),
        "timing() returns times of ops for which knows() is False; return True there",
    )
    orders = {
        "called twice": np.arange(n),
        "reversed": np.arange(n)[::-1],
        "sliced": np.arange(n // 2, n),
    }
    for how, rows in orders.items():
        part = made.timing(ops.take_with_placement(rows))
        for name, column in _timing_table(part).items():
            want = [_timing_table(whole)[name][r] for r in rows.tolist()]
            _require_that(
                column == want,
                f"{name}, {how}: timing() returned {column} instead of {want}; time each op by "
                "itself",
            )
    made.close()


def check_same_run(
    simulation: Simulation, policy: Workload | Process, twin: Workload | Process
) -> None:
    """Check that two policies give the same run, each on both engines: a kernel and its twin.

    Equal are all emitted values with their times and order, the time series, the start and end of
    all ops, the amounts of capacities that processes held, and the kind of an error.

    Raises
    ------
    AssertionError
        Names the first difference.

    Examples
    --------
    >>> from foretrace.sim.facts.system import System
    >>> def waits(sim):
    ...     yield sim.wait(1.0)
    ...     sim.emit("woken", sim.now)
    >>> def hurries(sim):
    ...     yield sim.wait(0.5)
    ...     sim.emit("woken", sim.now)
    >>> check_same_run(Simulation(System((), ()), {}), waits, waits)
    >>> check_same_run(Simulation(System((), ()), {}), hurries, waits)
    Traceback (most recent call last):
    AssertionError: on reference, value 0 is ('woken', 0.5, 0.5); of the twin ('woken', 1.0, 1.0)
    """
    meant = _observations(replace(simulation, engine="reference"), twin)
    for engine in reversed(ENGINES):
        for process in (policy, twin):
            found = _observations(replace(simulation, engine=engine), process)
            for k, (one, other) in enumerate(zip_longest(found, meant)):
                _require_that(one == other, f"on {engine}, value {k} is {one}; of the twin {other}")


def _observations(simulation: Simulation, process: Workload | Process) -> list[Any]:
    """All that can be seen of a run: values, then times of ops, or the kind of its error."""
    try:
        if isinstance(process, Workload):
            found = simulation.run(process, keep="ops")
        else:
            found = simulation.run(None, process, keep="ops")
    except ForetraceError as error:
        return [(type(error).__name__, getattr(error, "kind", ""))]
    times = zip(found.start.tolist(), found.end.tolist(), strict=True)
    series = sorted(found.series.items(), key=lambda one: one[0])
    held = found.acquired.changes.tolist()
    return [*found.emitted, found.emitted.reduced, *map(str, times), held, *series]


def _require_that(kept: bool, otherwise: str) -> None:
    if not kept:
        raise AssertionError(otherwise)


@contextmanager
def _nothing_opened() -> Iterator[None]:
    """Context in which opening a file, a socket or a program fails."""
    broken = AssertionError(
        "its constructor opened a file, a socket or a program; do that in open()"
    )
    with (
        patch("builtins.open", side_effect=broken),
        patch("socket.socket", side_effect=broken),
        patch("subprocess.Popen", side_effect=broken),
    ):
        yield


def _timing_table(timing: Timing) -> dict[str, list[Any]]:
    """Columns of a timing as Python lists, with one entry per op."""
    n = len(timing)
    found: dict[str, list[Any]] = {"fixed": timing.fixed.tolist()}
    for name, column in (("work", timing.work), ("limit", timing.limit)):
        found[name] = [None] * n if column is None else column.tolist()
    use = timing.usage
    found["usage"] = [None] * n if use is None else []
    for i in range(n if use is not None else 0):
        at = slice(use.indptr[i], use.indptr[i + 1])  # type: ignore[union-attr]
        found["usage"].append((use.component[at].tolist(), use.weight[at].tolist()))  # type: ignore[union-attr]
    found["doubt"] = [None if timing.doubt is None else timing.doubt[i] for i in range(n)]
    return found
