"""The columns of several files as one trace: one clock, one table of texts, one of tracks."""

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
from .decimal_ticks import PLACES, Micros
from .kineto_columns import Codes, KinetoColumns

_PICO = 10**PLACES
_LONGEST = 2**62  # ticks


class KinetoFile(NamedTuple):
    """What one file held; `base` is its clock's zero, ns."""

    columns: KinetoColumns
    process: FileHeader
    base: int


def join(parts: Sequence[KinetoFile], texts: Codes, tracks: Codes) -> Trace:
    """One trace; the ranks of `parts` ascend."""
    starts = [_joined(p.columns.times) for p in parts]
    lasting = [_joined(p.columns.lasting) for p in parts]
    notes = _notes(starts + lasting)
    fine = any((t.pico % 1000).any() for t in [*starts, *lasting])
    origin = min(
        p.base * 1000 + int(t.whole.min()) * _PICO for p, t in zip(parts, starts, strict=True)
    )
    unit = 1 if fine else 1000  # ps a tick
    origin -= origin % 1000
    tables = _tables(parts)
    tables["events"] = tables["events"].replace(
        ts=_ticks(starts, [p.base * 1000 - origin for p in parts], unit, parts),
        dur=_ticks(lasting, [0] * len(parts), unit, parts),
    )
    ranks = {p.columns.number: p.process.rank for p in parts}
    names = {k: v for p in parts for k, v in p.columns.thread_names.items()}
    return Trace(
        **tables,
        strings=tuple("" if s is None else s for s in texts.numbers),
        tracks=tuple(Track(ranks[t[0]], t[1], t[2], names.get(t, "")) for t in tracks.numbers),
        processes=tuple(p.process for p in parts),
        origin=origin // unit,
        resolution=10**12 // unit,
        notes=notes,
    )


def _joined(times: list[Micros]) -> Micros:
    """All times of a file; empties the list, so that memory is held once."""
    found = Micros(
        np.concatenate([t.whole for t in times]),
        np.concatenate([t.pico for t in times]),
        sum(t.rounded for t in times),
    )
    times.clear()
    return found


def _ticks(
    times: Sequence[Micros], shifts: Sequence[int], unit: int, parts: Sequence[KinetoFile]
) -> NDArray[np.int64]:
    """Whole ticks; `shifts` are in ps and may be beyond 64 bits until they are added."""
    made = []
    for t, shift, part in zip(times, shifts, parts, strict=True):
        micro, pico = divmod(shift, _PICO)
        whole = t.whole + micro
        if len(whole) and int(np.abs(whole).max()) * (_PICO // unit) > _LONGEST:
            raise TraceError(
                f"{part.columns.file}: its times span more than "
                f"{_LONGEST * unit / 1e12 / 86400:.0f} days; its clock and those of the other "
                "files do not belong together"
            )
        made.append(whole * (_PICO // unit) + (t.pico + pico) // unit)
    return np.concatenate(made)


def _tables(parts: Sequence[KinetoFile]) -> dict[str, Any]:
    """Tables of all files, one after the other; rows that point to events are moved along."""
    base, found = 0, dict[str, list[ColumnTable]]((name, []) for name in TABLES)
    for part in parts:
        for name in TABLES:
            for table in part.columns.parts[name]:
                if name == "events":
                    rank = np.full(len(table), part.process.rank, np.int32)
                    table = table.replace(rank=rank)
                else:
                    table = table.replace(event=table["event"] + base)
                found[name].append(table)
            part.columns.parts[name] = []  # held once
        base += part.columns.count
    return {n: ColumnTable.gather(t) if t else ColumnTable.of(n) for n, t in found.items()}


def _notes(times: Sequence[Micros]) -> tuple[str, ...]:
    rounded = sum(t.rounded for t in times)
    return (f"{rounded} times had more digits than a picosecond and were rounded",) * bool(rounded)
