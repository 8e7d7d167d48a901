"""Sentences on metrics of which only the distribution was kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..numbers import format_share


def distribution_sentences(point: Mapping[str, Any]) -> list[str]:
    """Sentence on the error of quantiles of each metric with too many values to keep.

    >>> distribution_sentences({"distributions": {"ttft": {"values": 2000000, "error": 0.000976}}})
    ['Percentiles of ttft are within 0.1 %: of its 2,000,000 values only the distribution was \
kept. Their number, mean, minimum and maximum are exact.']
    """
    return [
        f"Percentiles of {name} are within {format_share(one['error'])}: of its "
        f"{one['values']:,} values only the distribution was kept. Their number, mean, minimum and "
        "maximum are exact."
        for name, one in point.get("distributions", {}).items()
    ]
