"""Events of Kineto JSON that a strict decoder refuses: mended, or skipped and counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from .json_mend import COMMAS, ONE, SKIPPED, UNCLOSED, Mended, mend, mend_words
from .kineto_schema import KinetoDocument, KinetoEvent

LARGEST = 2**23  # B; a longer text is mended event by event, to hold it only once
SKIPPED_AT_MOST = 0.01  # of the events of a file
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of the decoder; ``msgspec.ValidationError`` is a ``DecodeError``."""

DOCUMENT = msgspec.json.Decoder(KinetoDocument)
LIST = msgspec.json.Decoder(list[KinetoEvent])
_LIST_OF_EVENTS = re.compile(rb'\s*\[|.*?"traceEvents"\s*:\s*\[', re.DOTALL)
_PHASE = re.compile(rb'"ph"\s*:')
_START = re.compile(rb'"ts"\s*:')
_PH_FIRST = re.compile(rb'\{\s*"ph"\s*:')
_FIRST_KEY = re.compile(rb'\{\s*"(\w{1,20})"\s*:')
_KEYS = rb"ph|cat|name|pid|tid|ts|dur|id|args|s|bp"


@dataclass
class Mending:
    """What was changed in the text of a file, and how many events were skipped.

    Parameters
    ----------
    changes : number of changes by kind, the texts of ``json_mend``
    refusal : error of the first chunk that has a skipped event; "" if no event was skipped
    """

    changes: Counter[str] = field(default_factory=Counter)
    skipped: int = 0
    refusal: str = ""

    def refuses(self, events: int) -> bool:
        """True if too many events were skipped; `events` were read.

        >>> Mending(skipped=1).refuses(99), Mending(skipped=1).refuses(98)
        (False, True)
        """
        return self.skipped > SKIPPED_AT_MOST * (events + self.skipped)

    def read(self, text: bytes, refusal: str) -> KinetoDocument | None:
        """Decode a chunk that was refused with the error `refusal`; None if it cannot be mended."""
        if len(text) > LARGEST:
            return self._read_by_events(text, refusal)
        words, changes = mend_words(text)
        document = decode(words)
        if document is not None and not any(map(_lacks_a_time, document.events or ())):
            self.changes += changes
            return document
        return self._read_by_events(text, refusal)

    def _read_by_events(self, text: bytes, refusal: str) -> KinetoDocument | None:
        opening = _LIST_OF_EVENTS.match(text)
        if opening is None:
            return None
        head, body = text[: opening.end()], text[opening.end() :]
        spans = list(_pieces(body, _first_key(body)))
        last = _mend_last(body[spans[-1][0] :])
        if not last.complete:
            return None  # an event breaks off, so an unknown number is missing
        spans[-1] = spans[-1][0], len(body) - len(last.rest) - last.closed
        document = self._read_head(head, last)
        if document is None:
            return None
        self.changes[UNCLOSED] += not last.closed
        if len(spans) > 1 and not body[: spans[0][1]].strip():
            self.changes[COMMAS] += 1  # before the first event
        pieces = (body[start:end] for start, end in spans)
        document.events = [e for piece in pieces for e in self._read_events(piece, refusal)]
        return document

    def _read_head(self, head: bytes, last: Mended) -> KinetoDocument | None:
        """Decode the fields of a file around its list of events."""
        if head.strip() == b"[":
            return None if last.rest.strip() else KinetoDocument()
        text = head + b"]" + (last.rest if last.closed else b"}")
        for tried, changes in ((text, Counter[str]()), *_readings(text)):
            document = decode(tried)
            if document is not None:
                self.changes += changes
                return document
        return None

    def _read_events(self, piece: bytes, refusal: str) -> list[KinetoEvent]:
        """Decode a piece of the list, mended where needed; what cannot be read is skipped."""
        events = self._decode_piece(piece)
        if events is not None:
            return events
        parts = list(_pieces(piece, _KEYS))
        if len(parts) > 1:
            return [e for a, b in parts for e in self._read_events(piece[a:b], refusal)]
        self.skipped += max(len(_PHASE.findall(piece)), len(_START.findall(piece)), 1)
        self.refusal = self.refusal or refusal
        return []

    def _decode_piece(self, piece: bytes) -> list[KinetoEvent] | None:
        """Events of a piece; None if it cannot be mended."""
        events = _events(piece)
        if events is not None:
            return events
        for text, changes in _readings(piece):
            events = _events(text)
            if events is not None and not any(map(_lacks_a_time, events)):
                self.changes += changes
                return events
        return None


def _readings(piece: bytes) -> Iterator[tuple[bytes, Counter[str]]]:
    """Mended texts of a piece, the likeliest first, and what each changed."""
    yield mend_words(piece)
    for raw in (False, True):
        mended = mend(piece, raw_backslashes=raw)
        if mended.clear:
            yield mended.text, mended.changes


def _events(text: bytes) -> list[KinetoEvent] | None:
    """Events of a text of a list without its brackets; None if it cannot be decoded."""
    try:
        return LIST.decode(b"[" + text + b"]")
    except NOT_JSON:
        return None


def decode(text: bytes) -> KinetoDocument | None:
    """Events and header of a strict JSON text; None if it cannot be decoded."""
    try:
        if text[:1] == b"[":
            return KinetoDocument(events=LIST.decode(text))
        return DOCUMENT.decode(text)
    except NOT_JSON:
        return None


def _lacks_a_time(event: KinetoEvent) -> bool:
    return event.ph == "X" and (bytes(event.ts) in (b"", b"null") or bytes(event.dur) == b"null")


def _mend_last(text: bytes) -> Mended:
    """Mended last event of the list; its ``rest`` is what follows the list."""
    mended = mend(text)
    return mended if mended.complete else mend(text, raw_backslashes=True)


def _first_key(body: bytes) -> bytes:
    """Key that events begin with: ``ph``, or the key of the first event."""
    first = None if _PH_FIRST.search(body) else _FIRST_KEY.search(body)
    return first[1] if first else b"ph"


def _pieces(text: bytes, keys: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each piece of a list, cut before objects that begin with one of `keys`."""
    start = 0
    for comma in re.finditer(rb',\s*(?=\{\s*"(?:' + keys + rb')"\s*:)', text):
        yield start, comma.start()
        start = comma.end()
    yield start, len(text)


def mending_notes(mendings: Iterable[Mending]) -> tuple[str, ...]:
    """Notes on all files of a trace, one for each kind of change.

    >>> mending_notes([Mending(Counter({COMMAS: 1}), 2, "x.json: line 3 is wrong; …")])
    ('1 superfluous comma was left out', '2 events were skipped, ... (x.json: line 3 is wrong)')
    """
    every = list(mendings)
    changes = sum((m.changes for m in every), Counter[str]())
    changes[SKIPPED] = sum(m.skipped for m in every)
    notes = [f"{n} {ONE[what] if n == 1 else what}" for what, n in changes.items() if n]
    if changes[SKIPPED]:
        first = next(m.refusal for m in every if m.refusal).partition(";")[0]
        notes[-1] += f" ({first})"
    return tuple(notes)
