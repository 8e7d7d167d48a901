"""Backend: the time that a component takes for an op when nothing else runs.

A model predicts it, a recording remembers it, a driver measures it; the simulation cannot
tell them apart.  A table of ops goes in, a table of times comes out, both in SI units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import BackendError
from ..registry import register
from .coded import Coded
from .doubt import Doubt
from .ops import Ops
from .system import System

C = TypeVar("C")


@dataclass(frozen=True)
class Usage:
    """Rate components that each op uses, and how much of each.

    An op that runs at rate x takes ``weight * x`` of a component.

    Parameters
    ----------
    indptr : (n + 1,)
    component : (m,) number in the system
    weight : (m,) > 0

    Examples
    --------
    >>> Usage.repeated([3, 4], 2).component.tolist()
    [3, 4, 3, 4]
    """

    indptr: NDArray[np.int64]
    component: NDArray[np.int32]
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, rows: list[dict[int, float]]) -> Usage:
        """Usage from one ``{component: weight}`` for each op."""
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(r) for r in rows], out=indptr[1:])
        return cls(
            indptr,
            np.array([c for r in rows for c in r], np.int32),
            np.array([w for r in rows for w in r.values()], np.float64),
        )

    @classmethod
    def repeated(cls, components: ArrayLike, n: int, weight: float = 1.0) -> Usage:
        """Usage of the same components by each of ``n`` ops."""
        one = np.atleast_1d(np.asarray(components, np.int32))
        indptr = np.arange(n + 1, dtype=np.int64) * len(one)
        return cls(indptr, np.tile(one, n), np.full(n * len(one), weight))

    def __len__(self) -> int:
        return len(self.indptr) - 1


@dataclass(frozen=True)
class Holds:
    """Amounts of capacities that ops hold, from before their start to their end.

    An op that is ready asks for all of it, and queues for its slots when it has it.

    Parameters
    ----------
    indptr : (n + 1,)
    component : (m,) number in the system
    amount : (m,) 1 or more, in the component's unit
    until : (m,) row of the same table whose op has to end too before it is given back; -1 for none

    Examples
    --------
    >>> holds = Holds.of([[(3, 100), (3, 20, 1)], []])  # 20 of it until row 1 has ended
    >>> holds.amount.tolist(), holds.until.tolist()
    ([100, 20], [-1, 1])
    """

    indptr: NDArray[np.int64]
    component: NDArray[np.int32]
    amount: NDArray[np.int64]
    until: NDArray[np.int32]

    @classmethod
    def of(cls, rows: Sequence[Sequence[tuple[int, ...]]]) -> Holds:
        """Holds from a list of ``(component, amount[, until])`` for each op."""
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=indptr[1:])
        whole = [(*hold, -1)[:3] for row in rows for hold in row]
        component, amount, until = zip(*whole, strict=True) if whole else ((), (), ())
        return cls(
            indptr,
            np.array(component, np.int32),
            np.array(amount) if amount else np.empty(0, np.int64),
            np.array(until, np.int32),
        )

    def __len__(self) -> int:
        return len(self.indptr) - 1


@dataclass(frozen=True)
class Spread:
    """Distribution of durations: quantiles of measured factors on the typical duration.

    The duration of an op is its typical duration times a factor of the process start (common to
    all ops of a replica) times one of its rank and iteration times one of its own.  Factors are
    at least 0 and stay below 4096, those of start and step together too.

    Parameters
    ----------
    step : (q,) factors, ascending
        Quantiles at (i + 1/2) / q of the factor of a rank and iteration; empty for none.
    op : (q,) factors, ascending
        The same for the op's own factor; empty for none.
    start : (q,) factors, ascending
        The same for the factor of a process start; empty for none.
    """

    step: NDArray[np.float64]
    op: NDArray[np.float64]
    start: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class Timing:
    """Answer of a backend: how long each op takes without contention, and what rates it shares.

    ``fixed`` seconds pass first and take no bandwidth; then ``work`` is done at the rate that
    the op gets of its ``usage``, never above ``limit``.

    Parameters
    ----------
    fixed : (n,) s
    work : (n,) or None
        In the unit of the components used (B, flop or 1).
    usage : Usage or None
        None: the component that was asked, with weight 1.
    limit : (n,) or None
        Work a second; infinite for none.
    spread : Coded[Spread] or None
        None: they do not vary.
    source : Coded[str] or None
        Where the number of each op comes from; None for the backend's own ``source``.
    holds : Holds or None
        None: they hold nothing.
    doubt : Coded[Doubt] or None
        How wrong each may be; None, or a code of -1, where the backend does not say.

    Examples
    --------
    >>> Timing.of([1e-6, 2e-6]).fixed.tolist()
    [1e-06, 2e-06]
    >>> doubt = Doubt("gemm", "memory", (-0.1, 0.1))
    >>> Timing.of([1e-6, 2e-6], source="a fit", doubt=doubt).doubt[1].family
    'gemm'
    """

    fixed: NDArray[np.float64]
    work: NDArray[np.float64] | None = None
    usage: Usage | None = None
    limit: NDArray[np.float64] | None = None
    spread: Coded[Spread] | None = None
    source: Coded[str] | None = None
    holds: Holds | None = None
    doubt: Coded[Doubt] | None = None

    @classmethod
    def of(
        cls,
        fixed: ArrayLike,
        work: ArrayLike | None = None,
        usage: Usage | None = None,
        limit: ArrayLike | None = None,
        spread: Spread | Coded[Spread] | None = None,
        source: str | Coded[str] = "",
        holds: Holds | None = None,
        doubt: Doubt | Coded[Doubt] | None = None,
    ) -> Timing:
        """Timing with columns from anything that NumPy takes; one value is that of all ops."""

        def column(values: ArrayLike | None) -> NDArray[np.float64] | None:
            return None if values is None else np.atleast_1d(np.asarray(values, np.float64))

        seconds = np.atleast_1d(np.asarray(fixed, np.float64))

        def coded(value: C | Coded[C] | None) -> Coded[C] | None:
            if value is None or isinstance(value, Coded):
                return value
            return Coded.constant(value, len(seconds))

        return cls(
            seconds,
            column(work),
            usage,
            column(limit),
            coded(spread),
            coded(source or None),
            holds,
            coded(doubt),
        )

    def __len__(self) -> int:
        return len(self.fixed)

    def rows_without_rate_bound(self) -> NDArray[np.int64]:
        """Rows with work whose rate nothing bounds, neither a usage nor a limit.

        >>> Timing.of([0.0, 0.0], work=[0.0, 2.0]).rows_without_rate_bound().tolist()
        [1]
        """
        if self.work is None:
            return np.empty(0, np.int64)
        uses = np.zeros(len(self), np.int64) if self.usage is None else np.diff(self.usage.indptr)
        limit = np.full(len(self), np.inf) if self.limit is None else self.limit
        return np.flatnonzero((self.work > 0) & (uses == 0) & np.isinf(limit))

    def with_explicit_usage(self, component: NDArray[np.int32]) -> Timing:
        """Timing with all usage explicit, given the component that was asked about each op."""
        if self.work is None or self.usage is not None:
            return self
        n = len(self)
        usage = Usage(np.arange(n + 1, dtype=np.int64), component, np.ones(n))
        return replace(self, usage=usage)


class Backend:
    """Base class of what times the ops of a component. Subclass, and write ``timing``.

    The constructor is the schema: its keyword names are the allowed keys of a scenario, their
    annotations say which unit each value must carry, the docstring what it means.  Building a
    backend touches nothing; ``open`` may.

    Attributes
    ----------
    source : str
        Where its numbers come from, shown beside every answer.
    online : bool
        Asked during the run, when an op starts, instead of before it.
    uniform : bool
        A promise: an answer depends on the columns of its op, but for ``rank``, and on its
        members; not on the component, nor on what was asked before or beside it.  Then all ranks
        of a class of a template are asked about at once; without it every op is asked.
    answers_part : str
        Kind of part (``library``, ``nic`` …) that may carry its settings.  A part that gives all
        settings that it requires is bound to it; any other keeps the backend of its kind.
    """

    registered_name: ClassVar[str] = ""
    source: str = ""
    online: bool = False
    uniform: bool = False
    answers_part: ClassVar[str] = ""

    def open(self, system: System) -> None:
        """Prepare for this system; called once before the first question."""

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """(n,) whether it can answer each op; asked after ``open``.

        True of all, unless a backend says otherwise: it is asked about every op that it is bound
        to, and refuses by an error.  In a chain the first that knows an op answers it.
        """
        return np.ones(len(ops), bool)

    def timing_groups(self, system: System) -> NDArray[np.int64] | None:
        """(components,) number of each; where two have the same, equal ops take equal times.

        ``uniform`` but for the component.  None promises nothing.
        """
        return np.zeros(len(system.components), np.int64) if self.uniform else None

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Time that each op takes alone.

        Parameters
        ----------
        ops : Ops
            ``ops.at`` says on which component and between which GPUs.
        now : s
            Simulated time of the question; only for ``online`` backends.
        """
        raise TypeError(
            f"{type(self).__name__}: timing() is missing; write it, to return the time of each op"
        )

    def close(self) -> None:
        """Release what ``open`` took."""


BACKENDS: dict[str, type[Backend]] = {}
MOST_FACTOR = 4096  # since draws are 32-bit integers in 2^-20
B = TypeVar("B", bound=type[Backend])


def backend(name: str) -> Callable[[B], B]:
    """Register a backend under the name that scenarios use.

    Raises
    ------
    ValueError
        The name is taken.
    """
    return register(BACKENDS, "backends", name, "registered_name")


def check_timing(
    timing: Timing, ops: Ops, backend_name: str, rows: NDArray[np.int64] | None = None
) -> None:
    """Raise an error for an impossible answer: wrong length, NaN, negative, infinite, unknown.

    Parameters
    ----------
    rows : (n,) what to call each op; its row in the table

    Raises
    ------
    BackendError
        Names the component, the op and the value.
    """
    if not isinstance(timing, Timing):
        raise BackendError(
            f"{backend_name}: timing() returned a {type(timing).__name__}; return "
            "Timing.of(seconds), with one value per op"
        )
    columns = {"fixed": timing.fixed, "work": timing.work, "limit": timing.limit}
    for name, column in columns.items():
        if column is None:
            continue
        if len(column) != len(ops):
            raise BackendError(
                f"{backend_name}: {name} has {len(column)} values for {len(ops)} ops; return one "
                f"per op"
            )
        bad = np.flatnonzero(~((column >= 0) & (np.isfinite(column) | (name == "limit"))))
        if len(bad):
            row = int(bad[0])
            what = ops.signature_text(row) or ops.kind_names[row]
            must = "be >= 0" if name == "limit" else "be finite and >= 0"
            op = row if rows is None else int(rows[row])
            raise BackendError(
                f"{backend_name}: {name} of op {op} ({what}) is {column[row]}; it must {must}"
            )
    if timing.usage is not None:
        _check_usage(timing.usage, ops, backend_name)
    if timing.holds is not None:
        _check_holds(timing.holds, len(ops), backend_name)
    for name, coded in (
        ("spread", timing.spread),
        ("source", timing.source),
        ("doubt", timing.doubt),
    ):
        if coded is not None:
            _check_codes(coded, len(ops), name, backend_name)
    for spread in timing.spread.values if timing.spread is not None else ():
        _check_spread(spread, backend_name)


def uncontended_seconds(timing: Timing, ops: Ops) -> NDArray[np.float64]:
    """(n,) s of each op if nothing else runs.

    Raises
    ------
    BackendError
        Work on components, of ops that were not placed.

    Examples
    --------
    >>> ops = Ops.of(bytes=[4e9])
    >>> uncontended_seconds(Timing.of([1.0], [4e9], Usage.of([{}]), [2e9]), ops).tolist()
    [3.0]
    """
    if timing.work is None:
        return timing.fixed
    n = len(ops)
    rate = np.full(n, np.inf) if timing.limit is None else timing.limit.copy()
    if timing.usage is None or len(timing.usage.component):
        if ops.at is None:
            raise BackendError(
                "ops: they have work on components, but no placement; call place() on their "
                "graph first"
            )
        usage = timing.with_explicit_usage(ops.at.component).usage
        assert usage is not None  # noqa: S101  it was written out
        row = np.repeat(np.arange(n), np.diff(usage.indptr))
        parts = ops.at.system.components
        rates = [np.inf if (r := parts[c].rate) is None else r for c in usage.component.tolist()]
        np.minimum.at(rate, row, np.array(rates) / usage.weight)
    busy = np.divide(timing.work, rate, out=np.zeros(n), where=timing.work > 0)
    return np.asarray(timing.fixed + busy)


def _check_codes(column: Coded[Any], n: int, name: str, backend_name: str) -> None:
    if len(column) != n:
        raise BackendError(
            f"{backend_name}: {name} has {len(column)} codes for {n} ops; return one per op"
        )
    strange = column.codes[(column.codes < -1) | (column.codes >= len(column.values))]
    if len(strange):
        raise BackendError(
            f"{backend_name}: {name} has code {strange[0]}; its table has {len(column.values)} "
            f"values: "
            "give an index into it, or -1 for none"
        )


def _check_usage(usage: Usage, ops: Ops, backend_name: str) -> None:
    if len(usage) != len(ops):
        raise BackendError(
            f"{backend_name}: usage has {len(usage)} rows for {len(ops)} ops; return one per op"
        )
    if not np.all((usage.weight > 0) & np.isfinite(usage.weight)):
        raise BackendError(
            f"{backend_name}: a usage weight is not above 0, or infinite; give a finite one above 0"
        )
    if ops.at is None:
        return
    count = len(ops.at.system.components)
    strange = usage.component[(usage.component < 0) | (usage.component >= count)]
    if len(strange):
        raise BackendError(
            f"{backend_name}: usage names component {strange[0]}; the system has components 0 to "
            f"{count - 1}"
        )


def _check_spread(spread: Spread, backend_name: str) -> None:
    for name in ("step", "op", "start"):
        factors = getattr(spread, name)
        bad = factors[~((factors >= 0) & (factors < MOST_FACTOR))]
        if len(bad):
            raise BackendError(
                f"{backend_name}: a factor of its spread ({name}) is {bad[0]:g}; factors are at "
                f"least 0 and below {MOST_FACTOR}"
            )
        if np.any(np.diff(factors) < 0):
            raise BackendError(
                f"{backend_name}: the factors of its spread ({name}) are not ascending; sort them"
            )
    most = spread.step.max(initial=0) * spread.start.max(initial=0)
    if most >= MOST_FACTOR:
        raise BackendError(
            f"{backend_name}: the product of its largest start and step factors is {most:g}; "
            f"keep it "
            f"below {MOST_FACTOR}"
        )


def _check_holds(holds: Holds, n: int, backend_name: str) -> None:
    """Raise an error for holds with a row that is not in the table."""
    if len(holds) != n:
        raise BackendError(
            f"{backend_name}: holds has {len(holds)} rows for {n} ops; return one per op"
        )
    if holds.amount.dtype.kind not in "iu":
        raise BackendError(
            f"{backend_name}: amounts to hold are {holds.amount.dtype}; give whole numbers"
        )
    op = np.repeat(np.arange(n), np.diff(holds.indptr))
    bad = np.flatnonzero((holds.until < -1) | (holds.until >= n) | (holds.until == op))
    if len(bad):
        raise BackendError(
            f"{backend_name}: op {op[bad[0]]} holds until row {holds.until[bad[0]]} ends; give "
            f"another "
            f"of the {n} rows of the table, or -1"
        )
    bad = np.flatnonzero(holds.amount < 1)
    if len(bad):
        raise BackendError(
            f"{backend_name}: op {op[bad[0]]} holds an amount of {holds.amount[bad[0]]}; give 1 "
            f"or more"
        )
