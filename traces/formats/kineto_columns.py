"""Columns of decoded Kineto events; for each kind of event only its own fields are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import TraceError
from ..column_table import ColumnTable
from ..event_category import category_kind
from ..event_columns import EVENTS, TABLES, Event
from .decimal_ticks import PLACES, Micros, parse_micros
from .kineto_process import ProcessTexts
from .kineto_schema import KinetoArgs, KinetoEvent

MEMORY = "[memory]"

_JOINS = ("correlation", "external")
_ON_HOST = ("external", "sequence", "forward", "function")
_TEXTS = ("shapes", "dtypes", "scalars", "stack", "module")
# fields that are str; other texts are kept as JSON
_PLAIN = ("stack", "module", "collective", "element", "group", "sync")
_PLACE = ("correlation", "external", "stream", "device", "bytes", "graph_node")
_FIELDS: dict[Event, tuple[str, ...]] = {
    Event.OP: _ON_HOST,
    Event.ANNOTATION: _ON_HOST,
    Event.PYTHON: ("python", "caller"),
    Event.RUNTIME: _JOINS,
    Event.KERNEL: _PLACE,
    Event.COPY: _PLACE,
    Event.SYNC: _PLACE,
    Event.OTHER: (*_ON_HOST, *(name for name in _PLACE if name not in _ON_HOST)),
}
_OLDER = {"external": "external_old", "correlation": "connection", "stream": "stream_id"}
"""Further names of a field, by writers of other times and vendors."""
_COLLECTIVE = {"sent": "sent", "received": "received", "size": "size", "sequence": "number"}
_COLLECTIVE_TEXT = {
    "name": "collective",
    "dtype": "element",
    "sent_splits": "sent_splits",
    "group": "group",
    "ranks": "ranks",
}
_SYNC = {name: name for name in ("stream", "awaited_stream", "awaited_record")}
_ALLOCATION = {name: name for name in ("allocated", "reserved", "device_type", "address")}


class ValueNumbering:
    """Numbering of distinct values, in order of first occurrence."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def numbers_of(self, values: Sequence[Any]) -> NDArray[np.int32]:
        """Number of each value, shape (n,); a new value gets a new number.

        >>> ValueNumbering().numbers_of(["b", "a", "b"]).tolist()
        [0, 1, 0]
        """
        numbers = self.numbers
        for value in dict.fromkeys(values):
            numbers.setdefault(value, len(numbers))
        return np.array([numbers[v] for v in values], np.int32)


class KinetoColumns:
    """Columns of one file, collected chunk by chunk.

    Parameters
    ----------
    file : path of the file, for error messages
    number : index of the file among those read together
    texts, tracks : numberings shared by all files of a trace
    """

    def __init__(self, file: str, number: int, texts: ValueNumbering, tracks: ValueNumbering):
        self.file, self.number, self.texts, self.tracks = file, number, texts, tracks
        self.tables: dict[str, list[ColumnTable]] = {name: [] for name in TABLES}
        self.times: list[Micros] = []
        self.durations: list[Micros] = []
        self.thread_names: dict[tuple[int, str, str], str] = {}
        self.processes = ProcessTexts()
        self.count = 0

    def add(self, events: Sequence[KinetoEvent], first: int) -> None:
        """Add the next events; `first` is the index in the file of the first of them."""
        phases = {e.ph for e in events}
        for e in events if phases & {"B", "E"} else ():
            if e.ph in "BE":
                self._raise_for_event(
                    events, e, first, "is split into begin and end; record complete events (ph X)"
                )
        if "M" in phases:
            described = [e for e in events if e.ph == "M"]
            self._name_threads(described)
            self.processes.add(described)
        kept = [e for e in events if e.ph == "X" or (e.ph == "i" and e.name == MEMORY)]
        if kept:
            self._add_rows(events, kept, first)
            self._refuse_negative(events, kept, first)

    def name_categories(self) -> None:
        """Give events without a category that of their process, once all its names are known."""
        empty = self.texts.numbers.get("", -2)
        for i, table in enumerate(self.tables["events"]):
            rows = np.flatnonzero(table["category"] == empty)
            if len(rows):
                self.tables["events"][i] = self._with_process_categories(table, rows)

    def _with_process_categories(self, table: ColumnTable, rows: NDArray[np.int64]) -> ColumnTable:
        tracks, names = list(self.tracks.numbers), list(self.texts.numbers)
        given = [
            self.processes.category(tracks[t][1], str(names[n]))
            for t, n in zip(
                table["track"][rows].tolist(), table["name"][rows].tolist(), strict=True
            )
        ]
        kind, category = table["kind"].copy(), table["category"].copy()
        is_other = kind[rows] == Event.OTHER  # not a release or an allocation of memory
        kind[rows[is_other]] = _event_kinds(given)[is_other]
        category[rows] = self.texts.numbers_of(given)
        return table.replace(kind=kind, category=category)

    def _name_threads(self, events: Iterable[KinetoEvent]) -> None:
        for e in events:
            if e.name == "thread_name":
                self.thread_names[self.number, str(e.pid), str(e.tid)] = str(e.args.name)

    def _refuse_negative(
        self, events: Sequence[KinetoEvent], kept: Sequence[KinetoEvent], first: int
    ) -> None:
        whole, pico, _ = self.durations[-1]
        for row in np.flatnonzero(whole < 0)[:1].tolist():
            lasts = whole[row] + pico[row] / 10**PLACES
            what = f"has the duration {lasts:g} us, because the clock was set back; record it again"
            self._raise_for_event(events, kept[row], first, what)

    def _raise_for_event(
        self, events: Sequence[KinetoEvent], culprit: KinetoEvent, first: int, what: str
    ) -> None:
        row = next(i for i, e in enumerate(events) if e is culprit)
        raise TraceError(f"{self.file}: event {first + row} ({culprit.name!r}): {what}")

    def _add_rows(self, events: Sequence[KinetoEvent], kept: list[KinetoEvent], first: int) -> None:
        categories = [e.cat or "" for e in kept]
        named = [e.name for e in kept]
        if None in named:
            culprit = kept[named.index(None)]
            self._raise_for_event(
                events, culprit, first, "has no name; the file is damaged, record it again"
            )
        kind = _event_kinds(categories)
        kind[[i for i, e in enumerate(kept) if e.ph == "i"]] = Event.MEMORY
        self.times.append(self._parse_times([e.ts for e in kept], "ts", kept))
        self.durations.append(self._parse_times([e.dur for e in kept], "dur", kept))
        columns: dict[str, Any] = {
            "kind": kind,
            "category": self.texts.numbers_of(categories),
            "name": self.texts.numbers_of(named),
            "track": self._track_numbers([(e.pid, e.tid) for e in kept]),
        }
        args = [e.args for e in kept]
        self._add_fields(columns, args, kind)
        self._add_side_tables(args, kind)
        self.tables["events"].append(ColumnTable.of("events", **columns))
        self.count += len(kept)

    def _track_numbers(self, pairs: list[tuple[Any, Any]]) -> NDArray[np.int32]:
        """Track number of each event, shape (n,); some programs write thread ids as strings."""
        codes = ValueNumbering()
        local = codes.numbers_of(pairs)
        known = [(self.number, str(pid), str(tid)) for pid, tid in codes.numbers]
        numbers: NDArray[np.int32] = self.tracks.numbers_of(known)[local]
        return numbers

    def _parse_times(self, texts: list[Any], field: str, kept: list[KinetoEvent]) -> Micros:
        try:
            return parse_micros(texts)
        except ValueError as e:
            row, text = e.args
            raise TraceError(
                f"{self.file}: {kept[row].name!r}: {field} is {text!r}, which is no time in "
                "microseconds; the file is damaged, record it again"
            ) from None

    def _add_fields(
        self, columns: dict[str, Any], args: list[KinetoArgs], kind: NDArray[Any]
    ) -> None:
        """Add the columns read from ``args``; each kind of event fills only its own columns."""
        names = {name for fields in _FIELDS.values() for name in fields} | set(_TEXTS)
        for name in names:
            columns[name] = np.full(len(args), EVENTS[name].absent, EVENTS[name].dtype)
        for value, fields in _FIELDS.items():
            rows = np.flatnonzero(kind == value)
            chosen = [args[i] for i in rows.tolist()]
            for name in fields if chosen else ():
                columns[name][rows] = self._integer_column(chosen, name)
            if value in (Event.OP, Event.ANNOTATION, Event.OTHER) and chosen:
                for name in _TEXTS:
                    columns[name][rows] = self._text_numbers(chosen, name)
        memory = np.flatnonzero(kind == Event.MEMORY)
        chosen = [args[i] for i in memory.tolist()]
        columns["bytes"][memory] = self._integer_column(chosen, "memory")
        columns["device"][memory] = self._integer_column(chosen, "memory_device")

    def _integer_column(self, args: list[KinetoArgs], name: str) -> NDArray[np.int64]:
        values = list(map(attrgetter(name), args))
        if name in _OLDER and -1 in values:
            other = map(attrgetter(_OLDER[name]), args)
            values = [o if v == -1 else v for v, o in zip(values, other, strict=True)]
        try:
            return np.array(values, np.int64)
        except (ValueError, TypeError, OverflowError):
            return np.array([self._check_integer(v, name) for v in values], np.int64)

    def _check_integer(self, value: object, name: str) -> int:
        if value is None or value == "":
            return -1
        try:
            return int(np.int64(int(str(value), 0)))
        except (ValueError, OverflowError):
            raise TraceError(
                f"{self.file}: args: {name} is {value!r}, which is not a 64-bit integer; the file "
                "is damaged, record it again"
            ) from None

    def _text_numbers(self, args: list[KinetoArgs], name: str) -> NDArray[np.int32]:
        """Text number of a field of each event, shape (n,); -1 if absent or empty."""
        values: list[Any] = list(map(attrgetter(name), args))
        if name not in _PLAIN:
            values = list(map(bytes, values))
            if name == "shapes" and not any(values):
                values = [bytes(a.shapes_old) for a in args]
            values = _decode_texts(values)
        if not any(values):
            return np.full(len(values), -1, np.int32)
        numbers = self.texts.numbers_of(values)
        empty = [self.texts.numbers.get(v, -2) for v in ("", None)]
        numbers[np.isin(numbers, empty)] = -1
        return numbers

    def _add_side_tables(self, args: list[KinetoArgs], kind: NDArray[Any]) -> None:
        named = np.array([i for i, a in enumerate(args) if a.collective is not None], np.int64)
        self._add_side_table("collectives", named, args, _COLLECTIVE, _COLLECTIVE_TEXT)
        self._add_side_table(
            "syncs", np.flatnonzero(kind == Event.SYNC), args, _SYNC, {"kind": "sync"}
        )
        self._add_side_table(
            "allocations", np.flatnonzero(kind == Event.MEMORY), args, _ALLOCATION, {}
        )

    def _add_side_table(
        self,
        table: str,
        rows: NDArray[np.int64],
        args: list[KinetoArgs],
        numbers: dict[str, str],
        texts: dict[str, str],
    ) -> None:
        """Add rows to a side table (``collectives``, ``syncs`` or ``allocations``).

        `rows` are the events that have a row there. `numbers` and `texts` give, by column of the
        table, the field of ``args`` that holds its numbers or its texts.
        """
        if not len(rows):
            return
        chosen = [args[i] for i in rows.tolist()]
        columns: dict[str, Any] = {
            to: self._integer_column(chosen, of) for to, of in numbers.items()
        }
        columns |= {to: self._text_numbers(chosen, of) for to, of in texts.items()}
        self.tables[table].append(ColumnTable.of(table, event=rows + self.count, **columns))


def _event_kinds(categories: list[str]) -> NDArray[np.uint8]:
    numbers = {c: category_kind(c) for c in set(categories)}
    return np.array([numbers[c] for c in categories], np.uint8)


def _decode_texts(values: list[bytes]) -> list[str]:
    """Decode UTF-8 texts without their quotes; each distinct text is decoded once."""
    texts = {v: v.decode("utf-8", "replace").strip('"') for v in set(values)}
    return [texts[v] for v in values]
