"""Damage of two kinds: to the bytes of a file, and to the values of what it says."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

SCALARS = [
    None, True, False, 0, 1, -1, 2, 3, 255, 65536, 2**31, 2**63, -(2**63), 2**64, 2**70, 10**30,
    0.5, -0.0, 1e-300, 1e300, float("nan"), float("inf"), "", "x", "0", "-1", "1e400", "é", "\x00",
    "a.b", "*", "..", "../x", "/x", "5 s", "0 GB", "200 Gb/s", "50 %", "gpu", "node0.gpu0", "[0]",
    "allreduce", "foretrace:gpt", "base", [], {}, [[]], [0], {"": 0},
]  # fmt: skip
PIECES = [b"\x00", b"\xff", b"{", b"}", b"[", b"]", b'"', b",", b":", b"\n", b"\t", b"-", b"#",
          b"&a ", b"*a ", b"!!x ", b"|", b">", b"<<: ", b"? ", b"---\n", b"1e999", b"\x80\x80\x80",
          b"null", b'{"ph": "X"}', b"\x1f\x8b", b"'", b"%", b"@", b"`"]  # fmt: skip


def damaged(text: bytes, others: list[bytes], draw: random.Random) -> bytes:
    """The bytes with a few edits."""
    made = bytearray(text)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at = draw.randrange(len(made) + 1)
        upto = min(len(made), at + draw.choice((0, 0, 1, 2, 8, 64, 512)))
        piece = draw.choice((b"", draw.choice(PIECES), draw.randbytes(draw.randrange(1, 5))))
        if draw.random() < 0.2:
            other = draw.choice(others)
            start = draw.randrange(len(other) + 1)
            piece = other[start : start + draw.randrange(1, 200)]
        made[at:upto] = piece
    return bytes(made[:200_000])


def changed(tree: Any, draw: random.Random) -> Any:
    """The values with a few changes: others, from elsewhere, gone, twice, under another key."""
    made = json.loads(json.dumps(tree))
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        made = _one(made, draw)
    return made


def _one(tree: Any, draw: random.Random) -> Any:
    places = list(_places(tree))
    if not places:
        return _scalar(draw)
    holder, key = draw.choice(places)
    action = draw.randrange(6)
    if action <= 2:
        holder[key] = _value(holder[key], draw)
    elif action == 3:
        del holder[key]
    elif action == 4:
        other, from_ = draw.choice(places)
        holder[key] = json.loads(json.dumps(other[from_])) if from_ in _keys(other) else None
    elif isinstance(holder, list):
        holder.insert(draw.randrange(len(holder) + 1), holder[key])
    else:
        holder[draw.choice((*holder, "x", "", "a.b", "é"))] = holder.pop(key)
    return tree


def _value(old: Any, draw: random.Random) -> Any:
    if isinstance(old, int) and not isinstance(old, bool) and draw.random() < 0.5:
        return old + draw.choice((-1, 1, 7, -old, 10**6, 10**12))
    if isinstance(old, str) and old and draw.random() < 0.3:
        at = draw.randrange(len(old))
        return old[:at] + draw.choice(("", "x", "0", " ", "\n", "é", "..", "*")) + old[at + 1 :]
    return _scalar(draw)


def _scalar(draw: random.Random) -> Any:
    """A value of its own: a list that is changed later must not hold itself, nor come again."""
    return copy.deepcopy(draw.choice(SCALARS))


def _keys(holder: Any) -> Any:
    return range(len(holder)) if isinstance(holder, list) else holder


def _places(tree: Any) -> Any:
    """Every list or mapping with a key in it."""
    if isinstance(tree, dict | list):
        for key in list(_keys(tree)):
            yield tree, key
            yield from _places(tree[key])
