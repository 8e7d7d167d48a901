"""Time window to which blame is limited, for a job without periods.

It covers the worst percent of the samples of the headline, which has to be a time in s. A sample of
2 s covers the 2 s before the moment at which it was emitted. If samples were too many to keep, it
covers the worst one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....sim.analysis.blame import Blame
from ....sim.analysis.periods import period_edges
from ....sim.record.emitted_values import EmittedValues
from ....sim.run.held_graphs import GRAPH_AS_OPS
from ....sim.run.result import Result
from ....sim.run.row_window import MOST_ROWS
from ....sim.run.workload import Samples
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
    time, value = _times_and_values(emitted, name, answer.sign)
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


def _times_and_values(
    emitted: EmittedValues, metric: str, sign: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times and values of a metric; only the worst one if there were too many to keep."""
    reduced = emitted.distribution(metric)
    if reduced is None:
        return emitted.kept(metric)
    worst = (reduced.at_maximum, reduced.maximum), (reduced.at_minimum, reduced.minimum)
    time, value = worst[0 if sign > 0 else 1]
    return np.array([time]), np.array([value])


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


def repeated_window(
    point: Variant, result: Result, samples: Mapping[str, Samples]
) -> tuple[Seconds, Seconds, str]:
    """First and last time of the part of a run that is repeated for its rows, and what it is.

    It is the slowest sample of an emitted answer, the period nearest to the answer, or else the
    end of the run; and so short that few enough ops are expected in it.
    """
    first, last = result.first_release, result.first_release + result.makespan_ticks
    part = _part_of_answer(point, result, samples)
    begin, end, what = part or (first, last, "the end of the run")
    share = MOST_ROWS / 2 / max(result.count * (1 + GRAPH_AS_OPS), 1)
    begin = max(begin, end - round(share * (last - first)), first)
    return float(seconds(begin, result.tick)), float(seconds(end, result.tick)), what


def _part_of_answer(
    point: Variant, result: Result, samples: Mapping[str, Samples]
) -> tuple[int, int, str] | None:
    """First and last tick of the slowest sample, or of the period nearest to the answer."""
    answer = point.answer
    own = result.of(answer.job) if answer.job in result.jobs else result
    name = answer.sample.removeprefix(f"{answer.job}.")
    if answer.period and (edges := period_edges(own)) is not None:
        took = np.abs(seconds(np.diff(edges), own.tick) - answer.of(samples))
        k = int(np.argmin(took))
        return int(edges[k]), int(edges[k + 1]), f"the {answer.period} nearest to the answer"
    if name not in own.emitted.names:
        return None
    time, value = _times_and_values(own.emitted, name, answer.sign)
    k = int(np.argmax(answer.sign * value))
    length = value[k] if answer.unit == "s" else 0.0
    return (
        round((time[k] - length) / own.tick) if length else 0,
        round(time[k] / own.tick),
        f"the part of the run before the worst sample of {name.replace('_', ' ')}",
    )
