"""Chakra files: length-prefixed messages (``.et``, also gzipped), or JSON."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from ....sim.errors import TraceError
from ..gzipped import open_maybe_gzipped
from .messages import VERSION, message_classes

SPACE = re.compile(r"\s*")


def load_rank_file(path: Path) -> tuple[Any, list[Any]]:
    """Read the metadata and the nodes from one rank's file.

    Raises
    ------
    TraceError
        The file does not exist, is truncated, or is not a Chakra trace of a known version.
    """
    with _open_maybe_gzipped(path) as stream:
        try:
            start = stream.read(1)
            stream.seek(0)
            parse = _read_json_messages if start == b"{" else _read_protobuf_messages
            contents = list(parse(stream, path))
        except (EOFError, zlib.error, gzip.BadGzipFile) as e:
            raise TraceError(f"{path}: {e}; copy or export the file again") from e
    if not contents:
        raise TraceError(f"{path}: is empty; export it again")
    metadata, *nodes = contents
    if metadata.version != VERSION:
        raise TraceError(
            f"{path}: has Chakra schema {metadata.version or 'without a version'}, but only "
            f"{VERSION} can be read; export it again with Chakra {VERSION}"
        )
    return metadata, nodes


def save_rank_file(path: Path, metadata: Any, nodes: Iterable[Any]) -> None:
    """Write one rank's file."""
    from google.protobuf.proto import serialize_length_prefixed

    with path.open("wb") as stream:
        for message in (metadata, *nodes):
            serialize_length_prefixed(message, stream)


def save_rank_json(path: Path, metadata: Any, nodes: Iterable[Any]) -> None:
    """Write one rank's file as JSON: one object per message, one message per line."""
    from google.protobuf.json_format import MessageToJson

    lines = (
        MessageToJson(m, indent=None, preserving_proto_field_name=True) for m in (metadata, *nodes)
    )
    path.write_text("\n".join(lines) + "\n")


def _open_maybe_gzipped(path: Path) -> IO[bytes]:
    try:
        return open_maybe_gzipped(path)
    except OSError as e:
        raise TraceError(f"{path}: {e.strerror}; correct the path") from e


def _read_protobuf_messages(stream: IO[bytes], path: Path) -> Iterator[Any]:
    """Yield the messages of a length-prefixed protobuf stream."""
    from google.protobuf.message import DecodeError
    from google.protobuf.proto import parse_length_prefixed

    kind, count = message_classes().GlobalMetadata, 0
    try:
        while (message := parse_length_prefixed(kind, stream)) is not None:
            yield message
            kind, count = message_classes().Node, count + 1
    except (DecodeError, ValueError, MemoryError) as e:  # a size of exabytes finds no memory
        raise TraceError(
            f"{path}: message {count} is damaged or ends in the middle; this is not a Chakra "
            "trace, or it was cut short: export it again"
        ) from e


def _read_json_messages(stream: IO[bytes], path: Path) -> Iterator[Any]:
    """Yield the messages of a sequence of JSON objects, the format of Chakra's own converter."""
    from google.protobuf.json_format import ParseDict, ParseError

    text, at, decode = "", 0, json.JSONDecoder().raw_decode
    kind = message_classes().GlobalMetadata
    try:
        text = stream.read().decode()
        while at < len(text):
            fields, at = decode(text, at)
            if not isinstance(fields, dict):
                raise ValueError("a message is an object")
            yield ParseDict(fields, kind())
            kind, at = message_classes().Node, SPACE.match(text, at).end()  # type: ignore[union-attr]
    except (ArithmeticError, ValueError, TypeError, ParseError, RecursionError) as e:
        line = text.count("\n", 0, at) + 1
        raise TraceError(
            f"{path}:{line}: {_error_without_position(e)}; this is not a Chakra trace in JSON "
            "form, export it again"
        ) from e


def _error_without_position(error: Exception) -> str:
    """Text of an error without its position, because the caller adds a better one."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.object[error.start]:#04x} is not UTF-8"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"column {error.colno}: {error.msg}"
    return str(error).splitlines()[0].rstrip(".")
