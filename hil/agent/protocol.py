"""Wire protocol between client and agent: frames of one JSON message and float64 arrays.

::

    frame = "FTH1"  u32 length of the message  u64 length of the arrays  message  arrays

Arrays are one-dimensional .npy data, little-endian float64, never pickles. Lengths are checked
before memory is allocated. The verbs are ``probe describe open timing peer close``. While a driver
executes a request, its agent may send ``{peer, do, message}``, a message for the driver at the
other end of a transfer. The client answers with ``{reply}`` or an error.
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
    """Encode a message and arrays as the bytes of one frame.

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
    """Read the next frame and decode its message and arrays.

    ``read(n)`` must return n bytes, or fewer at the end of the stream.

    Raises
    ------
    EOFError
        The stream ended.
    DriverFault
        ``oversized``: the frame is too large. ``protocol``: the frame is malformed.
    """
    return decode_frame(*read_frame(read))


def read_frame(read: Callable[[int], bytes]) -> tuple[bytes, bytes]:
    """Read the next frame: undecoded bytes of its message and of its arrays.

    Raises
    ------
    EOFError
        The stream ended.
    DriverFault
        ``oversized``: the frame is too large. ``protocol``: the other side is not an agent.
        In both cases the position of the next frame is unknown.
    """
    magic, text, size = HEAD.unpack(_read_exactly(read, HEAD.size))
    if magic != MAGIC:
        raise DriverFault(
            "protocol", f"a frame begins with {magic!r}; the other side is not an agent"
        )
    _check_size(text, size)
    return _read_exactly(read, text), _read_exactly(read, size)


def decode_frame(text: bytes, data: bytes) -> tuple[Message, list[Vector]]:
    """Decode the message and arrays of a frame.

    Raises
    ------
    DriverFault
        ``protocol``: the message is not a JSON object of finite numbers, is nested too deeply, or
        does not match the arrays. The next frame can still be read.
    """
    try:
        message = json.loads(text, parse_float=_finite, parse_constant=_finite)
        lengths = [operator.index(n) for n in message.pop("arrays")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DriverFault("protocol", f"a message is malformed ({error})") from error
    if min(lengths, default=0) < 0 or sum(lengths) != len(data):
        told = f"{len(lengths)} arrays of {sum(lengths)} B"
        raise DriverFault(
            "protocol",
            f"a message lists {told}, but its frame has {len(data)} B of arrays; send a correct "
            "frame",
        )
    stream = io.BytesIO(data)
    return message, [_decode_array(stream.read(n)) for n in lengths]


def _finite(text: str) -> float:
    """Parse a number in a message.

    Raises ValueError for ``NaN``, ``Infinity`` and numbers too large for a float.
    """
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return value


def _check_size(text: int, size: int) -> None:
    if text > MESSAGE or size > ARRAYS:
        raise DriverFault(
            "oversized",
            f"a frame of {text} B of message and {size} B of arrays exceeds {MESSAGE} B or "
            f"{ARRAYS} B; request fewer repeats",
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
    """Decode an array from .npy bytes; only one-dimensional little-endian float64 is accepted."""
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
        raise DriverFault(
            "protocol",
            f"an array is declared as {dtype}{shape}, but has {rest} B; send float64 of one "
            "dimension",
        )
    return np.frombuffer(data, "<f8", offset=stream.tell()).copy()


def encode_requests(requests: Sequence[Request]) -> list[Message]:
    """Requests as JSON values."""
    return [{**asdict(r), "preceding": list(r.preceding)} for r in requests]


def decode_requests(fields: Sequence[Message]) -> list[Request]:
    """Decode requests from JSON values; TypeError, KeyError or ValueError if malformed."""
    for one in fields:
        _require(one, REQUEST_FIELDS)
        _require_texts(one["preceding"])
    return [Request(**{**t, "preceding": tuple(t["preceding"])}) for t in fields]


def _require(fields: Message, kinds: Mapping[str, type]) -> None:
    """Check that all fields are present and have the right type; else TypeError or KeyError.

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
    """Encode samples as JSON values and, separately, their times as arrays."""
    fields = [{**vars(s), "flags": list(s.flags)} for s in samples]
    for one in fields:
        del one["ns"]
    return fields, [np.asarray(s.ns, np.float64) for s in samples]


def decode_samples(fields: Sequence[Message], arrays: Sequence[Vector]) -> list[Sample]:
    """Decode samples from JSON values and arrays; DriverFault if malformed."""
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
    """Encode the result of ``probe`` as a JSON value.

    >>> decode_probe_result(encode_probe_result(Ready(("cpu0",), {"numpy": "2"})))
    Ready(devices=('cpu0',), facts={'numpy': '2'})
    """
    if isinstance(state, Ready):
        return {"ready": True, "devices": list(state.devices), "facts": dict(state.facts)}
    return {"ready": False, **asdict(state)}


def decode_probe_result(fields: Message) -> Ready | Missing:
    """Decode the result of ``probe`` from a JSON value; DriverFault if malformed."""
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
    """Encode an exception as an error reply; an unexpected type becomes kind ``broken``."""
    if isinstance(error, DriverFault):
        return {"fault": error.kind, "text": error.message}
    if isinstance(error, RecordingError):
        return {"fault": "recording", "text": str(error)}
    return {"fault": "broken", "text": f"{type(error).__name__}: {error}"}


def reply_field(reply: Message, name: str, kind: type) -> Any:
    """Value of one field of a reply, checked for its type.

    Raises
    ------
    DriverFault
        ``protocol``: the field is missing or has another type.

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
    """Exception to raise for an error reply."""
    kind, text = str(fields.get("fault")), str(fields.get("text", ""))[:2000]
    return RecordingError(text) if kind == "recording" else DriverFault(kind, text)
