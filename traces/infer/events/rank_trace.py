"""Events of one rank, each assigned to a lane: a host thread or a GPU stream."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...column_table import Ints
from ...event_columns import ON_GPU, ON_HOST, Event
from ...recorded_events import RecordedEvents
from .communication_kernels import is_communication

GLOO = re.compile(r"gloo:")
STEP = re.compile(r"ProfilerStep#(\d+)$")
BACKWARD = re.compile(r"autograd::engine::")


class RankTrace:
    """Recorded events of one rank, as columns.

    A lane is the number of a thread or stream within its rank. Host threads come first, then GPU
    streams and the threads of a communication library. Lane 0 is the main thread: the one that
    marks steps, or that does most work other than autograd's.

    Parameters
    ----------
    communication : patterns of the names of further kernels that communicate
    """

    def __init__(self, trace: RecordedEvents, rank: int, communication: Iterable[str] = ()):
        self.trace, self.rank, self.communication = trace, rank, tuple(communication)
        self.rows = np.flatnonzero(trace.events["rank"] == rank)
        self.process = next(p for p in trace.processes if p.rank == rank)
        table = trace.events.take(self.rows)
        self.kind, self.name, self.track = table["kind"], table["name"], table["track"]
        self.start, self.dur = table["ts"], table["dur"]
        self.end = self.start + self.dur
        self.correlation = table["correlation"]
        self.table = table

    def name_matches(self, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        """True where the name of an event matches the pattern from its start, shape (n,)."""
        matches = np.array([bool(pattern.match(s)) for s in self.trace.strings], np.bool_)
        return np.asarray(matches[self.name])

    def text(self, row: int) -> str:
        """Name of one event."""
        return self.trace.strings[int(self.name[row])]

    def of_rank(self, rank: int) -> RankTrace:
        """Copy of the events, as if another rank had recorded them."""
        other = copy(self)
        other.rank = rank
        return other

    def with_texts_of(self, trace: RecordedEvents) -> RankTrace:
        """Copy of the events with the names and operands that they have in another trace."""
        other = copy(self)
        other.trace, other.table = trace, trace.events.take(self.rows)
        other.name = other.table["name"]
        return other

    @cached_property
    def is_gloo_collective(self) -> NDArray[np.bool_]:
        """True where an event is a collective that gloo runs on its own thread, shape (n,)."""
        return np.asarray((self.kind == Event.ANNOTATION) & self.name_matches(GLOO))

    @cached_property
    def is_host_work(self) -> NDArray[np.bool_]:
        """True where an event is work of a host thread, shape (n,); marks of steps are not work."""
        return np.isin(self.kind, ON_HOST) & ~self.is_gloo_collective & ~self.is_step_mark

    @cached_property
    def is_gpu_work(self) -> NDArray[np.bool_]:
        """True where an event is work on a GPU stream, shape (n,)."""
        return np.isin(self.kind, ON_GPU)

    @cached_property
    def is_communication_kernel(self) -> NDArray[np.bool_]:
        """True where an event is a kernel that exchanges data with other GPUs, shape (n,)."""
        kernels = np.flatnonzero(self.kind == Event.KERNEL)
        names, number = np.unique(self.name[kernels], return_inverse=True)
        texts = (self.trace.strings[name] for name in names.tolist())
        known = np.array([is_communication(text, self.communication) for text in texts], np.bool_)
        found = np.zeros(len(self.rows), np.bool_)
        found[kernels] = known[number]
        return found

    @cached_property
    def is_step_mark(self) -> NDArray[np.bool_]:
        """True where an event marks a step, shape (n,)."""
        return np.isin(self.kind, ON_HOST) & self.name_matches(STEP)

    @cached_property
    def is_autograd_operator(self) -> NDArray[np.bool_]:
        """True where an event is an operator that autograd's engine runs, shape (n,)."""
        backward = self.name_matches(BACKWARD) | (self.table["forward"] >= 0)
        return np.asarray((self.kind == Event.OP) & backward)

    @cached_property
    def lane_of_event(self) -> NDArray[np.int64]:
        """Lane of each event that is work, shape (n,); -1 for other events."""
        lane_of_track = np.full(len(self.trace.tracks), -1, np.int64)
        for number, track in enumerate(self.track_of_lane):
            lane_of_track[track] = number
        work = self.is_host_work | self.is_gpu_work | self.is_gloo_collective
        return np.where(work, lane_of_track[self.track], -1)

    @cached_property
    def track_of_lane(self) -> list[int]:
        """Track of each lane, as a row of the trace's table of tracks."""
        hosts = _tracks_by_event_count(self.track[self.is_host_work])
        engines = set(self.track[(self.kind == Event.OP) & self.name_matches(BACKWARD)].tolist())
        stepping = self.track[np.flatnonzero(self.is_step_mark)[:1]].tolist()
        main = [*stepping, *(t for t in hosts if t not in engines), *hosts][:1]
        hosts = [*main, *(t for t in hosts if t not in main)]
        return list(
            dict.fromkeys(
                hosts
                + _tracks_by_event_count(self.track[self.is_gpu_work | self.is_gloo_collective])
            )
        )

    @cached_property
    def host_lane_count(self) -> int:
        """Number of lanes that are host threads, without threads of a communication library."""
        return int(self.lane_of_event[self.is_host_work].max(initial=-1)) + 1

    @property
    def has_gpu(self) -> bool:
        """True if anything ran on a GPU."""
        return bool(self.is_gpu_work.any())


def _tracks_by_event_count(values: NDArray[Any]) -> list[int]:
    """Distinct tracks, sorted by number of events, largest first."""
    tracks, count = np.unique(values, return_counts=True)
    return [int(t) for t in tracks[np.argsort(-count, kind="stable")]]


def rows_by_lane_and_start(events: RankTrace, mask: NDArray[np.bool_]) -> Ints:
    """Rows where `mask` is true, sorted by lane, then by start."""
    rows = np.flatnonzero(mask)
    return rows[np.lexsort((events.end[rows], events.start[rows], events.lane_of_event[rows]))]
