"""Join the columns of several Kineto files into one trace on a common clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import TraceError
from ..column_table import ColumnTable
from ..event_columns import TABLES
from ..recorded_events import FileHeader, Track
from ..trace import Trace
from ..validate import LONGEST
from .decimal_ticks import PLACES, Micros
from .kineto_columns import KinetoColumns, ValueNumbering
from .kineto_mend import Mending, mending_notes

_PICO = 10**PLACES


class KinetoFile(NamedTuple):
    """Contents of one file.

    Parameters
    ----------
    processes : headers of its ranks
    base : zero of its clock, in ns
    rank_of_track : ranks of tracks that are not of the first rank
    """

    columns: KinetoColumns
    processes: tuple[FileHeader, ...]
    base: int
    mending: Mending
    rank_of_track: dict[int, int] = {}  # noqa: RUF012  never changed

    @property
    def track_ranks(self) -> NDArray[np.int32]:
        """Rank of each track of the trace, shape (tracks,), as far as it is of this file."""
        ranks = np.full(len(self.columns.tracks.numbers), self.processes[0].rank, np.int32)
        for track, rank in self.rank_of_track.items():
            ranks[track] = rank
        return ranks


def join_files(
    files: Sequence[KinetoFile],
    texts: ValueNumbering,
    tracks: ValueNumbering,
    notes: tuple[str, ...] = (),
) -> Trace:
    """Join files, sorted by rank, into one trace with the given notes."""
    starts = [_concatenate_times(f.columns.times) for f in files]
    durations = [_concatenate_times(f.columns.durations) for f in files]
    notes = (*notes, *_rounding_notes(starts + durations))
    notes += mending_notes(f.mending for f in files)
    picoseconds = any((t.pico % 1000).any() for t in [*starts, *durations])
    origin = min(
        f.base * 1000 + int(t.whole.min()) * _PICO for f, t in zip(files, starts, strict=True)
    )
    unit = 1 if picoseconds else 1000  # ps a tick
    origin -= origin % 1000
    tables = _joined_tables(files)
    tables["events"] = tables["events"].replace(
        ts=_times_to_ticks(starts, [f.base * 1000 - origin for f in files], unit, files),
        dur=_times_to_ticks(durations, [0] * len(files), unit, files),
    )
    ranks = {f.columns.number: f.track_ranks.tolist() for f in files}
    names = {k: v for f in files for k, v in f.columns.thread_names.items()}
    return Trace(
        **tables,
        strings=tuple("" if s is None else s for s in texts.numbers),
        tracks=tuple(
            Track(ranks[t[0]][i], t[1], t[2], names.get(t, ""))
            for i, t in enumerate(tracks.numbers)
        ),
        processes=tuple(sorted((h for f in files for h in f.processes), key=lambda h: h.rank)),
        origin=origin // unit,
        resolution=10**12 // unit,
        notes=notes,
    )


def _concatenate_times(times: list[Micros]) -> Micros:
    """Concatenate the times of a file; the input list is emptied to save memory."""
    gathered = Micros(
        np.concatenate([t.whole for t in times]),
        np.concatenate([t.pico for t in times]),
        sum(t.rounded for t in times),
    )
    times.clear()
    return gathered


def _times_to_ticks(
    times: Sequence[Micros], shifts: Sequence[int], unit: int, files: Sequence[KinetoFile]
) -> NDArray[np.int64]:
    """Times of all files in ticks of `unit` ps, each file shifted by its own shift in ps.

    Shifts may exceed 64 bits until they are added.
    """
    ticks = []
    for t, shift, file in zip(times, shifts, files, strict=True):
        micro, pico = divmod(shift, _PICO)
        whole = t.whole + micro
        if len(whole) and int(np.abs(whole).max()) * (_PICO // unit) > LONGEST:
            raise TraceError(
                f"{file.columns.file}: its times span more than "
                f"{LONGEST * unit / 1e12 / 86400:.0f} days; its clock and those of the other "
                "files do not belong together; give files of one recording"
            )
        ticks.append(whole * (_PICO // unit) + (t.pico + pico) // unit)
    return np.concatenate(ticks)


def _joined_tables(files: Sequence[KinetoFile]) -> dict[str, Any]:
    """Tables of all files, concatenated; columns that refer to event rows are adjusted."""
    base, tables = 0, dict[str, list[ColumnTable]]((name, []) for name in TABLES)
    for file in files:
        ranks = file.track_ranks
        for name in TABLES:
            for table in file.columns.tables[name]:
                if name == "events":
                    table = table.replace(rank=ranks[table["track"]])
                else:
                    table = table.replace(event=table["event"] + base)
                tables[name].append(table)
            file.columns.tables[name] = []  # held once
        base += file.columns.count
    return {n: ColumnTable.concatenate(t) if t else ColumnTable.of(n) for n, t in tables.items()}


def _rounding_notes(times: Sequence[Micros]) -> tuple[str, ...]:
    rounded = sum(t.rounded for t in times)
    return (f"{rounded} times had more digits than a picosecond and were rounded",) * bool(rounded)
