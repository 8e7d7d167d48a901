"""Sentence on the ops that bounded queues turned away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..numbers import format_share


def full_queue_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Sentence on dropped ops of each variant; an empty list if none was dropped.

    >>> full = {"dropped": 3, "components": [{"component": "node0.nf0", "dropped": 3}]}
    >>> point = {"queues": full, "facts": {"ops": 60}}
    >>> full_queue_sentences({"points": {"base": point}})
    ['3 of 60 ops were dropped at full queues (5 %), most at node0.nf0; ops that depend on them did\
 not run.']
    """
    found = []
    for name, point in summary["points"].items():
        queues = point.get("queues")
        if not queues or not queues["dropped"]:
            continue
        ops = point["facts"]["ops"]
        most = max(queues["components"], key=lambda row: row["dropped"])
        whose = f"In {name}, " * (name != "base")
        found.append(
            f"{whose}{queues['dropped']:,} of {ops:,} ops were dropped at full queues "
            f"({format_share(queues['dropped'] / ops, 0)}), most at {most['component']}; ops that "
            "depend on them did not run."
        )
    return found
