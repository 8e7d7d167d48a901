"""Journal of a coupled run: all measured op times in order, to repeat the run without a device.

Each request is one JSON line: component, number, ops with contexts, times in ns, clock. Floats are
read back exactly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from ...sim.errors import RecordingError
from ..sample import Request

SCHEMA = 2  # of the first there was no checksum; it is still read


class OpTimer(Protocol):
    """Interface of an object that times ops in a coupled run: a device, or a journal."""

    clock: str
    source: str

    def alone(self, request: Request) -> float:
        """Time of one op that runs alone, in ns."""

    def together(self, requests: Sequence[Request]) -> list[float]:
        """Time of each op while all of them are in flight, in ns."""


@dataclass(frozen=True)
class JournalEntry:
    """One request to a device, and the measured times.

    Parameters
    ----------
    component : name under ``hil.swap``
    sequence : index of this request among the requests to the component, from 0
    asked : ``(signature, context)`` of each requested op; several ops were in flight together
    ns : time of each op, in ns
    clock : clock that measured the times
    """

    component: str
    sequence: int
    asked: tuple[tuple[str, str], ...]
    ns: tuple[float, ...]
    clock: str


class JournalWriter:
    """Op timer that forwards requests to another timer and records the measured times.

    Examples
    --------
    >>> class Always:
    ...     clock, source = "wall", "a test"
    ...     def alone(self, request):
    ...         return 5.0
    >>> writer = JournalWriter("node0.gpu0", Always())
    >>> writer.alone(Request("compute:mm")), writer.entries[0].asked
    (5.0, (('compute:mm', 'warm'),))
    """

    def __init__(self, component: str, timer: OpTimer):
        self.component, self._timer = component, timer
        self.clock, self.source = timer.clock, timer.source
        self.entries: list[JournalEntry] = []
        self.on_entry: Callable[[JournalEntry], object] = lambda entry: None

    def alone(self, request: Request) -> float:
        """Time of one op that runs alone, in ns."""
        ns = self._timer.alone(request)
        self._append_entry([request], [ns])
        return ns

    def together(self, requests: Sequence[Request]) -> list[float]:
        """Time of each op while all of them are in flight, in ns."""
        ns = self._timer.together(requests)
        self._append_entry(requests, ns)
        return ns

    def _append_entry(self, requests: Sequence[Request], ns: Sequence[float]) -> None:
        asked = tuple(r.key for r in requests)
        number = len(self.entries)
        entry = JournalEntry(self.component, number, asked, tuple(ns), self._timer.clock)
        self.entries.append(entry)
        self.on_entry(entry)


class JournalReader:
    """Op timer that replays a journal.

    The same requests must come in the same order; otherwise it raises RecordingError.
    """

    def __init__(self, component: str, entries: Iterable[JournalEntry], source: str):
        self.component = component
        self._entries = [e for e in entries if e.component == component]
        if not self._entries:
            raise RecordingError(
                f"journal: it has no entries for {component} and belongs to another scenario; give "
                "the journal of this one"
            )
        self.clock, self.source = self._entries[0].clock, source
        self._next = 0

    def alone(self, request: Request) -> float:
        """Recorded time of one op that runs alone, in ns."""
        return self._next_answer([request])[0]

    def together(self, requests: Sequence[Request]) -> list[float]:
        """Recorded time of each op while all of them are in flight, in ns."""
        return list(self._next_answer(requests))

    def _next_answer(self, requests: Sequence[Request]) -> tuple[float, ...]:
        if self._next == len(self._entries):
            raise RecordingError(
                f"journal: it has {self._next} requests to {self.component}, and this run makes "
                "one more, so the scenario differs from the one that was journalled; give that one"
            )
        entry = self._entries[self._next]
        asked = tuple(r.key for r in requests)
        if entry.asked != asked:
            raise RecordingError(
                f"journal: request {self._next} to {self.component} was {entry.asked}, and in this "
                f"run it is {asked}, so the scenario differs from the one that was journalled; "
                "give that one"
            )
        self._next += 1
        return entry.ns


def write_journal(path: Path, entries: Iterable[JournalEntry]) -> None:
    """Write a journal: a header line with the checksum of the rest, then one line per entry."""
    body = "".join(json.dumps(asdict(e)) + "\n" for e in entries)
    head = {"foretrace": "journal", "schema": SCHEMA, "sha256": _checksum(body)}
    path.write_text(json.dumps(head) + "\n" + body)


def read_journal(path: Path) -> list[JournalEntry]:
    """Read the entries of a journal file.

    Raises
    ------
    RecordingError
        The file does not exist, is not a journal, has another version, or was truncated or changed.
    """
    try:
        first, _, body = path.read_text().partition("\n")
        head = json.loads(first)
        known = ({"foretrace": "journal", "schema": s} for s in (1, SCHEMA))
        if {k: v for k, v in head.items() if k != "sha256"} not in list(known):
            raise ValueError(f"it begins with {head}")
        if head["schema"] == SCHEMA and head.get("sha256") != _checksum(body):
            raise RecordingError(f"{path}: its checksum does not fit its lines; copy it again")
        return [entry_of_json(json.loads(line)) for line in body.splitlines()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordingError(
            f"{path}: is no journal of this version ({error}); give one that a coupled run wrote"
        ) from error


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def entry_of_json(line: dict[str, object]) -> JournalEntry:
    """Build an entry from its JSON fields.

    KeyError, TypeError or ValueError if they are malformed.
    """
    asked = tuple((str(s), str(c)) for s, c in line["asked"])  # type: ignore[attr-defined]
    ns = tuple(float(x) for x in line["ns"])  # type: ignore[attr-defined]
    if len(ns) != len(asked):
        raise ValueError(f"{len(asked)} ops and {len(ns)} answers in one line")
    sequence = int(line["sequence"])  # type: ignore[call-overload]
    return JournalEntry(str(line["component"]), sequence, asked, ns, str(line["clock"]))
