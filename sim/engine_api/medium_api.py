"""Medium: a rule for how flows share some components, in place of max-min sharing.

A medium is written twice, like an engine: in plain Python, which defines its meaning, and as
kernels over arrays, which must give the same ticks. The reasons and the order of calls are in
``docs/decisions/0022-a-plugged-medium-is-two-functions.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import GraphError
from ..registry import register
from .interface import NO_LIMIT

if TYPE_CHECKING:
    from ..facts.system import System

MEDIA: dict[str, type[Medium]] = {}


class Flow(NamedTuple):
    """Work of one op in progress, as input to a medium.

    Parameters
    ----------
    work : remaining work in rate units x ticks, above 0
    usage : ``{component: weight in 2^-40}``, in the order that its backend gave
    limit : rate limit in rate units, -1 for none
    """

    op: int
    work: int
    usage: Mapping[int, int]
    limit: int = NO_LIMIT


class PlainMedium(Protocol):
    """Plain-Python state of a medium in one run of the reference engine.

    At a tick the engine calls ``advance``, then ``stop`` and ``change`` for commands of processes,
    then ``start`` with all flows that begin, by op, then ``next``. It never skips the tick that
    ``next`` returned.
    """

    def start(self, flows: Sequence[Flow]) -> None:
        """Start flows at the tick of the last ``advance``."""

    def stop(self, op: int) -> int:
        """Remove a flow and return its remaining work."""

    def change(self, component: int, rate: int) -> None:
        """Set the rate of a component; 0 when it fails."""

    def next(self) -> int | None:
        """Tick of the next event in the medium; None if there is none."""

    def advance(self, to: int) -> list[int]:
        """Advance to tick ``to``; returns ops whose work is complete, and removes their flows."""

    def rate(self, op: int, component: int) -> int:
        """Rate of a flow on one of its components, as of the last ``next``."""


class Kernels(NamedTuple):
    """Compiled functions of a medium; each gets the flow tables ``s`` and its own arrays ``own``.

    ``f`` is a row of the flow tables, which :mod:`.media.flow` reads. The medium's arrays are
    ``(ports, transfers)``: the table from `Medium.ports`, and a row for each row of flows.

    Parameters
    ----------
    settle : ``(s, own, began, now) -> tick``: start flows and return the next event's tick; -1 for
        none
    advance : ``(s, own, over, now) -> count``: let all flows move until tick ``now``, and write the
        rows of those that are then complete into ``over``; returns their number
    stop : ``(s, own, f, now)``: remove a flow; its remaining work stays in the table unless changed
        here
    change : ``(s, own, component, rate, now)``: set the rate of a component
    rate : ``(s, own, f, component) -> rate``: current rate of a flow on a component
    """

    settle: Callable[..., Any]
    advance: Callable[..., Any]
    stop: Callable[..., Any]
    change: Callable[..., Any]
    rate: Callable[..., Any]


class Medium:
    """Base class of a rule for how flows share components. It holds no state of a run.

    Attributes
    ----------
    transfer_columns : number of columns that the kernels store per flow
    one_way : True if a flow is a message that crosses its components one after the other; then
        collectives over many links and sprayed sends are refused
    """

    name = ""
    kernels: Kernels
    transfer_columns = 0
    one_way = False

    def plain(self, rates: Sequence[int]) -> PlainMedium:
        """State of the medium for a run of the reference engine; a rate of -1 means no rate."""
        raise NotImplementedError

    def ports(self, rates: Sequence[int]) -> NDArray[np.int64]:
        """Initial table for the kernels of a run, shape (ports, columns)."""
        raise NotImplementedError


M = TypeVar("M", bound=type[Medium])


def medium(name: str) -> Callable[[M], M]:
    """Class decorator that registers a medium under the name that scenarios use.

    Raises
    ------
    ValueError
        The name is taken.
    """
    return register(MEDIA, "media", name, "name")


def bind_medium(
    system: System, media: Mapping[str, Medium]
) -> tuple[Medium | None, NDArray[np.bool_]]:
    """Medium that is plugged into a run, and a boolean array of the components in it.

    Raises
    ------
    GraphError
        A name or glob matches no component with a rate, or there are two media.

    Examples
    --------
    >>> from foretrace.sim.facts.system import Component, System
    >>> parts = (Component("leaf", "link", rate=1e9), Component("nic", "nic", rate=1e9))
    >>> bind_medium(System(parts), {"l*": Medium()})[1].tolist()
    [True, False]
    """
    inside = np.zeros(len(system.components), np.bool_)
    rated = system.components.column(lambda part: part.rate is not None, bool)
    for pattern in media:
        for c in system.match(pattern) or (system.number(pattern),):
            inside[c] = rated[c]
        if not inside.any():
            raise GraphError(
                "medium",
                f"media: {pattern!r} matches no component with a rate; name one that has a rate",
            )
    found = list({id(m): m for m in media.values()}.values())
    if len(found) > 1:
        names = ", ".join(m.name for m in found)
        raise GraphError(
            "medium",
            f"media: {names}; a run can have one medium besides max-min: use the same for all "
            f"patterns",
        )
    return (found[0] if found else None), inside
