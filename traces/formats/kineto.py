"""Read what the PyTorch profiler wrote: Kineto (Chrome) JSON, plain or gzip, one file a rank."""

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
from .kineto_columns import Codes, KinetoColumns
from .kineto_join import KinetoFile, join
from .kineto_schema import KinetoDistributed, KinetoDocument, KinetoEvent
from .memory_budget import memory_budget


def read(paths: str | Path | Iterable[str | Path], *, memory: Bytes | None = None) -> Trace:
    """Read one file or the files of several ranks.

    Parameters
    ----------
    paths : a file, a glob pattern, or several of them
    memory : what reading may take, 2 GiB (or what ``ulimit -v`` leaves) unless said; larger
        files are read in pieces, or refused

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
    >>> trace, trace.absolute(0), trace.events["dur"].tolist()
    (<Trace: 1 events, rank 0>, 1712170331000000125, [500])
    """
    files = _files(paths)
    memory = memory_budget() if memory is None else memory
    texts, tracks = Codes(), Codes()
    try:
        with _without_collector():
            parts = [
                _read_file(file, KinetoColumns(str(file), i, texts, tracks), memory / len(files))
                for i, file in enumerate(files)
            ]
        parts.sort(key=lambda p: p.process.rank)
        _refuse_twins(parts)
        return join(parts, texts, tracks)
    except MemoryError as error:
        raise TraceError(
            f"{files[0]}: needs more than the {memory / 2**30:.3g} GiB of memory that there are; "
            "allow more, or record fewer steps"
        ) from error


def _files(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found: list[Path] = []
    for path in given:
        hits = [str(path)] if Path(path).exists() else sorted(glob.glob(str(path), recursive=True))
        if not hits:
            raise TraceError(f"{path}: no such file; check the name or the pattern")
        found += map(Path, hits)
    return list(dict.fromkeys(found))


def _refuse_twins(parts: Sequence[KinetoFile]) -> None:
    for a, b in pairwise(parts):
        if a.process.rank == b.process.rank:
            raise TraceError(
                f"{b.process.file}: is of rank {b.process.rank}, as is {a.process.file}; give one "
                "file a rank (names like rank3.json.gz say the rank where the file does not)"
            )


@contextmanager
def _without_collector() -> Iterator[None]:
    """Millions of small objects and no cycles: the collector would only walk them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _read_file(file: Path, columns: KinetoColumns, memory: Bytes) -> KinetoFile:
    head = KinetoDocument()
    seen = 0
    for piece in json_chunks(file, memory):
        document = _decode(piece, file, seen)
        if document.events is UNSET:
            raise TraceError(f"{file}: {_not_a_trace(document)}")
        columns.add(document.events, seen)
        seen += len(document.events)
        head = _merged(head, document)
    if not columns.count:
        raise TraceError(f"{file}: holds no events with a duration; record at least one step")
    return KinetoFile(columns, _process(head, file, columns.number), head.base)


def _not_a_trace(document: KinetoDocument) -> str:
    if bytes(document.nodes):
        return "is an execution trace, which has no times; give the profiler's Kineto file"
    return "has no traceEvents; give a trace of the PyTorch profiler (Kineto JSON)"


def _merged(head: KinetoDocument, piece: KinetoDocument) -> KinetoDocument:
    return KinetoDocument(
        base=head.base or piece.base,
        distributed=head.distributed or piece.distributed,
        devices=head.devices or piece.devices,
    )


_DOCUMENT = msgspec.json.Decoder(KinetoDocument)
_LIST = msgspec.json.Decoder(list[KinetoEvent])


def _decode(piece: JsonChunk, file: Path, seen: int) -> KinetoDocument:
    """Decode one piece; what msgspec refuses is said in our words, with the place."""
    try:
        if piece.text[:1] == b"[":
            return KinetoDocument(events=_LIST.decode(piece.text))
        return _DOCUMENT.decode(piece.text)
    except msgspec.ValidationError as e:
        raise TraceError(f"{file}: {_event_of(str(e), seen)}; {_DAMAGED}") from e
    except UnicodeDecodeError as e:
        raise TraceError(f"{file}: {_not_utf8(piece)}; {_DAMAGED}") from e
    except (msgspec.DecodeError, RecursionError) as e:
        raise TraceError(f"{file}: {_place_of(str(e), piece)}; {_DAMAGED}") from e


_DAMAGED = "the file is damaged or no profiler trace, record it again"


def _event_of(message: str, seen: int) -> str:
    """``Expected `int`, got `str` - at `$.traceEvents[3].dur``` with the event's own number."""
    what, _, path = message.partition(" - at ")
    path = path.strip("`").removeprefix("$.traceEvents").removeprefix("$")
    found = re.match(r"\[(\d+)\]\.?(.*)", path)
    if found is None:
        return f"{path.lstrip('.') or 'the file'}: {what}"
    field = f": {found[2]}" if found[2] else ""
    return f"event {seen + int(found[1])}{field}: {what}"


def _place_of(message: str, piece: JsonChunk) -> str:
    """Where the JSON breaks off or goes wrong, as line and column."""
    found = re.search(r"\(byte (\d+)\)", message)
    if "recursion" in message:
        return "is nested too deeply"
    if found is None:
        return f"JSON ends in the middle, after {piece.offset + len(piece.text)} bytes"
    at = int(found[1])
    before = piece.text[:at]
    line = piece.line + before.count(b"\n")
    column = at - before.rfind(b"\n")
    what = message[: found.start()].removeprefix("JSON is malformed: ").strip()
    return f"line {line}, column {column}: JSON is wrong ({what})"


def _not_utf8(piece: JsonChunk) -> str:
    """The first byte that is no text."""
    try:
        piece.text.decode()
    except UnicodeDecodeError as e:
        line = piece.line + piece.text.count(b"\n", 0, e.start)
        return f"line {line}: byte {e.object[e.start]:#04x} is not UTF-8"
    return "is not UTF-8"


def _process(head: KinetoDocument, file: Path, number: int) -> FileHeader:
    info = head.distributed or KinetoDistributed()
    groups = tuple(
        ProcessGroup(g.pg_name, tuple(g.ranks), g.backend_config or info.backend)
        for g in info.pg_config or ()
    )
    device = head.devices[0].name if head.devices else ""
    rank = info.rank if info.rank >= 0 else _rank_in_name(file, number)
    if not 0 <= rank < MOST_RANKS or not 0 <= info.world_size <= MOST_RANKS:
        raise TraceError(
            f"{file}: is of rank {rank} of {info.world_size}; a job has ranks from 0, and at most "
            f"{MOST_RANKS}: the file is damaged, record it again"
        )
    return FileHeader(rank, file.name, info.world_size, info.backend, device, groups)


def _rank_in_name(file: Path, number: int) -> int:
    found = re.search(r"rank[-_ ]?(\d+)", file.name)
    return int(found[1]) if found else number
