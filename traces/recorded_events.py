"""Recorded events of ranks as the profiler wrote them: columns, texts, tracks, files.

Times are exact integers; nothing is inferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .column_table import ColumnTable

GUESSED = "Ranks are guessed"
"""First words of the note on ranks that no file states."""


class Track(NamedTuple):
    """Track of events: a thread of a process, or a stream of a GPU."""

    rank: int
    process: str
    thread: str
    name: str = ""


class ProcessGroup(NamedTuple):
    """Process group: the ranks that take part in its collectives."""

    name: str
    ranks: tuple[int, ...]
    backend: str = ""


class FileHeader(NamedTuple):
    """Header of one file: the process it was recorded in.

    Parameters
    ----------
    world : int
        Number of ranks of the job; 0 if the file does not say.
    device : str
        Name of the GPU; "" if none was used.
    timed : bool
        True if times are recorded. Otherwise only the order of events has a meaning.
    """

    rank: int
    file: str
    world: int = 0
    backend: str = ""
    device: str = ""
    groups: tuple[ProcessGroup, ...] = ()
    timed: bool = True


@dataclass(frozen=True)
class RecordedEvents:
    """Recorded events of one or several ranks, as columns (``docs/trace-format.md``).

    Parameters
    ----------
    events, collectives, syncs, allocations : tables, declared in ``event_columns``
    strings : texts that columns refer to by number
    tracks : threads and GPU streams
    processes : one file header per rank, ascending
    origin : int
        Ticks from the zero of the recording's clock to time 0 of column ``ts``.
    resolution : int
        Ticks per second: 10^9, or 10^12 if a file has finer digits.
    notes : remarks from reading, such as that digits below a picosecond were rounded

    Examples
    --------
    >>> of = RecordedEvents.of
    >>> recorded = of(strings=("aten::mm",), name=[0, 0], ts=[0, 1500], dur=[1000, 500])
    >>> recorded.text("name").tolist(), recorded.seconds(recorded.events["dur"]).tolist()
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
    def of(cls, *, strings: Sequence[str] = (), **columns: ArrayLike) -> Self:
        """Build events of rank 0 from columns; missing columns are "not recorded"."""
        events = ColumnTable.of("events", **{"rank": 0, "track": 0, **columns})
        return cls(events, tuple(strings), (Track(0, "0", "0"),), (FileHeader(0, ""),))

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        name, s = type(self).__name__, "s" * (len(self.processes) > 1)
        return f"<{name}: {len(self)} events, rank{s} {', '.join(map(str, self.ranks))}>"

    def text(self, column: str, table: str = "events") -> NDArray[Any]:
        """Texts of a column of text numbers, shape (n,); "" if not recorded."""
        texts: NDArray[Any] = self._texts[getattr(self, table)[column]]
        return texts

    @cached_property
    def _texts(self) -> NDArray[Any]:
        return np.array([*self.strings, ""], object)  # -1, not recorded, is the last

    def seconds(self, ticks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Convert ticks to seconds."""
        return np.asarray(ticks / self.resolution, np.float64)

    def absolute_start(self, row: int) -> int:
        """Exact start of an event on the recording's own clock, in ticks."""
        return self.origin + int(self.events["ts"][row])

    @property
    def timed(self) -> bool:
        """True if times were recorded; False for a step that was not run."""
        return all(p.timed for p in self.processes)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Recorded ranks, ascending."""
        return tuple(p.rank for p in self.processes)
