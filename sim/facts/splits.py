"""Splits of an all-to-all: unequal parts per member, and its kernel, as written in a signature.

``send=1,1,2`` gives the relative amount that each member sends, ``receive=3,1,1`` what each
receives; together they mean their outer product. ``splits=0,2/1,0`` gives the full matrix, one
row per sender (MPI's ``sendcounts``, torch's ``input_split_sizes``). Only ratios count: the op's
bytes are the mean amount that a member sends, its own part included. ``kernel=low-latency`` is a
kernel in which each GPU writes its parts directly into the memory of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .signature import Signature

SPLIT = "all-to-all"
"""The collective whose parts may be unequal."""
SEND, RECEIVE, PAIRS = "send", "receive", "splits"
KERNEL, LOW_LATENCY = "kernel", "low-latency"
MOST = 2**53
"""Below it every sum of parts is exact as a float."""


@dataclass(frozen=True, eq=False)
class Splits:
    """Matrix of the relative amounts that members of an all-to-all send to each other.

    Parameters
    ----------
    parts : (n, n) integers; row i, column j is the amount from member i to member j, i = j included

    Examples
    --------
    >>> Splits(np.array([[1, 1], [3, 1]])).busiest  # 3 of 6 parts, of which a member has 3 to send
    1.0
    """

    parts: NDArray[np.int64]

    @cached_property
    def total(self) -> int:
        """Sum of all parts, which stands for ``n`` times the bytes of the op."""
        return int(self.parts.sum())

    @cached_property
    def busiest(self) -> float:
        """Bytes that the busiest member sends to or receives from others, per byte of the op."""
        own = np.diagonal(self.parts)
        moved = max(int((self.parts.sum(axis) - own).max()) for axis in (0, 1))
        return moved * len(self.parts) / self.total

    @property
    def own(self) -> float:
        """Largest number of bytes that a member keeps for itself, per byte of the op."""
        return float(np.diagonal(self.parts).max()) * len(self.parts) / self.total

    def ordered(self, order: Sequence[int]) -> Splits:
        """Splits with the members in another order."""
        return Splits(self.parts[np.ix_(order, order)])


class CollectiveName(NamedTuple):
    """Parsed name of a collective: operation, splits (None if equal), kernel ("" by default)."""

    collective: str
    splits: Splits | None
    kernel: str = ""


@lru_cache(maxsize=1024)
def parse_collective_name(name: str, members: int) -> CollectiveName:
    """Parse the name of a collective's signature: operation, splits and kernel.

    Raises
    ------
    ValueError
        An attribute is unknown, or the splits are not whole numbers, have the wrong number of
        members, or add up to 0.

    Examples
    --------
    >>> parse_collective_name("all-to-all receive=3,1,0,0", 4).splits.parts[0].tolist()
    [3, 1, 0, 0]
    >>> parse_collective_name("all-to-all send=1,1 receive=2,2", 2).splits is None
    True
    >>> parse_collective_name("all-to-all receive=3,1", 4)
    Traceback (most recent call last):
    ValueError: receive=3,1 has 2 numbers for 4 members; write one for each
    """
    signature = Signature("collective", name)
    attributes = signature.attributes
    kernel = attributes.pop(KERNEL, "") if signature.op == SPLIT else ""
    if kernel not in ("", LOW_LATENCY):
        raise ValueError(f"{KERNEL}={kernel} is unknown; write {LOW_LATENCY}, or leave it out")
    for key in attributes:
        if signature.op != SPLIT:
            raise ValueError(f"only {SPLIT} has unequal parts; leave {key!r} out")
        if key not in (SEND, RECEIVE, PAIRS):
            raise ValueError(f"attribute {key!r} is unknown; write {SEND}, {RECEIVE} or {PAIRS}")
    if not attributes:
        return CollectiveName(signature.op, None, kernel)
    parts = (
        _read_pairs(attributes, members)
        if PAIRS in attributes
        else _read_product(attributes, members)
    )
    if not parts.any():
        raise ValueError(f"{_text(attributes)}: the parts add up to 0; give some member a part")
    equal = bool(np.all(parts == parts[0, 0]))
    return CollectiveName(signature.op, None if equal else Splits(parts), kernel)


def all_to_all_name(
    send: Sequence[int] = (),
    receive: Sequence[int] = (),
    pairs: Sequence[Sequence[int]] = (),
    kernel: str = "",
) -> str:
    """Name of an all-to-all for a signature, with its splits and kernel; equal splits are left out.

    >>> all_to_all_name(receive=(3, 1)), all_to_all_name(send=(2, 2))
    ('all-to-all receive=3,1', 'all-to-all')
    >>> all_to_all_name(pairs=[(0, 2), (1, 0)])
    'all-to-all splits=0,2/1,0'
    """
    words = [SPLIT, f"{KERNEL}={kernel}"] if kernel else [SPLIT]
    for key, numbers in ((SEND, send), (RECEIVE, receive)):
        if len(set(numbers)) > 1:
            words.append(f"{key}={','.join(map(str, numbers))}")
    if len({part for row in pairs for part in row}) > 1:
        words.append(f"{PAIRS}={'/'.join(','.join(map(str, row)) for row in pairs)}")
    return " ".join(words)


def _read_product(attributes: Mapping[str, str], members: int) -> NDArray[np.int64]:
    """Matrix of parts, shape (n, n), from the ``send`` and ``receive`` attributes."""
    send, receive = (
        _read_numbers(key, attributes[key], members) if key in attributes else [1] * members
        for key in (SEND, RECEIVE)
    )
    _refuse_huge(sum(send) * sum(receive), members)
    return np.outer(np.array(send, np.int64), np.array(receive, np.int64))


def _read_pairs(attributes: Mapping[str, str], members: int) -> NDArray[np.int64]:
    """Matrix of parts, shape (n, n), from the ``splits`` attribute."""
    if len(attributes) > 1:
        raise ValueError(f"{PAIRS} cannot be combined with {SEND} or {RECEIVE}; leave those out")
    rows = attributes[PAIRS].split("/")
    if len(rows) != members:
        raise ValueError(f"{PAIRS} has {len(rows)} rows for {members} members; write one for each")
    parts = [_read_numbers(PAIRS, row, members) for row in rows]
    _refuse_huge(sum(map(sum, parts)), members)
    return np.array(parts, np.int64)


def _read_numbers(key: str, text: str, members: int) -> list[int]:
    words = text.split(",")
    if len(words) != members:
        raise ValueError(
            f"{key}={text} has {len(words)} numbers for {members} members; write one for each"
        )
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise ValueError(f"{key}={text} has {word!r}; write whole numbers of 0 or more")
    return [int(word) for word in words]


def _refuse_huge(whole: int, members: int) -> None:
    if whole * members >= MOST:
        raise ValueError(
            f"the parts of {members} members add up to {whole}; write smaller numbers, only ratios "
            f"count (at most {MOST // members - 1})"
        )


def _text(attributes: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in attributes.items())
