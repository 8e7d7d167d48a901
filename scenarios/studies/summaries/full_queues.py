"""Bounded queues of a run as plain data: how many ops found each full, and what became of them."""

from __future__ import annotations

from typing import Any

from ....sim.run.result import Result

MOST = 256  # components listed, those with the most first


def full_queues(result: Result) -> dict[str, Any] | None:
    """Ops that found a queue full, by component, and dropped ops by job; None if none did."""
    used = result.queues()
    if not used:
        return None
    order = sorted(used, key=lambda name: -(used[name].full or 0))
    rows = []
    for name in order[:MOST]:
        queue, use = result.system[name].queue, used[name]
        assert queue is not None  # noqa: S101
        rows.append({"component": name, "length": queue.length, "rule": queue.full,
                     "full": use.full, "dropped": use.dropped})  # fmt: skip
    jobs = result.jobs if len(result.jobs) > 1 else ()
    by_job = {job: sum(q.dropped for q in result.of(job).queues().values()) for job in jobs}
    return {
        "full": sum(use.full or 0 for use in used.values()),
        "dropped": sum(use.dropped for use in used.values()),
        "components": rows,
        "more": max(0, len(order) - MOST),
        **({"by_job": by_job} if by_job else {}),
    }
