"""The rank that others wait for, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..numbers import format_quantity

SHARE = 0.005  # of the ranks' time, below which waiting is not worth a sentence


def last_arriver_sentence(point: Mapping[str, Any]) -> str:
    """The rank that the others wait for, in a sentence; "" where no single one is the cause.

    >>> late = {"cause": 7, "collectives": 8, "waited": 0.0094, "of": 0.08,
    ...         "ranks": [{"rank": 7, "late": 0.009, "last": 5}]}
    >>> last_arriver_sentence({"late": late})
    'Rank 7 arrives last in 5 of 8 collectives; the others wait 9 ms for it in all.'
    """
    late = point.get("late")
    if late is None or late["cause"] is None or late["waited"] < SHARE * late["of"]:
        return ""
    one = next(r for r in late["ranks"] if r["rank"] == late["cause"])
    return (
        f"Rank {one['rank']} arrives last in {one['last']:,} of {late['collectives']:,} "
        f"collectives; the others wait {format_quantity(one['late'], 's')} for it in all."
    )
