"""Protobuf's wire format for many messages of one form at once: a row of bytes a message.

A number may be written with more bytes than it needs (a varint whose last groups are zero), so
that a column of numbers is as wide as its largest one and NumPy writes all messages together.
What is here is as https://protobuf.dev/programming-guides/encoding describes it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bytes = NDArray[np.uint8]  # (n, width): n messages, or 1 for a part that all of them share
VARINT, LENGTH = 0, 2


def number(field: int, values: ArrayLike) -> Bytes:
    """A field with a number of its own in each message; none is negative.

    >>> number(1, [5, 300]).tolist()
    [[8, 133, 0], [8, 172, 2]]
    """
    return joined(_varints([field << 3 | VARINT]), _varints(values))


def nested(field: int, *parts: Bytes) -> Bytes:
    """A field that holds a message, or text.

    >>> nested(3, number(1, [5])).tolist()
    [[26, 2, 8, 5]]
    """
    body = joined(*parts)
    return joined(_varints([field << 3 | LENGTH]), _varints([body.shape[1]]), body)


def text(value: str) -> Bytes:
    """The bytes of a text.

    >>> text("hi").tolist()
    [[104, 105]]
    """
    return np.frombuffer(value.encode(), np.uint8)[None]


def joined(*parts: Bytes) -> Bytes:
    """One part after the other, in every message."""
    n = max(len(p) for p in parts)
    return np.hstack([np.broadcast_to(p, (n, p.shape[1])) for p in parts])


def _varints(values: ArrayLike) -> Bytes:
    values = np.asarray(values, np.int64)
    width = -(-max(int(values.max(initial=0)).bit_length(), 1) // 7)
    groups = (values[:, None] >> (7 * np.arange(width))) & 127
    groups[:, :-1] |= 128
    return groups.astype(np.uint8)
