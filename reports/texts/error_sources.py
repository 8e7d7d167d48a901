"""Sentences on the sources of error that widen the interval of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..numbers import NONE, format_change

MOST = 3  # sources that are named
NAMES = {"blind": "a GPU known only from its datasheet"}
OTHER_HOST = "host ops of another machine"
CURES = {
    OTHER_HOST: f"If the {OTHER_HOST} ran on the cluster's host, write its name: "
    "workload.recorded_on.host.",
    "dispatching": "Measure how long your host takes to dispatch an operator, and set "
    "cluster.node.host.operator.",
}


def error_source_sentences(point: Mapping[str, Any]) -> list[str]:
    """Sentences on the effect of each source of error on the answer, largest first.

    >>> host = {"source": "family host ops of another machine", "low": -0.5, "high": 1.0}
    >>> error_source_sentences({"errors": [host]})[0]
    'What widens the interval: host ops of another machine (-50.0 % to +100.0 %).'
    >>> error_source_sentences({"errors": [host | {"source": "family dispatching"}]})[1][:30]
    'Measure how long your host tak'
    >>> error_source_sentences({})
    []
    """
    found = [text for one in point.get("errors", ())[:MOST] if (text := _source_text(one))]
    if not found:
        return []
    cures = [CURES[name] for name in CURES if any(text.startswith(name) for text in found)]
    return [f"What widens the interval: {', '.join(found)}.", *cures]


def _source_text(source: Mapping[str, Any]) -> str:
    """Text of a source of error with both ends of its effect; "" if the effect rounds to none."""
    low, high = map(format_change, (source["low"], source["high"]))
    if low == high == NONE:
        return ""
    name = source["source"].removeprefix("family ")
    return f"{NAMES.get(name, name)} ({low} to {high})"
