"""What was recorded, untouched: events as columns, exact integer times, nothing inferred."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .event_columns import TABLES, EventColumn

if TYPE_CHECKING:
    from ..sim.graph import Graph
    from .infer.trace_info import Info


class ColumnTable:
    """Columns of equal length, by name: ``table["ts"]``.

    Examples
    --------
    >>> table = ColumnTable.of("syncs", event=[4, 7], stream=7)
    >>> len(table), table["stream"].tolist(), table["awaited_stream"].tolist()
    (2, [7, 7], [-1, -1])
    """

    def __init__(self, kind: str, columns: Mapping[str, NDArray[Any]]):
        self.kind, self._columns = kind, dict(columns)

    @classmethod
    def of(cls, kind: str, /, **columns: ArrayLike) -> ColumnTable:
        """Build from columns; scalars are repeated, the rest is absent.

        Raises
        ------
        TypeError
            A name that is no column of this table.
        """
        unknown = columns.keys() - TABLES[kind].keys()
        if unknown:
            raise TypeError(
                f"{kind} have no column {sorted(unknown)}; they have {list(TABLES[kind])}"
            )
        n = max((np.size(c) for c in columns.values() if np.ndim(c)), default=0)
        return cls(kind, {k: _column(c, columns.get(k), n) for k, c in TABLES[kind].items()})

    @staticmethod
    def gather(tables: Sequence[ColumnTable]) -> ColumnTable:
        """All rows, one table after the other; empties the tables, so that memory is held once."""
        names = list(tables[0]._columns)
        return ColumnTable(
            tables[0].kind, {k: np.concatenate([t._columns.pop(k) for t in tables]) for k in names}
        )

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __repr__(self) -> str:
        return f"<{self.kind}: {len(self)} rows>"

    def take(self, rows: NDArray[np.int64]) -> ColumnTable:
        """Those rows, in that order."""
        return ColumnTable(self.kind, {k: c[rows] for k, c in self._columns.items()})

    def replace(self, **columns: NDArray[Any]) -> ColumnTable:
        """A copy with other columns."""
        return ColumnTable(self.kind, {**self._columns, **columns})

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns by name."""
        return dict(self._columns)


def _column(column: EventColumn, values: ArrayLike | None, n: int) -> NDArray[Any]:
    made = np.asarray(column.absent if values is None else values, column.dtype)
    return np.ascontiguousarray(np.broadcast_to(made, (n,)))


class Track(NamedTuple):
    """A line of events: a thread of a process, or a stream of a GPU."""

    rank: int
    process: str
    thread: str
    name: str = ""


class ProcessGroup(NamedTuple):
    """A process group: who takes part in its collectives."""

    name: str
    ranks: tuple[int, ...]
    backend: str = ""


class FileHeader(NamedTuple):
    """What one file says of its process.

    Parameters
    ----------
    world : int
        Ranks in the job; 0 where the file does not say.
    device : str
        Name of the GPU; "" where none was used.
    """

    rank: int
    file: str
    world: int = 0
    backend: str = ""
    device: str = ""
    groups: tuple[ProcessGroup, ...] = ()


@dataclass(frozen=True)
class Trace:
    """Events of one or several ranks as columns (``docs/trace-format.md``).

    Parameters
    ----------
    events, collectives, syncs, allocations : Table
    strings : texts that columns point into
    tracks : threads and GPU streams
    processes : one for each rank, ascending
    origin : int
        Ticks from the clock's own zero to time 0 of column ``ts``.
    resolution : int
        Ticks a second: 10^9, or 10^12 where a file has finer digits.
    notes : what a reader should know, e.g. that digits beyond a picosecond were rounded

    Examples
    --------
    >>> trace = Trace.of(strings=("aten::mm",), name=[0, 0], ts=[0, 1500], dur=[1000, 500])
    >>> trace
    <Trace: 2 events, rank 0>
    >>> trace.text("name").tolist(), trace.seconds(trace.events["dur"]).tolist()
    (['aten::mm', 'aten::mm'], [1e-06, 5e-07])
    """

    events: ColumnTable
    strings: tuple[str, ...] = ()
    tracks: tuple[Track, ...] = ()
    processes: tuple[FileHeader, ...] = ()
    collectives: ColumnTable = field(default_factory=lambda: ColumnTable.of("collectives"))
    syncs: ColumnTable = field(default_factory=lambda: ColumnTable.of("syncs"))
    allocations: ColumnTable = field(default_factory=lambda: ColumnTable.of("allocations"))
    origin: int = 0
    resolution: int = 10**9
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, *, strings: Sequence[str] = (), **columns: ArrayLike) -> Trace:
        """Events of rank 0 from columns; absent columns are "not recorded"."""
        events = ColumnTable.of("events", **{"rank": 0, "track": 0, **columns})
        return cls(events, tuple(strings), (Track(0, "0", "0"),), (FileHeader(0, ""),))

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        ranks = ", ".join(str(p.rank) for p in self.processes)
        return f"<Trace: {len(self)} events, rank{'s' * (len(self.processes) > 1)} {ranks}>"

    def text(self, column: str, table: str = "events") -> NDArray[Any]:
        """(n,) the texts of a column of numbers; "" where not recorded."""
        found: NDArray[Any] = self._texts[getattr(self, table)[column]]
        return found

    @cached_property
    def _texts(self) -> NDArray[Any]:
        return np.array([*self.strings, ""], object)  # -1, not recorded, is the last

    def seconds(self, ticks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Ticks of this trace in seconds."""
        return np.asarray(ticks / self.resolution, np.float64)

    def absolute(self, row: int) -> int:
        """Start of an event on the recording's own clock, ticks: exact, however large."""
        return self.origin + int(self.events["ts"][row])

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that were recorded, ascending."""
        return tuple(p.rank for p in self.processes)

    def graph(
        self,
        *,
        missing_ranks: str = "refuse",
        serialise: bool = False,
        iterations: Iterable[int] | None = None,
    ) -> Graph:
        """Infer what waits for what.

        Parameters
        ----------
        missing_ranks : ``refuse``, ``like_recorded`` or ``recorded_waits``
            What stands for ranks of the job that were not recorded: an error, copies of the
            recorded ones, or the times that the recorded ones spent waiting for them.
        serialise : bool
            Whether a trace without dependency information may be run in recorded order.
        iterations : numbers of recorded steps to keep; all by default

        Raises
        ------
        TraceError
            The trace does not hold what is needed; the message names file and event.
        """
        from .infer.dependencies import graph

        return graph(self, missing_ranks=missing_ranks, serialise=serialise, iterations=iterations)

    def info(self) -> Info:
        """What the trace holds, and what it can be used for."""
        from .infer.trace_info import info

        return info(self)
