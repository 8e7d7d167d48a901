"""Reader of Kineto (Chrome) JSON, the format of the PyTorch profiler: one file per rank.

Files may be plain or gzipped.
"""

from __future__ import annotations

import gc
import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import UNSET

from ...sim.errors import TraceError
from ...sim.units import Bytes
from ..recorded_events import FileHeader, ProcessGroup
from ..trace import Trace
from ..validate import MOST_RANKS
from .json_chunks import JsonChunk, json_chunks
from .kineto_columns import KinetoColumns, ValueNumbering
from .kineto_join import KinetoFile, join_files
from .kineto_mend import DOCUMENT, LIST, NOT_JSON, Mending
from .kineto_ranks import number_files, refuse_files_without_work, split_file
from .kineto_schema import KinetoDistributed, KinetoDocument
from .memory_budget import memory_budget
from .other_formats import other_format_of_events, other_format_of_text


def read(paths: str | Path | Iterable[str | Path], *, memory: Bytes | None = None) -> Trace:
    """Read one file or the files of several ranks.

    Parameters
    ----------
    paths : a file, a glob pattern, or several of them
    memory : maximum memory for reading, in B; None for 2 GiB, or less if ``ulimit -v`` leaves less.
        Larger files are read in chunks or refused

    Raises
    ------
    TraceError
        A file that is missing, damaged, no trace, or too large; two files of one rank.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "rank0.json"
    ...     _ = file.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm",'
    ...                         '"pid": 1, "tid": 1, "ts": 1712170331000000.125, "dur": 0.5}]}')
    ...     trace = read(file)
    >>> trace, trace.absolute_start(0), trace.events["dur"].tolist()
    (<Trace: 1 events, rank 0>, 1712170331000000125, [500])
    """
    files = _expand_globs(paths)
    memory = memory_budget() if memory is None else memory
    texts, tracks = ValueNumbering(), ValueNumbering()
    try:
        with _garbage_collection_off():
            kineto_files = [
                _read_file(file, KinetoColumns(str(file), i, texts, tracks), memory / len(files))
                for i, file in enumerate(files)
            ]
        refuse_files_without_work([f.columns for f in kineto_files])
        kineto_files, notes = _ranked(kineto_files, files)
        _refuse_same_rank([header for f in kineto_files for header in f.processes])
        return join_files(kineto_files, texts, tracks, notes)
    except MemoryError as error:
        raise TraceError(
            f"{files[0]}: needs more than the allowed {memory / 2**30:.3g} GiB of memory; raise "
            "the limit (ulimit -v; in Python: memory=), or record fewer steps"
        ) from error


def _expand_globs(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    """Files that paths and globs name, without duplicates."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    files: list[Path] = []
    for path in given:
        matches = (
            [str(path)] if Path(path).exists() else sorted(glob.glob(str(path), recursive=True))
        )
        if not matches:
            raise TraceError(f"{path}: no such file; check the name or the pattern")
        files += map(Path, matches)
    return list(dict.fromkeys(files))


def _ranked(
    found: Sequence[KinetoFile], files: Sequence[Path]
) -> tuple[list[KinetoFile], tuple[str, ...]]:
    """Files with the ranks of their processes, sorted by rank, and notes on guessed ranks."""
    headers, note = number_files([f.processes[0] for f in found], files)
    ranked, notes = [], [note]
    for file, header in zip(found, headers, strict=True):
        ranks, split = split_file(file.columns, header)
        ranked.append(file._replace(processes=ranks.headers, rank_of_track=ranks.rank_of_track))
        notes.append(split)
    for header in (h for f in ranked for h in f.processes):
        _refuse_wrong_rank(header)
    ranked.sort(key=lambda f: f.processes[0].rank)
    return ranked, tuple(filter(None, notes))


def _refuse_wrong_rank(header: FileHeader) -> None:
    if not 0 <= header.rank < MOST_RANKS or not 0 <= header.world <= MOST_RANKS:
        raise TraceError(
            f"{header.file}: is of rank {header.rank} of {header.world}; a job has ranks from 0, "
            f"and at most {MOST_RANKS}: the file is damaged, record it again"
        )


def _refuse_same_rank(headers: Sequence[FileHeader]) -> None:
    for a, b in pairwise(sorted(headers, key=lambda header: header.rank)):
        if a.rank == b.rank:
            raise TraceError(
                f"{b.file}: is of rank {b.rank}, like {a.file}; give one file per rank (if a file "
                "contains no rank, name it like rank3.json.gz)"
            )


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Context manager that disables garbage collection while millions of objects are made."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _read_file(file: Path, columns: KinetoColumns, memory: Bytes) -> KinetoFile:
    """Read one file into `columns`, chunk by chunk."""
    head, mending = KinetoDocument(), Mending()
    seen = 0
    for chunk in json_chunks(file, memory):
        document = _decode_chunk(chunk, file, seen, mending)
        if document.events is UNSET:
            raise TraceError(f"{file}: {_explain_missing_trace_events(document, chunk)}")
        if other := other_format_of_events(document.events):
            raise TraceError(f"{file}: {other}")
        columns.add(document.events, seen)
        seen += len(document.events)
        head = _merge_headers(head, document)
    if mending.refuses(seen):
        raise TraceError(mending.refusal)
    columns.name_categories()
    if not columns.count:
        raise TraceError(f"{file}: holds no events with a duration; record at least one step")
    return KinetoFile(columns, (_file_header(head, file),), head.base, mending)


def _explain_missing_trace_events(document: KinetoDocument, chunk: JsonChunk) -> str:
    """Message about a file without ``traceEvents``: what it may be, and what to use instead."""
    if bytes(document.nodes):
        return "is an execution trace, which has no times; give the profiler's Kineto file"
    if other := other_format_of_text(chunk.text):
        return other
    return "has no traceEvents; give a trace of the PyTorch profiler (Kineto JSON)"


def _merge_headers(head: KinetoDocument, chunk: KinetoDocument) -> KinetoDocument:
    """Merge the header fields of two chunks; the first chunk that has a field wins."""
    return KinetoDocument(
        base=head.base or chunk.base,
        distributed=head.distributed or chunk.distributed,
        devices=head.devices or chunk.devices,
        own=head.own or chunk.own,
    )


def _decode_chunk(chunk: JsonChunk, file: Path, seen: int, mending: Mending) -> KinetoDocument:
    """Decode one chunk, mended if it is not strict JSON.

    `seen` is the number of earlier events, used in error messages.
    """
    try:
        if chunk.text[:1] == b"[":
            return KinetoDocument(events=LIST.decode(chunk.text))
        return DOCUMENT.decode(chunk.text)
    except NOT_JSON as e:
        if other := other_format_of_text(chunk.text):
            raise TraceError(f"{file}: {other}") from e
        refusal = f"{file}: {_decoder_error_place(e, chunk, seen)}; {_DAMAGED}"
        document = mending.read(chunk.text, refusal)
        if document is None:
            raise TraceError(refusal) from e
        return document


def _decoder_error_place(error: Exception, chunk: JsonChunk, seen: int) -> str:
    """Place and reason of an error of the decoder."""
    if isinstance(error, msgspec.ValidationError):
        return _number_event_in_message(str(error), seen)
    if isinstance(error, UnicodeDecodeError):
        return _utf8_error_place(chunk)
    return _json_error_place(str(error), chunk)


_DAMAGED = "the file is damaged or not a profiler trace, record it again"


def _number_event_in_message(message: str, seen: int) -> str:
    """Rewrite msgspec's error message so that events are counted from the beginning of the file.

    >>> _number_event_in_message("Expected `int`, got `str` - at `$.traceEvents[3].dur`", 100)
    'event 103: dur: Expected `int`, got `str`'
    """
    what, _, path = message.partition(" - at ")
    path = path.strip("`").removeprefix("$.traceEvents").removeprefix("$")
    event = re.match(r"\[(\d+)\]\.?(.*)", path)
    if event is None:
        return f"{path.lstrip('.') or 'the file'}: {what}"
    field = f": {event[2]}" if event[2] else ""
    return f"event {seen + int(event[1])}{field}: {what}"


def _json_error_place(message: str, chunk: JsonChunk) -> str:
    """Line and column where the JSON text ends early or is invalid."""
    byte = re.search(r"\(byte (\d+)\)", message)
    if "recursion" in message:
        return "is nested too deeply"
    if byte is None:
        return f"JSON ends in the middle, after {chunk.offset + len(chunk.text)} bytes"
    at = int(byte[1])
    before = chunk.text[:at]
    line = chunk.line + before.count(b"\n")
    column = at - before.rfind(b"\n")
    what = message[: byte.start()].removeprefix("JSON is malformed: ").strip()
    return f"line {line}, column {column}: JSON is wrong ({what})"


def _utf8_error_place(chunk: JsonChunk) -> str:
    """Line and value of the first byte that is not UTF-8."""
    try:
        chunk.text.decode()
    except UnicodeDecodeError as e:
        line = chunk.line + chunk.text.count(b"\n", 0, e.start)
        return f"line {line}: byte {e.object[e.start]:#04x} is not UTF-8"
    return "is not UTF-8"


def _file_header(head: KinetoDocument, file: Path) -> FileHeader:
    """Header of a file; its rank is -1 if the file does not state it."""
    info = head.distributed or KinetoDistributed()
    groups = tuple(
        ProcessGroup(g.pg_name, tuple(g.ranks), g.backend_config or info.backend)
        for g in info.pg_config or ()
    )
    device = head.devices[0].name if head.devices else ""
    timed = head.own is None or not bytes(head.own.meta)
    return FileHeader(info.rank, file.name, info.world_size, info.backend, device, groups, timed)
