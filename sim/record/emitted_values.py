"""Metric values that processes emit, stored in columns of 28 bytes per value."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import SimulationError

Value = tuple[str, float, float]  # metric, time in s, value


@dataclass(frozen=True, repr=False)
class EmittedValues:
    """Metric values that processes emitted in a run, in order of time.

    Parameters
    ----------
    names : names of the metrics
    name : (n,) index into ``names`` of each value
    job : (n,) number of the job that emitted each value
    time : (n,) simulated time of each value, in s
    value : (n,) the values
    units : unit by job number and metric name, if it is known

    Examples
    --------
    >>> growing = EmissionRecorder()
    >>> for k in range(3):
    ...     growing.add(0, "queue", 0.5 * k, k)
    >>> found = growing.emitted()
    >>> list(found)[1], found.samples["queue"].tolist()
    (('queue', 0.5, 1.0), [0.0, 1.0, 2.0])
    """

    names: tuple[str, ...] = ()
    name: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    job: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    time: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    value: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    units: Mapping[tuple[int, str], str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.name)

    def __iter__(self) -> Iterator[Value]:
        names = map(self.names.__getitem__, self.name.tolist())
        return zip(names, self.time.tolist(), self.value.tolist(), strict=True)

    def of_job(self, job: int) -> EmittedValues:
        """Values emitted by one job, which becomes job 0."""
        own = np.flatnonzero(self.job == job)
        used, name = np.unique(self.name[own], return_inverse=True)
        names = tuple(self.names[i] for i in used.tolist())
        units = {(0, metric): unit for (j, metric), unit in self.units.items() if j == job}
        none = np.zeros(len(own), np.int32)
        return EmittedValues(
            names, name.astype(np.int32), none, self.time[own], self.value[own], units
        )

    @cached_property
    def samples(self) -> dict[str, NDArray[np.float64]]:
        """Values of each metric by name, in order of time."""
        return {metric: self.value[self.name == i] for i, metric in enumerate(self.names)}


class EmissionRecorder:
    """Recorder of metric values during a run."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._units: dict[tuple[int, str], str] = {}
        self._name, self._job = array("i"), array("i")
        self._time, self._value = array("d"), array("d")

    def declare(self, job: int, metric: str, unit: str) -> None:
        """Declare the unit of a metric of a job.

        Raises
        ------
        SimulationError
            The metric already has another unit.
        """
        known = self._units.setdefault((job, metric), unit)
        if known != unit:
            raise SimulationError(
                "action",
                f"{metric}: a value has the unit {unit!r}, earlier ones {known!r}; use one unit",
            )

    def add(self, job: int, metric: str, time: float, value: float, unit: str = "") -> None:
        """Append a value of a metric; ``time`` is in s."""
        if unit:
            self.declare(job, metric, unit)
        self._value.append(value)
        self._time.append(time)
        self._job.append(job)
        self._name.append(self._names.setdefault(metric, len(self._names)))

    def add_many(
        self,
        metrics: Sequence[tuple[int, str]],
        which: NDArray[np.int64],
        time: NDArray[np.float64],
        value: NDArray[np.float64],
    ) -> None:
        """Append values in order of time.

        Parameters
        ----------
        metrics : number of the job, and name
        which : (n,) index into ``metrics`` of each value
        time, value : (n,) times in s, and values
        """
        used, first = np.unique(which, return_index=True)
        numbers = np.zeros(len(metrics), np.int32)
        for k in used[np.argsort(first)].tolist():
            numbers[k] = self._names.setdefault(metrics[k][1], len(self._names))
        jobs = np.array([job for job, _ in metrics], np.int32)
        self._value.frombytes(np.ascontiguousarray(value, np.float64).tobytes())
        self._time.frombytes(np.ascontiguousarray(time, np.float64).tobytes())
        self._job.frombytes(jobs[which].tobytes())
        self._name.frombytes(numbers[which].tobytes())

    def emitted(self) -> EmittedValues:
        """All values recorded so far."""
        return EmittedValues(
            tuple(self._names),
            np.array(self._name, np.int32),
            np.array(self._job, np.int32),
            np.array(self._time, np.float64),
            np.array(self._value, np.float64),
            dict(self._units),
        )
