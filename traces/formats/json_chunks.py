"""JSON text of a trace file; a large file is cut into chunks of complete events.

A chunk is cut before ``{"ph":``. This cannot occur inside a JSON string, whose quotes would be
escaped, so no parser is needed to find a place to cut.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from ...sim.errors import TraceError
from ...sim.units import Bytes
from .gzipped import is_gzipped

CHUNK = 2 * 2**20  # small: objects of one chunk reuse the memory of the last, 15 % faster
OBJECTS = 8  # memory that a chunk takes, decoded, over its length (measured: 5 to 7)
KEPT = 1.4  # peak memory over the length of the text (measured: 1.36 on 1.1 GB of bare events)
_CUT = re.compile(rb',\s*(?=\{\s*"ph"\s*:)')
_LOOK_BACK = 64
_BLOCK = 2**20
_TRIES = 8


class JsonChunk(NamedTuple):
    """Text of a complete JSON document, and the byte offset and line where it begins."""

    text: bytes
    offset: int
    line: int


def json_chunks(file: Path, memory: Bytes) -> Iterator[JsonChunk]:
    """Read a JSON file, plain or gzipped, as one or several chunks.

    Raises
    ------
    TraceError
        The file is empty, truncated, or needs more than `memory`.
    """
    if file.is_dir() or not file.stat().st_size:
        what = "is a folder" if file.is_dir() else "is empty"
        raise TraceError(f"{file}: {what}; give the profiler's .json or .json.gz")
    size = max(min(CHUNK, int(memory) // (2 * OBJECTS)), 2**12)
    try:
        yield from _cut_chunks(_read_blocks(file, size), file, size, int(memory))
    except EOFError as e:
        raise TraceError(
            f"{file}: gzip ends in the middle; copy it again, or record it again"
        ) from e
    except zlib.error as e:
        raise TraceError(f"{file}: gzip is damaged ({e}); copy it again") from e


def _read_blocks(file: Path, size: int) -> Iterator[bytes]:
    """Yield the decompressed text in blocks of at least `size` bytes."""
    packed = is_gzipped(file)
    with file.open("rb") as raw:
        stream = _inflate_blocks(raw, size) if packed else iter(lambda: raw.read(size), b"")
        held: list[bytes] = []
        for block in stream:
            held.append(block)
            if sum(map(len, held)) >= size:
                yield b"".join(held)
                held = []
        if held:
            yield b"".join(held)


def _inflate_blocks(raw: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield decompressed blocks of all gzip members (three times as fast as the gzip module)."""
    inflate, rest = zlib.decompressobj(31), b""
    while packed := rest or raw.read(_BLOCK):
        if inflate.eof:
            inflate = zlib.decompressobj(31)
        yield inflate.decompress(packed, size)
        rest = inflate.unused_data or inflate.unconsumed_tail
    if not inflate.eof:
        raise EOFError


def _cut_chunks(blocks: Iterator[bytes], file: Path, size: int, memory: int) -> Iterator[JsonChunk]:
    """Yield the chunks of a text: one chunk if it is a single block, otherwise several.

    Parameters
    ----------
    size : minimum length of a block, in B
    memory : maximum memory of the decoded file, in B; larger files are refused
    """
    text, more = _without_byte_order_mark(next(blocks, b""), file), next(blocks, b"")
    if not more:
        yield JsonChunk(text, 0, 1)
        return
    _refuse_beyond_memory(file, _decompressed_length(file), size, memory)
    yield from _cut_between_events(text, more, blocks, file, memory)


def _without_byte_order_mark(text: bytes, file: Path) -> bytes:
    """The beginning of a file, which is UTF-8."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise TraceError(
            f"{file}: is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8 {file.name})"
        )
    return text.removeprefix(codecs.BOM_UTF8)


def _cut_between_events(
    text: bytes, more: bytes, blocks: Iterator[bytes], file: Path, memory: int
) -> Iterator[JsonChunk]:
    """Yield chunks that end before the last event of each block.

    That event begins the next chunk.
    """
    opening, closing = (b"[", b"]") if text.lstrip()[:1] == b"[" else (b'{"traceEvents":[', b"]}")
    head, offset, line = b"", 0, 1
    while more:
        text += more
        more = next(blocks, b"")
        cut = _last_event_boundary(text) if more else None
        if more and cut is None:  # events do not begin with ph: whole, or not at all
            text, more = _whole_remaining_text(text + more, offset, blocks, file, memory), b""
        elif cut is not None:
            yield JsonChunk(head + text[: cut[0]] + closing, offset - len(head), line)
            head, offset, line = opening, offset + cut[1], line + text.count(b"\n", 0, cut[1])
            text = text[cut[1] :]
        _refuse_beyond_memory(file, offset + len(text), len(text), memory)
    yield JsonChunk(head + text, offset - len(head), line)


def _whole_remaining_text(
    text: bytes, offset: int, blocks: Iterator[bytes], file: Path, memory: int
) -> bytes:
    """The current text and all blocks that follow."""
    held, length = [text], len(text)
    for block in blocks:
        held.append(block)
        length += len(block)
        _refuse_beyond_memory(file, offset + length, length, memory)
    return b"".join(held)


def _last_event_boundary(text: bytes) -> tuple[int, int] | None:
    """Position of the comma before the last event, and of that event; None if not found."""
    at = text.rfind(b'"ph"')
    for _ in range(_TRIES):
        for comma in _CUT.finditer(text, max(at - _LOOK_BACK, 0), at + _LOOK_BACK):
            if comma.end() <= at:
                return comma.span()
        at = text.rfind(b'"ph"', 0, max(at, 0))
    return None


def _refuse_beyond_memory(file: Path, length: int, chunk: int, memory: int) -> None:
    """Refuse a text of `length` bytes, in chunks of `chunk` bytes, that needs too much memory."""
    need = KEPT * length + OBJECTS * min(chunk, length)
    if need > memory:
        raise TraceError(
            f"{file}: needs about {need / 2**30:.3g} GiB of memory, but {memory / 2**30:.3g} GiB "
            "are allowed; raise the limit (ulimit -v; in Python: memory=), or record fewer steps"
        )


def _decompressed_length(file: Path) -> int:
    """Length of the decompressed text; for gzip, the minimum length according to its trailer."""
    size = file.stat().st_size
    if not is_gzipped(file):
        return size
    with file.open("rb") as raw:
        raw.seek(-4, 2)
        length = int.from_bytes(raw.read(4), "little")
    # the trailer holds the length modulo 4 GiB
    return length + max(0, size - length + 2**32 - 1) // 2**32 * 2**32
