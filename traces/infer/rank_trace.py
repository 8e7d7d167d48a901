"""One rank's events, seen by line: its host threads first, then what they launch onto."""

from __future__ import annotations

import re
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..column_table import Integers
from ..event_columns import ON_GPU, ON_HOST, Event
from ..recorded_events import RecordedEvents

GLOO = re.compile(r"gloo:")
STEP = re.compile(r"ProfilerStep#(\d+)$")


class RankTrace:
    """The events of one rank.

    Lines are numbered: host threads from 0 (the one that steps first), then GPU streams and the
    threads that only communicate.
    """

    def __init__(self, trace: RecordedEvents, rank: int):
        self.trace, self.rank = trace, rank
        self.rows = np.flatnonzero(trace.events["rank"] == rank)
        self.process = next(p for p in trace.processes if p.rank == rank)
        take = trace.events.take(self.rows)
        self.kind, self.name, self.track = take["kind"], take["name"], take["track"]
        self.start, self.dur = take["ts"], take["dur"]
        self.end = self.start + self.dur
        self.correlation = take["correlation"]
        self.events = take

    def named(self, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        """(n,) Whether the name of each event matches from its start."""
        found: NDArray[np.bool_] = self._matches(pattern)[self.name]
        return found

    def _matches(self, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        return np.array([bool(pattern.match(s)) for s in self.trace.strings], np.bool_)

    def text(self, row: int) -> str:
        """Name of one event of this view."""
        return self.trace.strings[int(self.name[row])]

    def renamed(self, rank: int) -> RankTrace:
        """The same events as those of another rank."""
        other = copy(self)
        other.rank = rank
        return other

    @cached_property
    def network(self) -> NDArray[np.bool_]:
        """(n,) Collectives that a library runs on threads of its own (gloo)."""
        return np.asarray((self.kind == Event.ANNOTATION) & self.named(GLOO))

    @cached_property
    def on_host(self) -> NDArray[np.bool_]:
        """(n,) Work of host threads; steps are marks, not work."""
        return np.isin(self.kind, ON_HOST) & ~self.network & ~self.steps

    @cached_property
    def on_gpu(self) -> NDArray[np.bool_]:
        """(n,) Whether each event is work on a GPU stream."""
        return np.isin(self.kind, ON_GPU)

    @cached_property
    def steps(self) -> NDArray[np.bool_]:
        """(n,) Whether each event marks a step."""
        return np.isin(self.kind, ON_HOST) & self.named(STEP)

    @cached_property
    def lines(self) -> NDArray[np.int64]:
        """(n,) Line of every event that is work; -1 of the rest."""
        line_of_track = np.full(len(self.trace.tracks), -1, np.int64)
        for number, track in enumerate(self.line_tracks):
            line_of_track[track] = number
        work = self.on_host | self.on_gpu | self.network
        return np.where(work, line_of_track[self.track], -1)

    @cached_property
    def line_tracks(self) -> list[int]:
        """Track of every line."""
        hosts = _tracks(self.track[self.on_host])
        first = np.flatnonzero(self.steps)
        if len(first):
            main = int(self.track[first[0]])
            hosts = [main, *(t for t in hosts if t != main)]
        return list(dict.fromkeys(hosts + _tracks(self.track[self.on_gpu | self.network])))

    @cached_property
    def hosts(self) -> int:
        """How many lines are host threads that do more than communicate."""
        return int(self.lines[self.on_host].max(initial=-1)) + 1

    @property
    def has_gpu(self) -> bool:
        """Whether anything ran on a GPU."""
        return bool(self.on_gpu.any())


def _tracks(values: NDArray[Any]) -> list[int]:
    """Distinct tracks, the one with the most events first."""
    found, count = np.unique(values, return_counts=True)
    return [int(t) for t in found[np.argsort(-count, kind="stable")]]


def rows_of(view: RankTrace, mask: NDArray[np.bool_]) -> Integers:
    """Integers of a mask, by line and start."""
    rows = np.flatnonzero(mask)
    return rows[np.lexsort((view.end[rows], view.start[rows], view.lines[rows]))]
