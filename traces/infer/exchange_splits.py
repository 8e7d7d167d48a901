"""All-to-all with unequal parts: how much each rank sends to each other, from all members' records.

A member records what it sends to each rank (``In split size``), or only the totals that it sends
and receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

import numpy as np

from ...sim.errors import TraceError
from ...sim.facts.signature import WIDTH, Operand, Signature
from ...sim.facts.splits import SPLIT, all_to_all_name
from .ranks.collective import RecordedCollective

Numbers = Sequence[int]


class UnevenAllToAll(NamedTuple):
    """All-to-all with unequal parts, combined from the records of all its members.

    Parameters
    ----------
    signature : signature that contains the parts
    bytes : mean size of a member's send buffer in B, its own part included
    """

    signature: str
    bytes: float


def uneven_all_to_all(
    members: Sequence[RecordedCollective], places: Sequence[str]
) -> UnevenAllToAll | None:
    """Combine the members' records of an all-to-all; None if parts are equal or not recorded.

    Parameters
    ----------
    members : record of each member, sorted by rank
    places : file and rank of each member, for error messages

    Raises
    ------
    TraceError
        A member's splits do not fit the number of ranks or its buffer, or a member receives another
        amount than was sent to it.

    Examples
    --------
    >>> one = RecordedCollective(0, "all-to-all", "fp32", 4, sent=4, received=2)
    >>> two = one._replace(sent=2, received=4)
    >>> uneven_all_to_all([one, two], ["a", "b"])
    UnevenAllToAll(signature='collective:all-to-all send=2,1 receive=1,2 fp32[3]', bytes=12.0)
    """
    n, first = len(members), members[0]
    if first.name != SPLIT or n < 2 or len(first.group) not in (0, n):
        return None
    sent, received = [c.sent for c in members], [c.received for c in members]
    if min(sent) < 0:
        return None
    rows = [_sent_to_each(c, n, place) for c, place in zip(members, places, strict=True)]
    if all(c.sent_splits for c in members):
        _require_matching_receives(members, rows, places)
        name = all_to_all_name(pairs=_in_lowest_terms(*rows))
    elif min(received) < 0:
        name = all_to_all_name(send=_in_lowest_terms(sent)[0])
    else:
        if sum(sent) != sum(received):
            raise TraceError(
                f"{places[0]}: in an {SPLIT}, {n} ranks sent {sum(sent)} elements but received "
                f"{sum(received)}; record the same steps on every rank"
            )
        name = all_to_all_name(
            send=_in_lowest_terms(sent)[0], receive=_in_lowest_terms(received)[0]
        )
    if name == SPLIT:
        return None
    mean = sum(sent) / n
    operand = (Operand(first.dtype, (round(mean),)),) if first.dtype else ()
    size = mean * WIDTH[first.dtype] if first.dtype else np.nan
    return UnevenAllToAll(str(Signature("collective", name, operand)), size)


def _sent_to_each(member: RecordedCollective, n: int, place: str) -> Numbers:
    """Elements that a member sends to each rank; recorded splits count rows of several elements."""
    splits = member.sent_splits
    if not splits:
        return ()
    if len(splits) != n:
        raise TraceError(
            f"{place}: an {SPLIT} of {n} ranks is split into {len(splits)} parts; record the same "
            "steps on every rank"
        )
    rows = sum(splits)
    if min(splits) < 0 or (member.sent % rows if rows else member.sent):
        raise TraceError(
            f"{place}: the splits of an {SPLIT} add up to {rows}, but {member.sent} elements are "
            "sent; record it again"
        )
    width = member.sent // rows if rows else 0
    return [part * width for part in splits]


def _require_matching_receives(
    members: Sequence[RecordedCollective], rows: Sequence[Numbers], places: Sequence[str]
) -> None:
    """Refuse members that receive another number of elements than was sent to them."""
    for j, member in enumerate(members):
        got = sum(row[j] for row in rows)
        if member.received not in (-1, got):
            raise TraceError(
                f"{places[j]}: receives {member.received} elements of an {SPLIT}, but the ranks "
                f"sent it {got}; record the same steps on every rank"
            )


def _in_lowest_terms(*rows: Numbers) -> list[list[int]]:
    """Divide all numbers by their greatest common divisor."""
    by = gcd(*(part for row in rows for part in row)) or 1
    return [[part // by for part in row] for row in rows]
