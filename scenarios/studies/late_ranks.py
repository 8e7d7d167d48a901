"""Late ranks of a run, as plain data: who is waited for, and what each rank does meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...sim.analysis.activity import activity
from ...sim.analysis.arrivals import lateness
from ...sim.result import Result

MOST = 64  # ranks that are listed: those that others wait for most


def waiting_by_rank(result: Result) -> dict[str, Any] | None:
    """Waiting by rank; None where nobody waits for a collective, or rows were not kept."""
    if result.written is None:
        return None
    found = lateness(result)
    if not found.collectives:
        return None
    boxes = activity(result)
    own = boxes["compute"] + boxes["overlapped"] + boxes["memory"] + boxes["host"]
    worst = np.argsort(-found.late, kind="stable")[:MOST]
    return {
        "collectives": found.collectives,
        "cause": found.cause,
        "waited": found.waited,
        "of": result.makespan * result.ranks,
        "ranks": [
            {
                "rank": r,
                "own": float(own[r]),
                "waiting": float(boxes["waiting"][r]),
                "late": float(found.late[r]),
                "last": int(found.last[r]),
            }
            for r in sorted(worst.tolist())
        ],
    }
