"""Facts on a recording that decide how far it can be trusted: what is lost, unread or guessed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...sim.units import Seconds
from ..event_category import UNNAMED
from ..recorded_events import GUESSED, RecordedEvents
from .events.device_use import (
    gpu_in_header,
    lost_launches,
    misplaced_work,
    unread_device_work,
    unread_events,
    uses_device,
)
from .events.rank_trace import RankTrace
from .events.steps import Steps, find_steps, repeated_step_numbers

MOST_LOST = 0.05  # share of launches without work up to which a trace is replayed
CAUSES = (
    "causes: profiler activities without the GPU (ProfilerActivity.CUDA), another profiler at the "
    "same time (nsys, DCGM: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED), no permission "
    "(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES), a container without CUPTI, CUDA graphs captured "
    "before the profiler first started, a profiler first started just before short work"
)
ALLOW = "allow it (workload.reading.allow_lost: true, or --allow-lost)"


class UnreadCategory(NamedTuple):
    """Events of a category that is not known: their number, total time, and place."""

    name: str
    events: int
    seconds: Seconds
    on_device: bool

    def __str__(self) -> str:
        return f"{self.events:,} events of {_time(self.seconds)} in category {self.name}"


class RankWithoutWork(NamedTuple):
    """Rank that used a GPU of which no work was recorded."""

    file: str
    sign: str
    unread: bool
    launched: bool


@dataclass(frozen=True)
class TraceFacts:
    """What of a recording is lost, unread or guessed; all empty for a good one.

    Parameters
    ----------
    unread : categories that are not known, by time, longest first
    without_work : ranks that used a GPU of which no work was recorded or read
    launches, lost : number of kernel launches in the steps, and of those without work
    misplaced : number of GPU ops with an impossible time, such as 0
    repeated_steps : step numbers that several steps have; steps are counted from the first one
    empty_steps : steps all of whose launches lost their work
    absent_steps : numbers between the first and the last step that no step has
    guess : how ranks were guessed; "" if they are recorded
    place : files that lost work or steps
    shared : ranks whose one process used several GPUs, with these

    Examples
    --------
    >>> TraceFacts(launches=9, lost=2).sentences()
    ['2 of 9 launches have no work: the profiler lost it.']
    """

    unread: tuple[UnreadCategory, ...] = ()
    without_work: tuple[RankWithoutWork, ...] = ()
    launches: int = 0
    lost: int = 0
    misplaced: int = 0
    repeated_steps: tuple[int, ...] = ()
    empty_steps: tuple[int, ...] = ()
    absent_steps: tuple[int, ...] = ()
    guess: str = ""
    place: str = ""
    shared: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def sentences(self) -> list[str]:
        """A sentence for each fact, the most serious first; empty for a good recording."""
        none = (one for one in self.without_work if not one.unread)
        found = [f"{one.file}: {one.sign}, no GPU work recorded." for one in none]
        if self.unread:
            told = "; ".join(map(str, self.unread))
            found.append(f"Not read: {told} (set what it is: --category NAME=KIND).")
        if self.lost:
            found.append(
                f"{self.lost:,} of {self.launches:,} launches have no work: the profiler lost it."
            )
        if self.misplaced:
            found.append(f"{self.misplaced:,} GPU ops have no valid time: the profiler lost it.")
        for rank, devices in self.shared:
            listed = ", ".join(map(str, devices))
            found.append(f"Rank {rank} uses GPUs {listed}: here they are counted as one GPU.")
        found += self._step_sentences()
        return [*found, f"{self.guess}."] if self.guess else found

    def _step_sentences(self) -> list[str]:
        of = (
            (self.empty_steps, "no GPU work was recorded"),
            (self.absent_steps, "not marked between recorded steps"),
            (self.repeated_steps, "several steps have the number; here they are counted on"),
        )
        return [f"{_numbered(steps)}: {why}." for steps, why in of if steps]

    def refusal(self, allow_lost: bool = False) -> str:
        """Reason why the recording cannot be replayed, with its cure; "" if it can.

        Parameters
        ----------
        allow_lost : True to accept launches without work, dropped steps, and ranks that show no use
            of the GPU in their header
        """
        for one in self.without_work:
            if one.unread or one.launched or not allow_lost:
                return self._no_work_text(one)
        if allow_lost:
            return ""
        return self._lost_text()

    def _no_work_text(self, one: RankWithoutWork) -> str:
        if one.unread:
            work = "; ".join(str(u) for u in self.unread if u.on_device)
            return (
                f"{one.file}: device work is not read: {work}; set what it is "
                "(workload.reading.categories: {NAME: kernel}, or --category NAME=kernel)"
            )
        cure = "" if one.launched else f"; if the job ran on the CPU, {ALLOW}"
        return f"{one.file}: {one.sign}, no GPU work recorded; {CAUSES}; record it again{cure}"

    def _lost_text(self) -> str:
        lost = self.lost + self.misplaced
        if lost > MOST_LOST * self.launches:
            what = f"{lost:,} of {self.launches:,} launches have no work"
        elif steps := (*self.empty_steps, *self.absent_steps):
            what = f"steps {', '.join(map(str, sorted(steps)))} were not recorded"
        else:
            return ""
        return f"{self.place}: {what}, because the profiler lost it; record fewer steps, or {ALLOW}"


def trace_facts(trace: RecordedEvents) -> TraceFacts:
    """Find what of a recording is lost, unread or guessed."""
    ranks = [RankTrace(trace, rank) for rank in trace.ranks]
    steps = [find_steps(events) for events in ranks]
    launches = [lost_launches(e, s) for e, s in zip(ranks, steps, strict=True) if e.has_gpu]
    marked = [(e, s) for e, s in zip(ranks, steps, strict=True) if s.marked]
    return TraceFacts(
        unread=_unread_categories(ranks),
        without_work=tuple(_ranks_without_work(ranks)) if trace.timed else (),
        launches=sum(len(rows) for rows, _ in launches),
        lost=sum(len(lost) for _, lost in launches),
        misplaced=sum(len(misplaced_work(events)) for events in ranks),
        repeated_steps=_union(repeated_step_numbers(events) for events, _ in marked),
        empty_steps=_union(_empty_steps(e, s) for e, s in marked if e.has_gpu),
        absent_steps=_union(_absent_steps(s) for _, s in marked),
        guess=next((note for note in trace.notes if note.startswith(GUESSED)), ""),
        place=_losing_files(ranks, steps),
        shared=tuple((e.rank, used) for e in ranks if len(used := _devices(e)) > 1),
    )


def _devices(events: RankTrace) -> tuple[int, ...]:
    """Numbers of the GPUs on which work of a rank ran, ascending."""
    devices = np.unique(events.table["device"][events.is_gpu_work])
    return tuple(devices[devices >= 0].tolist())


def _losing_files(ranks: Sequence[RankTrace], steps: Sequence[Steps]) -> str:
    """Names of the files of ranks that lost work or steps."""
    losing = (
        events.process.file or f"rank {events.rank}"
        for events, found in zip(ranks, steps, strict=True)
        if len(lost_launches(events, found)[1])
        or len(misplaced_work(events))
        or (found.marked and _absent_steps(found))
    )
    return ", ".join(losing)


def _union(numbers: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """Distinct numbers of all ranks, ascending."""
    return tuple(sorted({n for some in numbers for n in some}))


def _unread_categories(ranks: Sequence[RankTrace]) -> tuple[UnreadCategory, ...]:
    total: dict[str, UnreadCategory] = {}
    for events in ranks:
        rows, device = np.flatnonzero(unread_events(events)), unread_device_work(events)
        named, number = np.unique(events.table["category"][rows], return_inverse=True)
        for i, text in enumerate(named.tolist()):
            own = rows[number == i]
            name = ("" if text < 0 else events.trace.strings[text]) or UNNAMED
            took = float(events.dur[own].sum()) / events.trace.resolution
            old = total.get(name, UnreadCategory(name, 0, 0.0, False))
            total[name] = UnreadCategory(
                name,
                old.events + len(own),
                old.seconds + took,
                old.on_device or bool(device[own].any()),
            )
    return tuple(sorted(total.values(), key=lambda one: -one.seconds))


def _ranks_without_work(ranks: Sequence[RankTrace]) -> Iterator[RankWithoutWork]:
    """Yield the ranks that used a GPU, of which no work was recorded."""
    for events in ranks:
        named, used = gpu_in_header(events.process), uses_device(events)
        if events.has_gpu or not (used or named):
            continue
        sign = f"{named} in the header" if named else "kernels were launched"
        place = events.process.file or f"rank {events.rank}"
        unread = bool(unread_device_work(events).any())
        yield RankWithoutWork(place, sign, unread, used and not unread)


def _empty_steps(events: RankTrace, steps: Steps) -> list[int]:
    """Numbers of the steps all of whose launches lost their work."""
    rows, lost = lost_launches(events, steps)
    of_all, of_lost = (
        np.bincount(at[at >= 0], minlength=len(steps.number))
        for at in (steps.position_at(events.start[r]) for r in (rows, lost))
    )
    return [n for n, a, b in zip(steps.number, of_all, of_lost, strict=True) if a and a == b]


def _absent_steps(steps: Steps) -> set[int]:
    """Numbers between the first and the last step that no step has."""
    return set(range(steps.number[0], steps.number[-1])) - set(steps.number)


def _numbered(steps: Sequence[int]) -> str:
    """Steps by number: ``Step 3``, ``Steps 3, 4``."""
    return f"Step{'s' * (len(steps) > 1)} {', '.join(map(str, steps))}"


def _time(seconds: Seconds) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
