"""Grid of a graph: the numbers on which its ops depend, at which backends are asked before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..argument import as_integer, as_mapping, shown
from ..errors import GraphError
from ..facts.graph import Graph

MOST_AXES = 4  # a cell has two corners per axis
MOST_NUMBER = 2**62
MOST_ROWS = 2**22  # op times of a grid, at 64 B each


class StepGrid:
    """Graph whose ops depend on a few numbers, timed over a grid of these before the run.

    Parameters
    ----------
    build : function that returns the graph for one number per axis, given by name
        Its ops, dependencies and ranks must be the same everywhere. Flop, bytes, recorded durations
        and signatures may depend on the numbers.
    axes : mapping from name to ascending integers, 0 or above
        Numbers at which backends are asked; each combination is a point.
    points : int or None
        Largest number of points. If it is given, further numbers are added to the axes, where the
        times bend or jump.

    Examples
    --------
    >>> from foretrace.sim.facts.graph import Builder
    >>> from foretrace.sim.facts.ops import Kind
    >>> def step(tokens, context):
    ...     build = Builder("step")
    ...     build.op(Kind.COMPUTE, flop=2e9 * tokens, bytes=1e9 + 1e3 * context)
    ...     return build.graph()
    >>> StepGrid(step, {"tokens": [1, 64, 512], "context": [0, 1 << 16]})
    <StepGrid step: 3 tokens x 2 context>
    """

    def __init__(
        self,
        build: Callable[..., Graph],
        axes: Mapping[str, ArrayLike],
        points: int | None = None,
    ):
        if not callable(build):
            raise TypeError(f"a grid: build is a {type(build).__name__}; give a function")
        self.build, self.name = build, str(getattr(build, "__name__", "graph"))
        as_mapping("axes", axes, self._error, "a name to numbers")
        if not 1 <= len(axes) <= MOST_AXES:
            raise self._error(f"has {len(axes)} axes; give 1 to {MOST_AXES}")
        self.axes = {name: self._coordinates(name, axis) for name, axis in axes.items()}
        self.points = None if points is None else as_integer("points", points, self._error)
        if points is not None and not len(self) <= points <= MOST_ROWS:
            raise self._error(
                f"points is {points}; give {len(self):,}, as many as the axes have, up to "
                f"{MOST_ROWS:,}"
            )
        self.check_size(1)

    def with_axes(self, axes: Sequence[NDArray[np.int64]]) -> StepGrid:
        """The same graph over other numbers of each axis."""
        return StepGrid(self.build, dict(zip(self.axes, axes, strict=True)))

    def __repr__(self) -> str:
        sizes = " x ".join(f"{len(axis)} {name}" for name, axis in self.axes.items())
        return f"<StepGrid {self.name}: {sizes}>"

    def __len__(self) -> int:
        """Number of points."""
        count = 1
        for axis in self.axes.values():
            count *= len(axis)
        return count

    def check_size(self, ops: int) -> None:
        """Raise an error if the times of its ops do not fit into memory.

        Raises
        ------
        GraphError
            Points times ``ops`` is above the limit.
        """
        count = self.points or len(self)
        if count * ops > MOST_ROWS:
            raise self._error(
                f"has {count:,} points of {ops:,} ops, but at most {MOST_ROWS:,} op times fit "
                "into memory; give fewer points"
            )

    def point(self, at: Mapping[str, int] | Sequence[int]) -> tuple[int, ...]:
        """Numbers in the order of the axes, after validation.

        Raises
        ------
        GraphError
            An axis is missing or unknown, or a number is negative, too large or no integer.
        """
        names = tuple(self.axes)
        if isinstance(at, Mapping):
            if at.keys() != self.axes.keys():
                raise self._error(f"at= names {', '.join(map(str, at))}; name {', '.join(names)}")
            at = [at[name] for name in names]
        if (
            not isinstance(at, Sequence | np.ndarray)
            or isinstance(at, str | bytes)
            or not np.ndim(at)
        ):
            raise self._error(f"at= is {shown(at)}; give a number for {', '.join(names)} each")
        if len(at) != len(names):
            raise self._error(f"at= has {len(at)} numbers; give one for {', '.join(names)} each")
        return tuple(self._number(name, number) for name, number in zip(names, at, strict=True))

    def graph_at(self, point: Sequence[int]) -> Graph:
        """Graph at one point."""
        made = self.build(**dict(zip(self.axes, point, strict=True)))
        if not isinstance(made, Graph):
            raise self._error(
                f"{self.text_of(point)}: build returned a {type(made).__name__}; return a Graph"
            )
        return made

    def text_of(self, point: Sequence[int]) -> str:
        """Point as a text, for messages."""
        return ", ".join(f"{name}={x}" for name, x in zip(self.axes, point, strict=True))

    def check_same_structure(self, first: Graph, other: Graph, point: Sequence[int]) -> None:
        """Raise an error if the graph of a point has other ops, dependencies or ranks.

        Raises
        ------
        GraphError
            The point, and what differs.
        """
        what = _difference(first, other)
        if what:
            raise self._error(
                f"{self.text_of(point)}: its {what} differ from those of the first point; return "
                "the same structure everywhere"
            )

    def _coordinates(self, name: str, axis: ArrayLike) -> NDArray[np.int64]:
        try:
            values = np.atleast_1d(np.asarray(axis))
        except ValueError:  # rows of several lengths
            raise self._error(f"axis {name} is {shown(axis)}; give a list of integers") from None
        if not values.size:
            raise self._error(f"axis {name} has no numbers; give 1 or more")
        if values.ndim > 1 or values.dtype.kind not in "iu":
            raise self._error(
                f"axis {name} is {values.dtype} of {values.ndim} dimensions; give a list of "
                "integers"
            )
        for value in (values.min(), values.max()):
            self._number(name, value)
        found = values.astype(np.int64)
        if np.any(np.diff(found) <= 0):
            raise self._error(f"axis {name} does not ascend; sort its numbers, each once")
        return found

    def _number(self, name: str, number: int) -> int:
        try:
            found = index(number)
        except TypeError:
            raise self._error(f"{name} is {number!r}; give a whole number") from None
        if not 0 <= found < MOST_NUMBER:
            raise self._error(f"{name} is {found}; give 0 or more, below 2^62")
        return found

    def _error(self, what: str) -> GraphError:
        return GraphError("grid", f"grid {self.name}: {what}")


def geometric_axis(first: int, last: int, points: int) -> list[int]:
    """Ascending integers from ``first`` to ``last``, at equal ratios where integers allow it.

    Examples
    --------
    >>> geometric_axis(1, 4096, 7)
    [1, 4, 16, 64, 256, 1024, 4096]
    >>> geometric_axis(1, 8, 7)
    [1, 2, 3, 4, 6, 8]
    """
    found = np.unique(np.rint(np.geomspace(first, last, points)).astype(np.int64))
    return found.tolist()  # type: ignore[no-any-return]


def _difference(first: Graph, other: Graph) -> str:
    """What differs in the structure of two graphs; "" if nothing."""
    a, b = first.explicit, other.explicit
    if len(a) != len(b):
        return f"{len(b)} ops (not {len(a)})"
    if first.name != other.name or first.streams != other.streams:
        return "name or streams"
    pairs: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
        "kinds": (a.ops.kind, b.ops.kind),
        "ranks": (a.rank, b.rank),
        "streams": (a.stream, b.stream),
        "periods": (a.ops.period, b.ops.period),
        "collectives": (a.places.op, b.places.op),
        "peers": (a.peer, b.peer),
        "release times": (a.release, b.release),
        "dependencies": (a.successors.indptr, b.successors.indptr),
        "dependencies of ops": (a.successors.values, b.successors.values),
    }
    return next((k for k, (x, y) in pairs.items() if not np.array_equal(x, y)), "")
