"""Medium: how what is in flight on some components shares them, where it is not max-min.

A medium is written twice, as an engine is: plainly in Python, which is its meaning, and as kernels
over arrays, which give the same ticks.  Why it is so, and in which order an engine calls:
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
    """Work phase of an op.

    Parameters
    ----------
    work : rate units x ticks still to do, above 0
    usage : ``{component: weight in 2^-40}``, in the order in which its backend named them
    limit : rate units, -1 for none
    """

    op: int
    work: int
    usage: Mapping[int, int]
    limit: int = NO_LIMIT


class PlainMedium(Protocol):
    """Medium of one run of the reference engine.

    At a tick the engine calls ``advance``, then ``stop`` and ``change`` for what processes did,
    then ``start`` with all that began, by op, then ``next``; at no tick beyond that of ``next``.
    """

    def start(self, flows: Sequence[Flow]) -> None:
        """Add flows at the tick of the last ``advance``."""

    def stop(self, op: int) -> int:
        """Work left of a flow, which is removed."""

    def change(self, component: int, rate: int) -> None:
        """Change the rate of a component, to 0 when it fails."""

    def next(self) -> int | None:
        """Tick at which something happens next, None where nothing will."""

    def advance(self, to: int) -> list[int]:
        """Ops whose work is done by tick ``to``; their flows are removed."""

    def rate(self, op: int, component: int) -> int:
        """Rate of a flow on a component that it uses, as of the last ``next``."""


class Kernels(NamedTuple):
    """A medium over arrays; each is given the tables of flows and the arrays of the medium.

    ``f`` is a row of flows; what it has to do is read by :mod:`.media.flow`.  The arrays are
    ``(ports, transfers)``: what `Medium.ports` made, and a row for every row of flows.

    Parameters
    ----------
    settle : ``(s, own, began, now) -> tick``, as `start` and `next`; -1 where nothing will happen
    advance : ``(s, own, over, now) -> count`` of flows that are done, listed in ``over``
    stop : ``(s, own, f, now)``; the work left of a flow stays as it is unless this changes it
    change : ``(s, own, component, rate, now)``
    rate : ``(s, own, f, component) -> rate``
    """

    settle: Callable[..., Any]
    advance: Callable[..., Any]
    stop: Callable[..., Any]
    change: Callable[..., Any]
    rate: Callable[..., Any]


class Medium:
    """How flows share the components that are given to it.  It holds no state of a run.

    Attributes
    ----------
    transfer_columns : numbers that the kernels keep of each flow
    one_way : whether a flow is data that cross its components one after the other; then a
        collective over many links, or a send that is sprayed, is refused
    """

    name = ""
    kernels: Kernels
    transfer_columns = 0
    one_way = False

    def plain(self, rates: Sequence[int]) -> PlainMedium:
        """The medium of a run of the reference engine; -1 for a component without a rate."""
        raise NotImplementedError

    def ports(self, rates: Sequence[int]) -> NDArray[np.int64]:
        """(ports, numbers) Table that the kernels of a run work on, at the beginning."""
        raise NotImplementedError


M = TypeVar("M", bound=type[Medium])


def medium(name: str) -> Callable[[M], M]:
    """Register a medium under the name that scenarios use.

    Raises
    ------
    ValueError
        The name is taken.
    """
    return register(MEDIA, "media", name, "name")


def bind_medium(
    system: System, media: Mapping[str, Medium]
) -> tuple[Medium | None, NDArray[np.bool_]]:
    """The medium that is plugged into a run, and which components are in it.

    Raises
    ------
    GraphError
        A name or glob that fits no component with a rate, or two media.

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
