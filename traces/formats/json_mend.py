"""Mend JSON text as profilers write it: only what has one possible meaning is changed.

Texts that are not escaped, Latin-1, numbers such as ``inf`` and superfluous commas are mended,
event by event. The text is read only after a fast decoder refused it.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

LATIN = "texts had bytes that are not UTF-8 and were read as Latin-1"
ESCAPES = "texts had control characters, quotes or backslashes without an escape"
NUMBERS = "numbers were infinite or not a number and were read as missing"
VALUES = "fields had no value and were read as missing"
COMMAS = "superfluous commas were left out"
EMPTY = "empty events were left out"
UNCLOSED = "lists of events are not closed, so later events may be missing"
SKIPPED = "events were skipped, because they cannot be read"
ONE = {
    LATIN: "text had bytes that are not UTF-8 and was read as Latin-1",
    ESCAPES: "text had control characters, quotes or backslashes without an escape",
    NUMBERS: "number was infinite or not a number and was read as missing",
    VALUES: "field had no value and was read as missing",
    COMMAS: "superfluous comma was left out",
    EMPTY: "empty event was left out",
    UNCLOSED: "list of events is not closed, so later events may be missing",
    SKIPPED: "event was skipped, because it cannot be read",
}
"""Texts of the kinds of change, for a single one."""

_TOKEN = re.compile(rb'"|[\[\]{},:]|[^\s"\[\]{},:]+')
_QUOTE_OR_ESCAPE = re.compile(rb'"|\\(.)?', re.DOTALL)
_ANYTHING = re.compile(b"")
_AFTER_KEY = re.compile(rb"\s{0,64}:")
_AFTER_VALUE = re.compile(rb'\s{0,64}(?:,\s{0,64}(?:"[^"\\]{0,100}"\s{0,64}:|[}\]]|\Z)|[}\]]|\Z)')
_AFTER_ITEM = re.compile(rb'\s{0,64}(?:,\s{0,64}(?:["\[{\]\dtfn-]|\Z)|\]|\Z)')
_WORDS = rb"[+-]?(?:inf(?:inity)?|nan(?:\(\w*\))?|1\.#\w+)"
_NO_NUMBER = re.compile(_WORDS, re.IGNORECASE)
_STRING_OR_NO_NUMBER = re.compile(
    rb'"(?:[^"\\]|\\.)*+"|' + _WORDS + rb"(?=\s*[,}\]])", re.IGNORECASE | re.DOTALL
)
_ESCAPED = re.compile(rb'["\\/bfnrt]')
_UNICODE = re.compile(rb"\\u[0-9a-fA-F]{4}")
_HALF_PAIR = re.compile(  # half of a surrogate pair; group 1 is what may stay
    rb"(\\\\|\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w)|\\u[dD][89a-fA-F]\w\w"
)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_CONTROL_OR_BACKSLASH = re.compile(rb"[\x00-\x1f\\]")
_BACKSLASH = re.compile(rb"\\")
_OPENING = (b"{", b"[")


def _latin_bytes(error: UnicodeError) -> tuple[str, int]:
    """Read the bytes that are not UTF-8 as Latin-1."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("foretrace-latin-1", _latin_bytes)


class Mended(NamedTuple):
    """Mended text of JSON values, and what was mended.

    Parameters
    ----------
    text : the values up to the end of the list that contains them
    rest : text after the end of that list
    closed : True if that list ends in the text
    complete : True if every value ends in the text
    clear : True if the end of every string is certain; otherwise ``text`` is not to be used
    changes : number of changes by kind, such as ``LATIN``
    """

    text: bytes
    rest: bytes
    closed: bool
    complete: bool
    clear: bool
    changes: Counter[str]


def mend(text: bytes, *, raw_backslashes: bool = False) -> Mended:
    r"""Mend the values of a list, without the bracket that opens it.

    Parameters
    ----------
    raw_backslashes : True if a backslash never begins an escape, as in ``"C:\dir\"``

    Examples
    --------
    >>> mended = mend(b'{"name": "a "b"", "rate": inf,}], "end": 1}')
    >>> mended.text, mended.rest
    (b'{"name":"a \\"b\\"","rate": null}', b', "end": 1}')
    """
    scan = _Scan(text, raw_backslashes)
    scan.run()
    return Mended(
        b"".join(scan.out), text[scan.at :], scan.closed, not scan.stack, scan.clear, scan.changes
    )


class _Scan:
    """One pass over a text, token by token."""

    def __init__(self, text: bytes, raw_backslashes: bool):
        self.text, self.raw, self.at = text, raw_backslashes, 0
        self.out: list[bytes] = []
        self.stack: list[bytes] = []
        self.changes: Counter[str] = Counter()
        self.closed, self.clear = False, True

    def run(self) -> None:
        """Read to the end of the list, or of the text."""
        while token := _TOKEN.search(self.text, self.at):
            self.at = token.end()
            word = token[0]
            if word == b"]" and not self.stack:
                self._drop_comma()
                self.closed = True
                return
            self._add(word)
        self._drop_comma()

    def _add(self, word: bytes) -> None:
        if word in (b",", b"}", b"]"):
            self._end_value(word)
        elif word == b'"':
            self.out.append(b'"' + self._string() + b'"')
        elif word in _OPENING:
            self.stack.append(word)
            self.out.append(word)
        elif word == b":":
            self.out.append(word)
        elif _NO_NUMBER.fullmatch(word):
            self.changes[NUMBERS] += 1
            self.out.append(b" null")
        else:
            self.out.append(b" " + word)  # two words stay two

    def _end_value(self, word: bytes) -> None:
        """Add a comma, or the end of a list or an object."""
        last = self.out[-1] if self.out else b","
        if last == b":":
            self.changes[VALUES] += 1
            self.out.append(b"null")
        if word == b",":
            if last == b"," and not self.stack:
                self.changes[COMMAS] += 1
            else:
                self.out.append(word)
            return
        self._drop_comma()
        if self.stack:
            self.stack.pop()
        if word == b"}" and last == b"{" and not self.stack:
            self.changes[EMPTY] += 1
            self.out.pop()
        else:
            self.out.append(word)

    def _drop_comma(self) -> None:
        """Leave out a comma before the end of a list or an object."""
        if self.out and self.out[-1] == b",":
            self.out.pop()
            self.changes[COMMAS] += 1

    def _string(self) -> bytes:
        """Body of the string that begins here, mended."""
        end = self._end_of_string()
        body = self.text[self.at : end]
        self.at = min(end + 1, len(self.text))
        return _mend_string(body, self.changes, self.raw)

    def _end_of_string(self) -> int:
        """Position of the quote that ends the string: the first that JSON may follow."""
        in_list = not self.stack or self.stack[-1] == b"["
        is_key = not in_list and self.out[-1] in (b"{", b",")
        after = _ANYTHING if is_key else _AFTER_ITEM if in_list else _AFTER_VALUE
        for quote in _QUOTE_OR_ESCAPE.finditer(self.text, self.at):
            end = quote.end() - 1
            if (quote[0] == b'"' or (self.raw and quote[0] == b'\\"')) and after.match(
                self.text, end + 1
            ):
                return end
            if quote[0] == b'"' and _AFTER_KEY.match(self.text, end + 1):
                self.clear = False  # the end of a key: a quote or a comma may be missing
        return len(self.text)


def mend_words(text: bytes) -> tuple[bytes, Counter[str]]:
    r"""Mend strings and numbers of a text whose quotes are right; also returns the changes.

    Much faster than :func:`mend`. If quotes are wrong, the text is no JSON after this either.

    >>> mend_words(b'["\xfc", -inf]')[0].decode()
    '["ü", null]'
    """
    changes: Counter[str] = Counter()

    def mended(word: re.Match[bytes]) -> bytes:
        found = word[0]
        if found[:1] != b'"':
            changes[NUMBERS] += 1
            return b"null"
        if found.isascii() and not _CONTROL_OR_BACKSLASH.search(found):
            return found
        return b'"' + _mend_string(found[1:-1], changes, False) + b'"'

    return _STRING_OR_NO_NUMBER.sub(mended, text), changes


def _mend_string(body: bytes, changes: Counter[str], raw_backslashes: bool) -> bytes:
    """Mend the body of a string, and count what was changed."""
    escaped = _escape(body, raw_backslashes)
    changes[ESCAPES] += escaped != body
    try:
        escaped.decode()
    except UnicodeDecodeError:
        changes[LATIN] += 1
        return escaped.decode("utf-8", "foretrace-latin-1").encode()
    return escaped


def _escape(body: bytes, raw_backslashes: bool) -> bytes:
    r"""Escape quotes, control characters, and backslashes that are no escapes.

    >>> _escape(rb"C:\Users", False), _escape(rb"\n", False)
    (b'C:\\\\Users', b'\\n')
    """
    if raw_backslashes or any(map(_is_no_escape, _escapes_of(body))):
        body = _BACKSLASH.sub(rb"\\\\", body)
    body = _QUOTE_OR_ESCAPE.sub(lambda m: rb"\"" if m[0] == b'"' else m[0], body)
    body = _HALF_PAIR.sub(lambda m: m[1] or rb"\ufffd", body)
    return _CONTROL.sub(lambda m: b"\\u%04x" % m[0][0], body)


def _escapes_of(body: bytes) -> Iterator[bytes]:
    """Text from each backslash that may begin an escape."""
    for found in _QUOTE_OR_ESCAPE.finditer(body):
        if found[0] != b'"':
            yield body[found.start() : found.start() + 6]


def _is_no_escape(text: bytes) -> bool:
    return not (_ESCAPED.match(text, 1) or _UNICODE.match(text))
