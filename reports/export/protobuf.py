"""Protobuf encoding of many messages of one form at once: one row of bytes per message.

A varint may be padded with zero groups. So all numbers of a column get the width of the largest
one, and NumPy encodes all messages together. The format is described at
https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bytes = NDArray[np.uint8]  # (n, width): n messages, or 1 for a part that all of them share
VARINT, LENGTH = 0, 2


def varint_field(field: int, values: ArrayLike) -> Bytes:
    """A varint field with one non-negative value per message.

    >>> varint_field(1, [5, 300]).tolist()
    [[8, 133, 0], [8, 172, 2]]
    """
    return join_fields(_varints([field << 3 | VARINT]), _varints(values))


def length_delimited_field(field: int, *parts: Bytes) -> Bytes:
    """A length-delimited field: a message or a text.

    >>> length_delimited_field(3, varint_field(1, [5])).tolist()
    [[26, 2, 8, 5]]
    """
    body = join_fields(*parts)
    return join_fields(_varints([field << 3 | LENGTH]), _varints([body.shape[1]]), body)


def utf8_text(value: str) -> Bytes:
    """UTF-8 bytes of a text.

    >>> utf8_text("hi").tolist()
    [[104, 105]]
    """
    return np.frombuffer(value.encode(), np.uint8)[None]


def join_fields(*parts: Bytes) -> Bytes:
    """Concatenate fields, message by message."""
    n = max(len(p) for p in parts)
    return np.hstack([np.broadcast_to(p, (n, p.shape[1])) for p in parts])


def _varints(values: ArrayLike) -> Bytes:
    values = np.asarray(values, np.int64)
    width = -(-max(int(values.max(initial=0)).bit_length(), 1) // 7)
    groups = (values[:, None] >> (7 * np.arange(width))) & 127
    groups[:, :-1] |= 128
    return groups.astype(np.uint8)
