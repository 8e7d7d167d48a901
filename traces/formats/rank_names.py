"""Ranks from the names of files or processes, where no file states its rank: a guess."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from ..validate import MOST_RANKS

NUMBER = re.compile(r"\d+")
RANK = re.compile(r"rank[-_ :]*$", re.I)
PARALLEL = re.compile(r"(?<![a-z])(tp|dp|pp|ep|cp|gpu|device|worker|node)[-_ :]*$", re.I)
MOST = 4096  # a larger number without a word before it is a process, a port or a time


def ranks_from_names(names: Sequence[str]) -> list[int]:
    """Rank of each name: the counter in which the names differ, or else their order.

    A counter after ``rank`` is preferred, then one after ``tp``, ``dp``, ``gpu`` and the like. One
    name alone has rank 0, unless it has a counter after ``rank``.

    Examples
    --------
    >>> ranks_from_names(["1728-TP-0.json", "1728-TP-10.json", "1728-TP-2.json"])
    [0, 10, 2]
    >>> ranks_from_names(["a-TP-0-PP-0.json", "a-TP-1-PP-0.json", "a-TP-0-PP-1.json"])
    [0, 2, 1]
    """
    counters = [_counters(name) for name in names]
    columns = list(zip_longest(*counters))
    candidates = [(_preference(c), i) for i, c in enumerate(columns) if _is_rank(c)]
    if len(names) == 1:
        candidates = [c for c in candidates if c[0] == 0]
    if candidates:
        column = columns[min(candidates)[1]]
        return [number for _, number in column]
    order = sorted(range(len(names)), key=lambda i: ([n for _, n in counters[i]], names[i]))
    ranks = [0] * len(names)
    for rank, i in enumerate(order):
        ranks[i] = rank
    return ranks


def _counters(name: str) -> list[tuple[str, int]]:
    """Each number in a name, with the text before it."""
    return [(name[: found.start()], int(found[0])) for found in NUMBER.finditer(name)]


def _is_rank(column: tuple[tuple[str, int] | None, ...]) -> bool:
    """True if all names have this counter, each with another number that can be a rank."""
    numbers = {entry[1] for entry in column if entry is not None}
    most = MOST_RANKS if _preference(column) < 2 else MOST
    return None not in column and len(numbers) == len(column) and max(numbers) < most


def _preference(column: tuple[tuple[str, int] | None, ...]) -> int:
    """0 for a counter after ``rank``, 1 after ``tp`` and the like, otherwise 2."""
    texts = [entry[0] for entry in column if entry is not None]
    if all(RANK.search(text) for text in texts):
        return 0
    return 1 if all(PARALLEL.search(text) for text in texts) else 2
