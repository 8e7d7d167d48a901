"""The first difference between two outcomes of a script."""

from __future__ import annotations

from itertools import zip_longest

from engine_scripts.player import Outcome


def compare(a: Outcome, b: Outcome) -> str:
    """The first difference between two outcomes, ``""`` for none.

    Examples
    --------
    >>> one = Outcome({"end": [1, 5]}, [], None)
    >>> compare(one, one), compare(one, Outcome({"end": [1, 6]}, [], None))
    ('', 'end of op 1: 5 and 6')
    """
    if a.error != b.error:
        return f"error: {a.error} and {b.error}"
    for i, (x, y) in enumerate(zip(a.log, b.log, strict=False)):
        if x != y:
            item, one, two = next((k, p, q) for k, (p, q) in enumerate(zip_longest(x, y)) if p != q)
            return f"entry {i} of the log ({x[:2]}), item {item}: {one} and {two}"
    if len(a.log) != len(b.log):
        return f"length of the log: {len(a.log)} and {len(b.log)}"
    for name, column in (a.columns or {}).items():
        for row, (one, two) in enumerate(zip(column, (b.columns or {})[name], strict=True)):
            if one != two:
                return f"{name} of op {row}: {one} and {two}"
    return ""
