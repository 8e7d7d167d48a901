"""Table of ops: one row per op, one NumPy column per field, 45 bytes per row.

An op describes *what* must be done. Placement chooses the component, the component's backend
returns the time, and the simulation decides when the op starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..argument import as_column
from ..errors import BackendError
from .csr import Csr
from .kind import OUR_KINDS, kind_names
from .kind import Kind as Kind

if TYPE_CHECKING:
    from .system import System


DTYPES: dict[str, tuple[type[Any], Any]] = {
    "kind": (np.uint8, Kind.COMPUTE),
    "rank": (np.int32, 0),
    "stream": (np.int32, 0),
    "period": (np.int32, 0),
    "flop": (np.float64, np.nan),
    "bytes": (np.float64, np.nan),
    "signature": (np.int32, -1),
    "duration": (np.float64, np.nan),
    "label": (np.int32, -1),
}


@dataclass(frozen=True)
class OpPlacement:
    """Component and member GPUs of each op of a table, as backends read them.

    Parameters
    ----------
    system : Machine that the ops are placed on.
    component : (n,) component whose backend times each op
    members : (n,) rows of GPUs that take part in each send or collective, in group order
    """

    system: System
    component: NDArray[np.int32]
    members: Csr


@dataclass(frozen=True)
class Ops:
    """Ops as columns, one row per op. Unknown ``flop``, ``bytes`` and ``duration`` are NaN.

    Parameters
    ----------
    kind : (n,) number of the op's :class:`Kind`
    rank, stream : (n,) rank and stream of the op; of a collective, those of its first member
    period : (n,) number of the period (iteration), from 0; -1 for none
    flop, bytes : (n,) work of the op; of a collective, ``bytes`` is the size of one rank's buffer
    signature : (n,) index into ``signatures``; -1 for none
    duration : (n,) recorded duration in s
    label : (n,) index into the graph's labels; -1 for none
    signatures : distinct signatures, in the grammar of ``docs/signatures.md``
    at : component and members of each op; None before placement

    Examples
    --------
    >>> ops = Ops.of(flop=[0, 2e6], bytes=1000)
    >>> len(ops), ops.bytes.tolist(), ops.kind_names
    (2, [1000.0, 1000.0], ['compute', 'compute'])
    """

    kind: NDArray[np.uint8]
    rank: NDArray[np.int32]
    stream: NDArray[np.int32]
    period: NDArray[np.int32]
    flop: NDArray[np.float64]
    bytes: NDArray[np.float64]
    signature: NDArray[np.int32]
    duration: NDArray[np.float64]
    label: NDArray[np.int32]
    signatures: tuple[str, ...] = ()
    at: OpPlacement | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, *, signatures: tuple[str, ...] = (), **columns: ArrayLike) -> Ops:
        """Table from columns; a scalar is repeated for all rows, and an absent column is unknown.

        Raises
        ------
        TypeError
            A name is not a column, columns have different lengths, or a value is no number of the
            column's type.
        """
        unknown = columns.keys() - DTYPES.keys()
        if unknown:
            raise TypeError(f"no columns are named {sorted(unknown)}; they are {list(DTYPES)}")
        n = max((np.size(c) for c in columns.values() if np.ndim(c)), default=1)
        made: dict[str, Any] = {}
        for name, (_, default) in DTYPES.items():
            values = _checked(name, columns.get(name, default))
            if values.ndim and len(values) != n:
                raise TypeError(
                    f"column {name!r} has {len(values)} rows, others have {n}; give all the same "
                    f"length"
                )
            made[name] = np.ascontiguousarray(np.broadcast_to(values, (n,)))
        return cls(**made, signatures=signatures)

    def __len__(self) -> int:
        return len(self.kind)

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling, with names of kinds, since plug-in kinds differ by process."""
        theirs = self.kind.max(initial=0) >= len(OUR_KINDS)
        return {**vars(self), "kinds": [*Kind.__members__]} if theirs else vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "kinds" in state:
            state = dict(state)
            numbers = np.array([Kind[name] for name in state.pop("kinds")], np.uint8)
            state["kind"] = numbers[state["kind"]]
        vars(self).update(state)

    def take(self, rows: ArrayLike) -> Ops:
        """Selected rows in the given order, without their placement.

        >>> Ops.of(flop=[1, 2, 3]).take([2, 0]).flop.tolist()
        [3.0, 1.0]
        """
        rows = np.asarray(rows)
        taken: dict[str, Any] = {n: getattr(self, n)[rows] for n in DTYPES}
        return replace(self, **taken, at=None)

    def take_with_placement(self, rows: ArrayLike) -> Ops:
        """Selected rows in the given order, with their placement.

        >>> from foretrace.sim.facts.system import Component, System
        >>> system = System((Component("a", "gpu"), Component("b", "gpu")))
        >>> ops = Ops.of(flop=[1, 2, 3]).with_placement(system, [0, 1, 1])
        >>> ops.take_with_placement([2, 0]).at.component.tolist()
        [1, 0]
        """
        rows, part = np.asarray(rows), self.take(rows)
        if self.at is None:
            return part
        return part.with_placement(
            self.at.system, self.at.component[rows], self.at.members.take(rows)
        )

    def replace(self, **columns: ArrayLike) -> Ops:
        """Copy with some columns replaced; scalars are repeated.

        >>> Ops.of(flop=[1, 2]).replace(rank=3).rank.tolist()
        [3, 3]
        """
        made: dict[str, Any] = {
            name: np.ascontiguousarray(np.broadcast_to(_checked(name, c), len(self)))
            for name, c in columns.items()
        }
        return replace(self, **made)

    def with_work(self, flop: NDArray[np.float64], bytes: NDArray[np.float64]) -> Ops:
        """Copy with other flop and bytes, float columns of its length; quicker than `replace`.

        >>> Ops.of(flop=[1, 2]).with_work(np.array([3.0, 4.0]), np.zeros(2)).flop.tolist()
        [3.0, 4.0]
        """
        made = object.__new__(Ops)
        vars(made).update(vars(self), flop=flop, bytes=bytes)
        return made

    def with_placement(
        self, system: System, component: ArrayLike, members: Csr | None = None
    ) -> Ops:
        """Copy with a component and member GPUs for each op."""
        where = np.broadcast_to(np.asarray(component, np.int32), len(self))
        return replace(self, at=OpPlacement(system, where, members or Csr.empty(len(self))))

    @property
    def kind_names(self) -> list[str]:
        """Lower-case kind of each op, such as ``compute`` or ``host``."""
        names: list[str] = kind_names()[self.kind].tolist()
        return names

    def signature_text(self, row: int) -> str:
        """Signature of one op; ``""`` for none.

        >>> Ops.of(signature=[0], signatures=("compute:mm",)).signature_text(0)
        'compute:mm'
        """
        i = int(self.signature[row])
        return self.signatures[i] if i >= 0 else ""

    @staticmethod
    def concat(tables: list[Ops]) -> Ops:
        """Concatenation of tables; equal signatures share a number.

        >>> tables = [Ops.of(signature=[0], signatures=(text,)) for text in "xy"]
        >>> Ops.concat(tables).signatures
        ('x', 'y')
        """
        texts: dict[str, int] = {}
        moved = []
        for table in tables:
            to = np.array([texts.setdefault(s, len(texts)) for s in table.signatures] + [-1])
            moved.append(to[table.signature])
        columns: dict[str, Any] = {
            n: np.concatenate([getattr(t, n) for t in tables]) for n in DTYPES if n != "signature"
        }
        return Ops.of(**columns, signature=np.concatenate(moved), signatures=tuple(texts))


def _checked(name: str, values: ArrayLike) -> NDArray[Any]:
    """Values of a column in its type."""
    return as_column(f"column {name!r}", values, DTYPES[name][0], TypeError)


def require(ops: Ops, *columns: str) -> None:
    """Raise an error if a column is unknown (NaN) for any op; the message names the first one.

    Raises
    ------
    BackendError
        A required column is unknown.

    Examples
    --------
    >>> require(Ops.of(flop=1), "bytes")
    Traceback (most recent call last):
    ...
    foretrace.sim.errors.BackendError: op 0 (compute): bytes are unknown; bind a backend that \
does not need them ('recorded'), or record them
    """
    for name in columns:
        unknown = np.flatnonzero(np.isnan(getattr(ops, name)))
        if len(unknown):
            row = int(unknown[0])
            what = ops.signature_text(row) or ops.kind_names[row]
            if name == "duration":
                raise BackendError(
                    f"op {row} ({what}): no time was recorded; bind a model for ops "
                    "without a recorded time ({use: [recorded, roofline]})"
                )
            raise BackendError(
                f"op {row} ({what}): {name} are unknown; bind a backend that does not need them "
                f"('recorded'), or record them"
            )
