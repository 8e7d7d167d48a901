"""Backend: the source of the time that a component takes for an op when nothing else runs.

A model predicts the time, a recording looks it up, a driver measures it; the simulation treats
all three alike. The input is a table of ops, the output a table of timings, both in SI units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..argument import as_column, shown
from ..errors import BackendError
from ..registry import register
from .coded import Coded
from .doubt import Doubt
from .ops import Ops
from .system import System

C = TypeVar("C")


@dataclass(frozen=True)
class Usage:
    """Components whose rate each op shares, with a weight for each.

    An op that runs at rate x takes ``weight * x`` of the component's rate. The table is in CSR
    form: the uses of op ``i`` are the entries ``indptr[i]`` to ``indptr[i + 1]``.

    Parameters
    ----------
    indptr : (n + 1,) first entry of each op, and the number of entries
    component : (m,) component number of each entry
    weight : (m,) weight of each entry, above 0

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
        """Usage from a list with one ``{component: weight}`` mapping per op."""
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(r) for r in rows], out=indptr[1:])
        return cls(
            indptr,
            as_column("component", [c for r in rows for c in r], np.int32, _usage_error),
            as_column("weight", [w for r in rows for w in r.values()], np.float64, _usage_error),
        )

    @classmethod
    def repeated(cls, components: ArrayLike, n: int, weight: float = 1.0) -> Usage:
        """Usage in which each of ``n`` ops uses the same components."""
        one = np.atleast_1d(as_column("component", components, np.int32, _usage_error))
        indptr = np.arange(n + 1, dtype=np.int64) * len(one)
        each = as_column("weight", [weight], np.float64, _usage_error)[0]
        return cls(indptr, np.tile(one, n), np.full(n * len(one), each))

    def __len__(self) -> int:
        return len(self.indptr) - 1


@dataclass(frozen=True)
class Holds:
    """Amounts of capacities, such as GPU memory, that ops hold from before start to end.

    A ready op first waits until it gets all its amounts, and then queues for its slots. The table
    is in CSR form: the amounts of op ``i`` are the entries ``indptr[i]`` to ``indptr[i + 1]``.

    Parameters
    ----------
    indptr : (n + 1,) first entry of each op, and the number of entries
    component : (m,) component number of each entry
    amount : (m,) amount of each entry in the component's unit, 1 or more
    until : (m,) row of another op; the amount is released only once that op has ended too. -1 for
        none

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
        """Holds from a list with one sequence of ``(component, amount[, until])`` tuples per op."""
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=indptr[1:])
        whole = [(*hold, -1)[:3] for row in rows for hold in row]
        component, amount, until = zip(*whole, strict=True) if whole else ((), (), ())
        return cls(
            indptr,
            as_column("component", list(component), np.int32, _holds_error),
            _amounts(list(amount)),
            as_column("until", list(until), np.int32, _holds_error),
        )

    def __len__(self) -> int:
        return len(self.indptr) - 1


@dataclass(frozen=True)
class Spread:
    """Distribution of op durations, as quantiles of factors on the typical duration.

    A drawn duration is the typical duration times three factors: one of the process start (common
    to all ops of a replica), one of the op's rank and iteration, and one of the op itself. Factors
    are at least 0 and below 4096; so is the product of a start factor and a step factor.

    Parameters
    ----------
    step : (q,) factors, ascending
        Quantiles at (i + 1/2) / q of the factor of a rank and iteration; empty if it does not vary.
    op : (q,) factors, ascending
        Quantiles at (i + 1/2) / q of the op's own factor; empty if it does not vary.
    start : (q,) factors, ascending
        Quantiles at (i + 1/2) / q of the factor of a process start; empty if it does not vary.
    """

    step: NDArray[np.float64]
    op: NDArray[np.float64]
    start: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class Timing:
    """Op timings from a backend: time of each op without contention, and the rates it shares.

    An op first takes ``fixed`` seconds, during which it uses no bandwidth. Then it does ``work``
    at the rate that it gets of its ``usage``, never faster than ``limit``.

    Parameters
    ----------
    fixed : (n,) fixed time of each op, in s
    work : (n,) or None
        Work of each op, in the unit of the components it uses (B, flop or 1). None if no op has
        work.
    usage : Usage or None
        Components whose rate each op shares. None: the component whose backend was called, with
        weight 1.
    limit : (n,) or None
        Upper limit of each op's rate, in work units per second; infinite for no limit.
    spread : Coded[Spread] or None
        Distribution of each op's duration. None if durations do not vary.
    source : Coded[str] or None
        Origin of each op's time, as a text. None for the backend's own ``source``.
    holds : Holds or None
        Amounts of capacities that each op holds. None if no op holds any.
    doubt : Coded[Doubt] or None
        Error distribution of each op's time. None, or code -1, if the backend does not know it.

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
        """Timing from arrays, lists or scalars; a scalar applies to all ops."""

        def given(what: str, values: ArrayLike) -> NDArray[np.float64]:
            return np.atleast_1d(as_column(what, values, np.float64, _timing_error))

        seconds = given("fixed", fixed)

        def coded(value: C | Coded[C] | None) -> Coded[C] | None:
            if value is None or isinstance(value, Coded):
                return value
            return Coded.constant(value, len(seconds))

        return cls(
            seconds,
            None if work is None else given("work", work),
            usage,
            None if limit is None else given("limit", limit),
            coded(spread),
            coded(source or None),
            holds,
            coded(doubt),
        )

    def __len__(self) -> int:
        return len(self.fixed)

    def rows_without_rate_bound(self) -> NDArray[np.int64]:
        """Rows that have work, but neither a usage nor a limit that bounds its rate.

        >>> Timing.of([0.0, 0.0], work=[0.0, 2.0]).rows_without_rate_bound().tolist()
        [1]
        """
        if self.work is None:
            return np.empty(0, np.int64)
        uses = np.zeros(len(self), np.int64) if self.usage is None else np.diff(self.usage.indptr)
        limit = np.full(len(self), np.inf) if self.limit is None else self.limit
        return np.flatnonzero((self.work > 0) & (uses == 0) & np.isinf(limit))

    def with_explicit_usage(self, component: NDArray[np.int32]) -> Timing:
        """Timing whose usage is not None; by default, ops use their own component with weight 1.

        ``component`` is the component of each op.
        """
        if self.work is None or self.usage is not None:
            return self
        n = len(self)
        usage = Usage(np.arange(n + 1, dtype=np.int64), component, np.ones(n))
        return replace(self, usage=usage)


RENAMED_METHODS = {"alike": "timing_groups"}
"""Old names of methods that subclasses define; release 0.3 no longer knows them."""


class Backend:
    """Base class of everything that times ops of a component. Subclass it and write ``timing``.

    The constructor is the schema: its keyword names are the allowed keys of a scenario, their
    annotations state the unit of each value, and the docstring explains them. The constructor must
    not open files or devices; ``open`` may.

    Attributes
    ----------
    source : str
        Origin of its times, shown next to every result.
    online : bool
        True if it is called during the run, when an op starts, instead of before the run.
    uniform : bool
        A promise: the time of an op depends only on the op's columns other than ``rank`` and on its
        members. It does not depend on the component, nor on other ops in the table or earlier
        calls. Then one rank is timed for all equal ranks of an SPMD graph; without the promise
        every op is timed.
    answers_part : str
        Kind of part (``library``, ``nic`` …) whose catalog entry may carry this backend's settings.
        A part that gives all required settings is bound to it; other parts keep the default backend
        of their kind.
    """

    registered_name: ClassVar[str] = ""
    source: str = ""
    online: bool = False
    uniform: bool = False
    answers_part: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a subclass that defines a method under its old name, which nobody would call."""
        super().__init_subclass__(**options)
        for old in RENAMED_METHODS.keys() & vars(cls).keys():
            raise TypeError(f"{cls.__name__}.{old}() is now {RENAMED_METHODS[old]}(); rename it")

    def open(self, system: System) -> None:
        """Prepare for this system; called once before the first call of ``timing``."""

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """Boolean array, shape (n,): True for each op that the backend can time.

        It is called after ``open``.

        By default True for all ops, and ``timing`` raises an error for an op that it cannot time.
        In a chain of backends, the first one that knows an op times it.
        """
        return np.ones(len(ops), bool)

    def timing_groups(self, system: System) -> NDArray[np.int64] | None:
        """Group number of each component: equal ops on components of one group take equal times.

        It is the promise of ``uniform``, made within each group. None makes no promise.
        """
        return np.zeros(len(system.components), np.int64) if self.uniform else None

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Time that each op takes when nothing else runs.

        Parameters
        ----------
        ops : Ops
            Ops to time; ``ops.at`` gives the component and the member GPUs of each.
        now : s
            simulated time of the call, in s; only for ``online`` backends
        """
        raise TypeError(
            f"{type(self).__name__}: timing() is missing; write it, to return the time of each op"
        )

    def close(self) -> None:
        """Release the files, devices or processes that ``open`` acquired."""


BACKENDS: dict[str, type[Backend]] = {}
MOST_FACTOR = 4096  # since draws are 32-bit integers in 2^-20
B = TypeVar("B", bound=type[Backend])


def backend(name: str) -> Callable[[B], B]:
    """Class decorator that registers a backend under the name that scenarios use.

    Raises
    ------
    ValueError
        The name is taken.
    """
    return register(BACKENDS, "backends", name, "registered_name")


def check_timing(
    timing: Timing, ops: Ops, backend_name: str, rows: NDArray[np.int64] | None = None
) -> None:
    """Raise an error for an impossible timing: wrong length, NaN, negative, infinite or unknown.

    Parameters
    ----------
    rows : (n,) number of each op to use in error messages; by default its row in the table

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
    for name, values in columns.items():
        if values is None:
            if name == "fixed":
                raise BackendError(f"{backend_name}: fixed is None; give one time per op, in s")
            continue
        _check_array(values, f"{backend_name}: {name}", "biuf")
        if len(values) != len(ops):
            raise BackendError(
                f"{backend_name}: {name} has {len(values)} values for {len(ops)} ops; return one "
                f"per op"
            )
        bad = np.flatnonzero(~((values >= 0) & (np.isfinite(values) | (name == "limit"))))
        if len(bad):
            row = int(bad[0])
            what = ops.signature_text(row) or ops.kind_names[row]
            must = "be >= 0" if name == "limit" else "be finite and >= 0"
            op = row if rows is None else int(rows[row])
            raise BackendError(
                f"{backend_name}: {name} of op {op} ({what}) is {values[row]}; it must {must}"
            )
    if timing.usage is not None:
        _check_usage(timing.usage, ops, backend_name)
    if timing.holds is not None:
        _check_holds(timing.holds, ops, backend_name)
    for name, coded in (
        ("spread", timing.spread),
        ("source", timing.source),
        ("doubt", timing.doubt),
    ):
        if coded is not None:
            _check_codes(coded, len(ops), name, backend_name)
    for spread in timing.spread.values if timing.spread is not None else ():
        check_spread(spread, backend_name)


def uncontended_seconds(timing: Timing, ops: Ops) -> NDArray[np.float64]:
    """Time of each op if nothing else runs, in s, shape (n,).

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


def _usage_error(why: str) -> BackendError:
    return BackendError(f"usage: {why}")


def _holds_error(why: str) -> BackendError:
    return BackendError(f"holds: {why}")


def _amounts(amounts: list[int]) -> NDArray[np.int64]:
    """Amounts as a column; fractions stay, so that the error names the backend."""
    floats = any(isinstance(amount, float) for amount in amounts)
    return as_column("amount", amounts, np.float64 if floats else np.int64, _holds_error)


def _timing_error(why: str) -> BackendError:
    return BackendError(f"timing: {why}")


def _check_array(values: object, what: str, kinds: str) -> None:
    """Raise an error for what is not an array of one dimension, of these kinds of numbers."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in kinds:
        return
    wanted = "numbers" if "f" in kinds else "whole numbers"
    kind = f"{values.ndim}-d {values.dtype}" if isinstance(values, np.ndarray) else shown(values)
    raise BackendError(f"{what} is {kind}; give {wanted}, as a NumPy array of 1 dimension")


def _check_csr(table: Usage | Holds, columns: str, what: str) -> None:
    """Raise an error for a table in CSR form whose rows and entries do not fit together."""
    _check_array(table.indptr, f"{what}.indptr", "iu")
    for name in columns.split():
        _check_array(getattr(table, name), f"{what}.{name}", "biuf" if name == "weight" else "iu")
        entries, ends = len(getattr(table, name)), table.indptr
        if ends[:1].tolist() != [0] or ends[-1] != entries or np.any(np.diff(ends) < 0):
            raise BackendError(
                f"{what}.indptr is {shown(ends.tolist())}; begin with 0, do not descend, and end "
                f"with {entries}, the number of entries of {name}"
            )


def _check_components(component: NDArray[np.int32], what: str, ops: Ops) -> None:
    """Raise an error for a component that the system of these ops does not have."""
    if ops.at is None:
        return
    count = len(ops.at.system.components)
    strange = component[(component < 0) | (component >= count)]
    if len(strange):
        raise BackendError(
            f"{what} names component {strange[0]}; the system has components 0 to {count - 1}"
        )


def _check_usage(usage: Usage, ops: Ops, backend_name: str) -> None:
    if not isinstance(usage, Usage):
        raise BackendError(f"{backend_name}: usage is {shown(usage)}; return a Usage, or None")
    _check_csr(usage, "component weight", f"{backend_name}: usage")
    if len(usage) != len(ops):
        raise BackendError(
            f"{backend_name}: usage has {len(usage)} rows for {len(ops)} ops; return one per op"
        )
    if not np.all((usage.weight > 0) & np.isfinite(usage.weight)):
        raise BackendError(
            f"{backend_name}: a usage weight is not above 0, or infinite; give a finite one above 0"
        )
    _check_components(usage.component, f"{backend_name}: usage", ops)


def check_spread(spread: Spread, backend_name: str) -> None:
    """Raise an error for a distribution whose factors are not ascending or out of range.

    Raises
    ------
    BackendError
        Names the component and the factor.
    """
    for name in ("step", "op", "start"):
        factors = getattr(spread, name)
        _check_array(factors, f"{backend_name}: spread.{name}", "biuf")
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


def _check_holds(holds: Holds, ops: Ops, backend_name: str) -> None:
    """Raise an error for holds of a wrong length, component, amount or ``until`` row."""
    if not isinstance(holds, Holds):
        raise BackendError(f"{backend_name}: holds is {shown(holds)}; return a Holds, or None")
    n, what = len(ops), f"{backend_name}: holds"
    _check_csr(holds, "component amount until", what)
    _check_components(holds.component, what, ops)
    if len(holds) != n:
        raise BackendError(
            f"{backend_name}: holds has {len(holds)} rows for {n} ops; return one per op"
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
