"""Ops that a failure stopped, with component names and SI units."""

from __future__ import annotations

from typing import Any, NamedTuple

import simpy

from ..engine_api.interface import Submitted
from ..units import Seconds, seconds, ticks_per_second
from .run_interface import RunInterface


class Lost(NamedTuple):
    """Op that a component's failure stopped, with its remaining time and work.

    Parameters
    ----------
    op : id of the op: ``graph.first`` + row
    fixed : remaining fixed time, in s
    work : remaining work, in the unit of the components that it uses; NaN if it uses none
    component : name of the failed component
    """

    op: int
    fixed: Seconds
    work: float
    component: str


def loss_event(run: RunInterface, graph: Submitted) -> simpy.Event:
    """Event that fires with a list of :class:`Lost`: the losses of a graph not reported yet."""
    event = run.machine.lost(graph)

    def translate(event: simpy.Event) -> None:
        """Replace the engine's losses by named ones, once."""
        losses: list[Any] = event.value  # type: ignore[assignment]
        losses[:] = [x if isinstance(x, Lost) else _loss_of(run, *x) for x in losses]

    if event.callbacks is not None:
        event.callbacks.insert(0, translate)  # before the waiting process reads the value
    return event


def _loss_of(run: RunInterface, op: int, fixed: int, work: int, component: int) -> Lost:
    tick, parts = run.tick, run.system.components
    units = [parts[c].unit for c in run.machine.usage(op)]
    left = float("nan") if work else 0.0
    if units:
        left = work / (ticks_per_second(tick) << run.scale[units[0]])
    return Lost(op, float(seconds(fixed, tick)), left, parts[component].name)
