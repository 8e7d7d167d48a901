"""Measurement of a work list: warm-up, interleaved batches, several process starts.

Each process start has its own memory layout and clocks, so the spread between the medians of starts
is the uncertainty. Within a start every op has one batch per block, in random order, so that drift
affects all ops alike. Measuring stops once the uncertainty is small enough.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from ...sim.errors import DriverFault
from ..driver import Driver, Missing
from ..recording import FailedOp, Recording
from ..sample import Request, Sample
from . import conditions
from .spread import half_width, medians_settled, samples_by_key, start_medians
from .work_list import WorkList, touched_bytes

log = logging.getLogger(__name__)
WARM_UP = 10  # batches at most
OF_ONE_OP = ("broken", "unsupported", "not-a-number", "negative", "absurd")  # the agent goes on
SLOWER = 4.0  # times the longest answer so far: what the last one may take beyond the time limit
GRACE = 5.0  # s that it may take in any case, where the limit is longer
Opener = Callable[[], Driver]
Tell = Callable[[str], None]


@dataclass
class Measurement:
    """One execution of a work list, with the samples measured so far.

    Parameters
    ----------
    work : work list to measure
    opener : starts a driver, each time in a new process
    on_progress : called with lines of text that report progress
    now : clock that the time limit refers to, in s
    on_sample : called with each sample except those of warm-up
    """

    work: WorkList
    opener: Opener
    on_progress: Tell = log.info
    now: Callable[[], float] = time.monotonic
    on_sample: Callable[[Sample], object] = lambda sample: None
    samples: list[Sample] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    failed: dict[tuple[str, str], DriverFault] = field(default_factory=dict)
    ended: str = ""
    moved_bytes: int = 0
    longest: float = 0.0

    def run(self) -> Recording:
        """Measure the work list and return the recording.

        After a fault or a time-out the recording is partial and ``ended`` gives the reason. An op
        that fails on the device is listed in ``failed`` and not executed again.

        Raises
        ------
        DriverFault
            A batch would touch more bytes than allowed, or the device is missing, busy or fails
            before anything was measured.
        """
        self._require_small_batches()
        self.begin = self.now()
        order = random.Random(self.work.seed)
        start = 0
        try:
            while start < self.work.most_starts and self._needs_start(start):
                self._measure_start(start, order)
                start += 1
        except DriverFault as fault:
            if not self.samples:
                raise
            self.ended = str(fault)
        except TimeoutError:
            self.ended = f"time limit of {self.work.seconds:g} s"
        if self.failed and not self.samples:
            raise next(iter(self.failed.values()))
        return self.recording()

    def _require_small_batches(self) -> None:
        for request in self.work.requests:
            touched, allowed = touched_bytes(request), self.work.bytes
            if touched > allowed:
                raise DriverFault(
                    "unsupported",
                    f"{request.signature}: a batch of {request.n} touches {touched:.3g} B, "
                    f"{allowed:.3g} B are allowed; ask for fewer repeats",
                )

    def _needs_start(self, start: int) -> bool:
        """True if another start is needed.

        That is so if there were too few so far, or if the confidence interval of an op is too wide.
        """
        if not self._requests():
            return False
        return start < self.work.starts or bool(self._unresolved_ops())

    def _unresolved_ops(self) -> list[tuple[str, str]]:
        target = self.work.bar / 4
        by_op = samples_by_key(self.samples)
        return [
            k
            for k, group in by_op.items()
            if k not in self.failed and half_width(start_medians(group)) > target
        ]

    def _requests(self) -> list[Request]:
        """Requests that have not failed on the device so far."""
        return [r for r in self.work.requests if r.key not in self.failed]

    @contextmanager
    def _record_op_fault(self, request: Request) -> Iterator[None]:
        """Context manager that records a fault of this op and lets the measurement continue."""
        try:
            yield
        except DriverFault as fault:
            if fault.kind not in OF_ONE_OP:
                raise
            self.failed[request.key] = fault
            self.on_progress(f"{request.signature}: {fault}")

    def _measure_start(self, start: int, order: random.Random) -> None:
        with open_driver(self.opener, self.work) as driver:
            self.facts = self.facts or driver.describe()
            self.on_progress(f"start {start + 1}: warming up {len(self.work.requests)} ops")
            for request in self._requests():
                with self._record_op_fault(request):
                    self._warm_up(driver, request)
            self.on_progress(f"start {start + 1}: measuring")
            self._measure_blocks(driver, start, order)

    def _warm_up(self, driver: Driver, request: Request) -> None:
        """Run batches of an op until three medians agree within 2 %, at most ten batches."""
        medians: list[float] = []
        while len(medians) < WARM_UP and not medians_settled(medians):
            medians.append(self._measure_batch(driver, request).median)

    def _measure_blocks(self, driver: Driver, start: int, order: random.Random) -> None:
        unresolved = self._requests()
        medians: dict[tuple[str, str], list[float]] = {}
        for _ in range(self.work.blocks):
            order.shuffle(unresolved)
            for request in unresolved:
                with self._record_op_fault(request):
                    sample = self._measure_batch(driver, request)
                    self.samples.append(replace(sample, start=start))
                    self.on_sample(self.samples[-1])
                    medians.setdefault(request.key, []).append(sample.median)
            unresolved = [
                r
                for r in unresolved
                if r.key not in self.failed and not self._is_resolved(medians[r.key])
            ]

    def _is_resolved(self, medians: Sequence[float]) -> bool:
        return len(medians) >= 3 and half_width(medians) <= self.work.bar / 4

    def _measure_batch(self, driver: Driver, request: Request) -> Sample:
        since = self.now()
        left = self.work.seconds - (since - self.begin)
        if left < 0:
            raise TimeoutError
        driver.limit = math.ceil(self._answer_limit(left))
        (sample,) = driver.timing([request])
        self.longest = max(self.longest, self.now() - since)
        self.moved_bytes += touched_bytes(request) * int(sample.facts.get("inner", 1))
        self._wait_for_rate()
        return sample

    def _answer_limit(self, left: float) -> float:
        """Time limit of the next batch in s.

        It is the remaining time, or a multiple of the longest batch so far if that is larger.
        """
        return max(left, SLOWER * self.longest, min(self.work.seconds, GRACE))

    def _wait_for_rate(self) -> None:
        """Sleep until the average rate of bytes moved is within the allowed rate."""
        if self.work.rate:
            time.sleep(max(0.0, self.moved_bytes / self.work.rate - (self.now() - self.begin)))

    def recording(self, ended: str = "") -> Recording:
        """Build a recording from the samples measured so far.

        Parameters
        ----------
        ended : reason why measuring stops early, if the caller stops it; "" otherwise
        """
        facts = dict(self.facts)
        return Recording(
            driver=self.work.driver,
            device=facts.pop("device", ""),
            host=facts.pop("host", ""),
            date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            versions=facts,
            samples=tuple(self.samples),
            ended=self.ended or ended,
            note=self.work.note,
            spec=self.work.spec,
            failed=tuple(FailedOp(*key, str(fault)) for key, fault in self.failed.items()),
        )


def measure(work: WorkList, opener: Opener, on_progress: Tell = log.info) -> Recording:
    """Measure a work list now and return its recording.

    Raises
    ------
    DriverFault
        The device is missing, busy or fails before anything was measured.

    Examples
    --------
    >>> from ..drivers.memory.host import HostDriver
    >>> requests = (Request("host:chase uint8[4096]", 3),)
    >>> work = WorkList("host", requests, starts=2, most_starts=2, blocks=3, busy=99.0)
    >>> kept = measure(work, HostDriver)
    >>> sorted({s.start for s in kept.samples})
    [0, 1]
    """
    return Measurement(work, opener, on_progress).run()


@contextmanager
def open_driver(opener: Opener, work: WorkList) -> Iterator[Driver]:
    """Context manager that probes and opens a driver on an idle machine and closes it."""
    driver = opener()
    try:
        state = driver.probe()
        if isinstance(state, Missing):
            raise state.fault()
        busy_cores = conditions.cores_used_by_others()
        if busy_cores > work.busy:
            raise DriverFault(
                "busy",
                f"{work.driver}: others use {busy_cores:.1f} cores of this machine, "
                f"{work.busy:g} are allowed; wait until they end, or allow it ('--busy')",
            )
        driver.open(work.spec)
        yield driver
    finally:
        driver.close()
