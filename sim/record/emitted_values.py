"""Metric values that processes emit: each value, or the distribution of a metric with too many."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..units import Seconds
from .declared_units import DeclaredUnits
from .distribution import Distribution, DistributionRecorder, merged_distribution
from .sample_log import CHUNK, SampleLog, SampleRows

Value = tuple[str, float, float]  # metric, time in s, value
Stream = tuple[int, str]  # number of a job, and a metric that it emits
Emitted = NDArray[np.float64] | Distribution

MOST_VALUES = 1 << 20
"""Values of a run that are kept one by one, in at most 16 bytes each."""


@dataclass(frozen=True, repr=False)
class EmittedValues:
    """Metric values that processes emitted in a run, in order of time.

    A run keeps up to :data:`MOST_VALUES` values. With more, the metric that has most of them keeps
    only its distribution.

    Parameters
    ----------
    streams : job number and metric of each stream of values
    log : values that were kept
    per_second : ticks in a second
    reduced : distribution of each stream of which no single value was kept, by its number
    units : unit by job number and metric name, if it is known

    Examples
    --------
    >>> growing = EmissionRecorder(2)
    >>> for k in range(3):
    ...     growing.add(0, "queue", k, k)
    >>> found = growing.emitted()
    >>> list(found)[1], found.samples["queue"].tolist()
    (('queue', 0.5, 1.0), [0.0, 1.0, 2.0])
    """

    streams: tuple[Stream, ...] = ()
    log: SampleLog = field(default_factory=SampleLog)
    per_second: int = 1
    reduced: Mapping[int, Distribution] = field(default_factory=dict)
    units: Mapping[Stream, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.log) + sum(map(len, self.reduced.values()))

    def __iter__(self) -> Iterator[Value]:
        """Metric, time in s and value of each value that was kept."""
        for rows in self.log:
            names = (self.streams[k][1] for k in rows.stream.tolist())
            times = (rows.tick / self.per_second).tolist()
            yield from zip(names, times, rows.value.tolist(), strict=True)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the metrics that have values, in the order in which they were first emitted."""
        used = set(self.reduced)
        for rows in self.log:
            used.update(np.unique(rows.stream).tolist())
        return tuple(dict.fromkeys(self.streams[k][1] for k in sorted(used)))

    @property
    def last(self) -> Seconds:
        """Time of the last value that is kept by itself, in s; 0 without any.

        >>> EmittedValues().last
        0.0
        """
        return max((rows.tick.max(initial=0) for rows in self.log), default=0) / self.per_second

    def of_job(self, job: int) -> EmittedValues:
        """Values emitted by one job, which becomes job 0."""
        order = {metric: k for k, (_, metric) in reversed(list(enumerate(self.streams)))}
        own = [k for k, (of, _) in enumerate(self.streams) if of == job]
        own.sort(key=lambda k: order[self.streams[k][1]])
        number = np.full(len(self.streams) + 1, -1)
        number[own] = np.arange(len(own))
        log = SampleLog()
        for rows in self.log:
            renumbered = rows._replace(stream=number[rows.stream])
            log.append(renumbered.chosen(renumbered.stream >= 0))
        return replace(
            self,
            streams=tuple((0, self.streams[k][1]) for k in own),
            log=log,
            reduced={int(number[k]): one for k, one in self.reduced.items() if k in own},
            units={(0, metric): unit for (j, metric), unit in self.units.items() if j == job},
        )

    def kept(self, metric: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Times in s and values of a metric, without those of which only a distribution is left."""
        rows = self._rows(metric)
        return rows.tick / self.per_second, rows.value

    def distribution(self, metric: str) -> Distribution | None:
        """Distribution of a metric with too many values; None if all its values were kept."""
        parts = [one for k, one in self.reduced.items() if self.streams[k][1] == metric]
        if not parts:
            return None
        time, value = self.kept(metric)
        growing = DistributionRecorder()
        growing.add(value, time)
        return merged_distribution([*parts, *([growing.distribution()] if len(value) else [])])

    @property
    def samples(self) -> dict[str, Emitted]:
        """Values of each metric in order of time, or their distribution, by name."""
        found: dict[str, Emitted] = {}
        for metric in self.names:
            reduced = self.distribution(metric)
            found[metric] = self.kept(metric)[1] if reduced is None else reduced
        return found

    def _rows(self, metric: str) -> SampleRows:
        """Rows of a metric that were kept."""
        own = np.array([name == metric for _, name in self.streams])
        return SampleRows.joined([rows.chosen(own[rows.stream]) for rows in self.log])


class EmissionRecorder:
    """Recorder of metric values during a run.

    Parameters
    ----------
    per_second : ticks in a second
    most : values that are kept one by one
    """

    def __init__(self, per_second: int = 1, most: int = MOST_VALUES) -> None:
        self._per_second, self._most = per_second, most
        self._streams: dict[Stream, int] = {}
        self.units = DeclaredUnits()
        self._stream, self._tick, self._value = array("i"), array("q"), array("d")
        self._log = SampleLog()
        self._reduced: dict[int, DistributionRecorder] = {}

    def stream(self, job: int, metric: str) -> int:
        """Number of the stream of a job's metric, for :meth:`extend`."""
        return self._streams.setdefault((job, metric), len(self._streams))

    def add(self, job: int, metric: str, tick: int, value: float, unit: str = "") -> None:
        """Append a value of a metric."""
        if unit:
            self.units.declare(job, metric, unit)
        self._value.append(value)
        self._tick.append(tick)
        self._stream.append(self._streams.setdefault((job, metric), len(self._streams)))
        if len(self._value) == CHUNK:
            self._flush()

    def extend(
        self,
        stream: NDArray[np.int32],
        tick: NDArray[np.int64],
        value: NDArray[np.float64],
    ) -> None:
        """Append many values, in order: of each its stream, tick and value.

        The outcome is that of as many calls of :meth:`add`.
        """
        done = 0
        while done < len(value):
            part = slice(done, done + CHUNK - len(self._value))
            self._stream.frombytes(stream[part].astype(np.int32).tobytes())
            self._tick.frombytes(tick[part].astype(np.int64).tobytes())
            self._value.frombytes(value[part].astype(np.float64).tobytes())
            done += len(value[part])
            if len(self._value) == CHUNK:
                self._flush()

    def _flush(self) -> None:
        """Move the latest values to the log and to the distributions."""
        rows = SampleRows(
            np.array(self._stream, np.int32),
            np.array(self._tick, np.int64),
            np.array(self._value, np.float64),
        )
        self._stream, self._tick, self._value = array("i"), array("q"), array("d")
        for k, growing in self._reduced.items():
            own = rows.stream == k
            growing.add(rows.value[own], rows.tick[own] / self._per_second)
            rows = rows.chosen(~own)
        self._log.append(rows)
        while len(self._log) > self._most:
            self._reduce_largest()

    def _reduce_largest(self) -> None:
        """Keep only the distribution of the stream with most values."""
        count = np.zeros(len(self._streams), np.int64)
        for rows in self._log:
            count += np.bincount(rows.stream, minlength=len(count))
        largest = int(np.argmax(count))
        growing = self._reduced[largest] = DistributionRecorder()
        for rows in self._log.take(largest):
            growing.add(rows.value, rows.tick / self._per_second)

    def emitted(self) -> EmittedValues:
        """All values recorded so far."""
        self._flush()
        reduced = {k: growing.distribution() for k, growing in self._reduced.items()}
        return EmittedValues(
            tuple(self._streams), self._log.copy(), self._per_second, reduced, dict(self.units)
        )


def same_values_before(one: EmittedValues, other: EmittedValues, until: Seconds) -> bool:
    """True if two runs emitted the same values before a time, as far as both kept them."""
    if until == np.inf and one.reduced != other.reduced:
        return False
    reduced = [*one.reduced, *other.reduced]
    mine, others = (_rows_before(of, until, reduced) for of in (one, other))
    used = int(mine.stream.max(initial=-1)) + 1
    return one.streams[:used] == other.streams[:used] and all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(mine, others, strict=True)
    )


def _rows_before(of: EmittedValues, until: Seconds, without: Sequence[int]) -> SampleRows:
    """Rows before a time, without some streams."""
    return SampleRows.joined(
        [
            rows.chosen((rows.tick / of.per_second < until) & ~np.isin(rows.stream, without))
            for rows in of.log
        ]
    )
