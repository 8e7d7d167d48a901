"""Time window to which blame is limited, for a job without periods.

It covers the worst percent of the samples of the headline, which has to be a time in s. A sample of
2 s covers the 2 s before the moment at which it was emitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....sim.analysis.blame import Blame
from ....sim.run.result import Result
from ....sim.units import Seconds, seconds
from .variant import Variant

SLOWEST = 1.0  # percentage of the answer's samples that the window covers


@dataclass(frozen=True)
class BlameWindow:
    """Disjoint, ascending time spans of a run to which blame and timeline are limited.

    Parameters
    ----------
    spans : (first tick, last tick) of each span
    samples : number of samples of the deciding metric inside
    worst : index of the span with the slowest sample
    """

    spans: tuple[tuple[int, int], ...]
    samples: int
    worst: int = 0

    def blame(self, whole: Blame) -> dict[str, float]:
        """Seconds of the critical path inside the window by component, largest first."""
        found: dict[str, int] = {}
        for c in whole.path:
            ticks = sum(max(0, min(b, c.end) - max(a, c.start)) for a, b in self.spans)
            if ticks:
                found[c.who] = found.get(c.who, 0) + ticks
        ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return {who: float(seconds(ticks, whole.tick)) for who, ticks in ordered}

    def to_dict(self, tick: Seconds) -> dict[str, Any]:
        """Plain dictionary with times in s, as in ``summary.json``."""
        first, last = (float(seconds(t, tick)) for t in self.spans[self.worst])
        total = float(seconds(sum(b - a for a, b in self.spans), tick))
        return {"first": first, "last": last, "samples": self.samples, "length": total}


def blame_window(point: Variant, result: Result) -> BlameWindow | None:
    """Window of a variant's answer; None for a job with periods, or if it was not emitted."""
    answer = point.answer
    if answer.period or answer.job not in result.jobs or len(result.jobs) > 1:
        return None
    emitted, name = result.of(answer.job).emitted, answer.sample
    if name not in emitted.names:
        return None
    own = emitted.name == emitted.names.index(name)
    time, value = emitted.time[own], emitted.value[own]
    late = answer.sign * value
    chosen = np.flatnonzero(late >= np.percentile(late, 100 - SLOWEST))
    before = value[chosen] if answer.unit == "s" else np.zeros(len(chosen))
    ticks = [(round(t / result.tick), round((t - b) / result.tick))
             for t, b in zip(time[chosen], before, strict=True)]  # fmt: skip
    first, last = result.first_release, result.first_release + result.makespan_ticks
    spans = _join_spans([(max(b, first), min(t, last)) for t, b in ticks])
    at = ticks[int(np.argmax(late[chosen]))][0]
    worst = next((i for i, (a, b) in enumerate(spans) if a <= at <= b), 0)
    return BlameWindow(spans, len(chosen), worst) if any(b > a for a, b in spans) else None


def _join_spans(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge overlapping spans.

    >>> _join_spans([(5, 9), (0, 3), (2, 4)])
    ((0, 4), (5, 9))
    """
    found: list[tuple[int, int]] = []
    for a, b in sorted(spans):
        if found and a <= found[-1][1]:
            found[-1] = found[-1][0], max(b, found[-1][1])
        else:
            found.append((a, b))
    return tuple(found)
