"""Wire protocol between client and agent: frames of a JSON message and float64 arrays.

::

    frame = "FTH1"  u32 length of the message  u64 length of the arrays  message  arrays

Arrays are .npy bytes, one dimension, little-endian float64, never pickles.  Lengths are checked
before anything is allocated.  Verbs: ``probe describe open timing peer
close``.  While a driver answers, its agent may ask for a word with the driver at the other end of a
transfer: ``{peer, do, message}``, which the client answers with ``{reply}`` or an error.
"""

from __future__ import annotations

import io
import json
import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import DriverFault, RecordingError
from ..driver import Missing, Ready
from ..sample import Request, Sample

VERSION = 1
VERBS = ("probe", "describe", "open", "timing", "peer", "close")
MAGIC = b"FTH1"
HEAD = struct.Struct(">4sIQ")
MESSAGE, ARRAYS = 16 << 20, 256 << 20  # bytes at most
REQUEST_FIELDS = {"signature": str, "n": int, "context": str, "preceding": list}
SAMPLE_FIELDS = {
    "signature": str, "clock": str, "metric": str, "context": str, "start": int, "flags": list,
    "facts": dict,
}  # fmt: skip
Message = dict[str, Any]
Vector = NDArray[np.float64]


def pack_frame(message: Mapping[str, Any], arrays: Sequence[Vector] = ()) -> bytes:
    """Bytes of one frame.

    >>> frame = pack_frame({"verb": "probe"})
    >>> unpack_frame(io.BytesIO(frame).read)
    ({'verb': 'probe'}, [])
    """
    blobs = [_encode_array(a) for a in arrays]
    text = json.dumps({**message, "arrays": [len(b) for b in blobs]}).encode()
    size = sum(map(len, blobs))
    _check_size(len(text), size)
    return b"".join((HEAD.pack(MAGIC, len(text), size), text, *blobs))


def unpack_frame(read: Callable[[int], bytes]) -> tuple[Message, list[Vector]]:
    """Message and arrays of the next frame; ``read(n)`` gives n bytes, fewer only at the end.

    Raises
    ------
    EOFError
        The stream ended.
    DriverFault
        ``oversized`` or ``protocol``.
    """
    return decode_frame(*read_frame(read))


def read_frame(read: Callable[[int], bytes]) -> tuple[bytes, bytes]:
    """Bytes of the message and of the arrays of the next frame.

    Raises
    ------
    EOFError
        The stream ended.
    DriverFault
        ``oversized`` or ``protocol``: nobody knows where the next frame begins.
    """
    magic, text, size = HEAD.unpack(_read_exactly(read, HEAD.size))
    if magic != MAGIC:
        raise DriverFault(
            "protocol", f"a frame begins with {magic!r}; the other side is not an agent"
        )
    _check_size(text, size)
    return _read_exactly(read, text), _read_exactly(read, size)


def decode_frame(text: bytes, data: bytes) -> tuple[Message, list[Vector]]:
    """Message and arrays from the bytes of a frame.

    Raises
    ------
    DriverFault
        ``protocol``: no JSON object of finite numbers, nested too deep, or not its arrays; the next
        frame is not touched by it.
    """
    try:
        message = json.loads(text, parse_float=_finite, parse_constant=_finite)
        lengths = [operator.index(n) for n in message.pop("arrays")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DriverFault("protocol", f"a message is malformed ({error})") from error
    if min(lengths, default=0) < 0 or sum(lengths) != len(data):
        told = f"{len(lengths)} arrays of {sum(lengths)} B"
        raise DriverFault("protocol", f"{told} in a frame that has {len(data)} B of them")
    stream = io.BytesIO(data)
    return message, [_decode_array(stream.read(n)) for n in lengths]


def _finite(text: str) -> float:
    """Number of a message; ValueError for ``NaN``, ``Infinity`` and what is too large."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return value


def _check_size(text: int, size: int) -> None:
    if text > MESSAGE or size > ARRAYS:
        raise DriverFault(
            "oversized",
            f"a frame of {text} + {size} B; {MESSAGE} + {ARRAYS} B are allowed: ask for fewer",
        )


def _read_exactly(read: Callable[[int], bytes], n: int) -> bytes:
    data = read(n) if n else b""
    if len(data) < n:
        raise EOFError(f"the stream ended {n - len(data)} B early")
    return data


def _encode_array(array: Vector) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array, "<f8"), (1, 0), allow_pickle=False)
    return out.getvalue()


def _decode_array(data: bytes) -> Vector:
    """Array from .npy bytes; any header but 1-D little-endian float64 is refused."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise ValueError(f"npy version {version}")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream, max_header_size=1000)
    except Exception as error:  # NumPy reads a Python literal there: also TokenError, SyntaxError
        raise DriverFault("protocol", f"an array is malformed ({error})") from error
    rest = len(data) - stream.tell()
    if dtype != np.dtype("<f8") or len(shape) != 1 or 8 * shape[0] != rest:
        raise DriverFault("protocol", f"an array says {dtype}{shape} and has {rest} B")
    return np.frombuffer(data, "<f8", offset=stream.tell()).copy()


def encode_requests(requests: Sequence[Request]) -> list[Message]:
    """Requests as JSON values."""
    return [{**asdict(r), "preceding": list(r.preceding)} for r in requests]


def decode_requests(fields: Sequence[Message]) -> list[Request]:
    """Requests from JSON values; TypeError, KeyError or ValueError where malformed."""
    for one in fields:
        _require(one, REQUEST_FIELDS)
        _require_texts(one["preceding"])
    return [Request(**{**t, "preceding": tuple(t["preceding"])}) for t in fields]


def _require(fields: Message, kinds: Mapping[str, type]) -> None:
    """Refuse what lacks a field, or has one of another type: TypeError or KeyError.

    >>> _require({"n": True}, {"n": int})
    Traceback (most recent call last):
    TypeError: n is True, no int
    """
    for name, kind in kinds.items():
        value = fields[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TypeError(f"{name} is {str(value)[:80]}, no {kind.__name__}")


def _require_texts(values: Sequence[Any]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{str(value)[:80]} is no text")


def encode_samples(samples: Sequence[Sample]) -> tuple[list[Message], list[Vector]]:
    """Samples as JSON values and, apart, their times as arrays."""
    fields = [{**vars(s), "flags": list(s.flags)} for s in samples]
    for one in fields:
        del one["ns"]
    return fields, [np.asarray(s.ns, np.float64) for s in samples]


def decode_samples(fields: Sequence[Message], arrays: Sequence[Vector]) -> list[Sample]:
    """Samples from JSON values and arrays; DriverFault where malformed."""
    try:
        for one in fields:
            _require(one, SAMPLE_FIELDS)
            _require_texts(one["flags"])
        return [
            Sample(**{**t, "flags": tuple(t["flags"]), "ns": ns})
            for t, ns in zip(fields, arrays, strict=True)
        ]
    except (TypeError, ValueError, KeyError) as error:
        raise DriverFault("protocol", f"samples are malformed ({error})") from error


def encode_probe_result(state: Ready | Missing) -> Message:
    """Result of ``probe`` as a JSON value.

    >>> decode_probe_result(encode_probe_result(Ready(("cpu0",), {"numpy": "2"})))
    Ready(devices=('cpu0',), facts={'numpy': '2'})
    """
    if isinstance(state, Ready):
        return {"ready": True, "devices": list(state.devices), "facts": dict(state.facts)}
    return {"ready": False, **asdict(state)}


def decode_probe_result(fields: Message) -> Ready | Missing:
    """Result of ``probe`` from a JSON value; DriverFault where malformed."""
    try:
        rest = dict(fields)
        if rest.pop("ready"):
            _require(rest, {"devices": list, "facts": dict})
            _require_texts(rest["devices"])
            return Ready(tuple(rest.pop("devices")), **rest)
        _require_texts([*rest.values()])
        return Missing(**rest)
    except (TypeError, KeyError, ValueError) as error:
        raise DriverFault("protocol", f"the probe result is malformed ({error})") from error


def encode_error(error: Exception) -> Message:
    """Error reply; an exception of an unexpected type becomes kind ``broken``."""
    if isinstance(error, DriverFault):
        return {"fault": error.kind, "text": error.message}
    if isinstance(error, RecordingError):
        return {"fault": "recording", "text": str(error)}
    return {"fault": "broken", "text": f"{type(error).__name__}: {error}"}


def reply_field(reply: Message, name: str, kind: type) -> Any:
    """Field of a reply.

    Raises
    ------
    DriverFault
        ``protocol``: it lacks the field, or has one of another type.

    Examples
    --------
    >>> reply_field({"describe": {"device": "odd0"}}, "describe", dict)
    {'device': 'odd0'}
    """
    try:
        _require(reply, {name: kind})
    except (TypeError, KeyError) as error:
        told = f"a reply without {name!r}, a {kind.__name__}: {str(reply)[:80]}"
        raise DriverFault("protocol", told) from error
    return reply[name]


def decode_error(fields: Message) -> DriverFault | RecordingError:
    """Exception from an error reply."""
    kind, text = str(fields.get("fault")), str(fields.get("text", ""))[:2000]
    return RecordingError(text) if kind == "recording" else DriverFault(kind, text)
