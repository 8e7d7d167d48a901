"""Measuring: warm up, interleave, start anew, stop when the answer is known well enough.

Each start of the process has its own memory layout and clocks, so medians of starts, not repeats
of one, say how sure a number is.  Within a start every op has one batch a block, in random order:
what drifts hits all ops alike.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from ...sim.errors import DriverFault
from ..driver import Driver, Missing
from ..recording import Recording
from ..sample import Request, Sample
from . import conditions
from .spread import by_start, grouped, half_width, settled
from .work_list import WorkList, touched

log = logging.getLogger(__name__)
WARM_UP = 10  # batches at most
Opener = Callable[[], Driver]
Tell = Callable[[str], None]


@dataclass
class Measurement:
    """One work list being done.

    Parameters
    ----------
    work : Work
    opener : starts a driver in a process of its own
    tell : is told how far it is
    now : clock of the time limit, s
    """

    work: WorkList
    opener: Opener
    tell: Tell = log.info
    now: Callable[[], float] = time.monotonic
    samples: list[Sample] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    ended: str = ""
    moved: int = 0

    def run(self) -> Recording:
        """Do it; what was measured before a fault or the time limit is kept and says so."""
        self.begin = self.now()
        order = random.Random(self.work.seed)
        start = 0
        try:
            while start < self.work.most_starts and self._wanted(start):
                self._start(start, order)
                start += 1
        except DriverFault as fault:
            if not self.samples:
                raise
            self.ended = str(fault)
        except TimeoutError:
            self.ended = f"time limit of {self.work.seconds:g} s"
        return self._recording()

    def _wanted(self, start: int) -> bool:
        """Another start: fewer than the least, or some op is not known well enough."""
        return start < self.work.starts or bool(self._open_questions())

    def _open_questions(self) -> list[tuple[str, str]]:
        fine = self.work.bar / 4
        found = grouped(self.samples)
        return [k for k, group in found.items() if half_width(by_start(group)) > fine]

    def _start(self, start: int, order: random.Random) -> None:
        with opened(self.opener, self.work) as driver:
            self.facts = self.facts or driver.describe()
            self.tell(f"start {start + 1}: warming up {len(self.work.requests)} ops")
            for request in self.work.requests:
                self._warm_up(driver, request)
            self.tell(f"start {start + 1}: measuring")
            self._blocks(driver, start, order)

    def _warm_up(self, driver: Driver, request: Request) -> None:
        """Until three batch medians agree within 2 %, or ten batches were not enough."""
        medians: list[float] = []
        while len(medians) < WARM_UP and not settled(medians):
            medians.append(self._batch(driver, request).median)

    def _blocks(self, driver: Driver, start: int, order: random.Random) -> None:
        left = list(self.work.requests)
        medians: dict[tuple[str, str], list[float]] = {}
        for _ in range(self.work.blocks):
            order.shuffle(left)
            for request in left:
                sample = self._batch(driver, request)
                self.samples.append(replace(sample, start=start))
                medians.setdefault(request.key, []).append(sample.median)
            left = [r for r in left if not self._known(medians[r.key])]

    def _known(self, medians: Sequence[float]) -> bool:
        return len(medians) >= 3 and half_width(medians) <= self.work.bar / 4

    def _batch(self, driver: Driver, request: Request) -> Sample:
        if self.now() - self.begin > self.work.seconds:
            raise TimeoutError
        (sample,) = driver.timing([request])
        self.moved += touched(request) * int(sample.facts.get("inner", 1))
        self._pace()
        return sample

    def _pace(self) -> None:
        """Wait until what was moved is within the rate that is allowed."""
        if self.work.rate:
            time.sleep(max(0.0, self.moved / self.work.rate - (self.now() - self.begin)))

    def _recording(self) -> Recording:
        facts = dict(self.facts)
        return Recording(
            driver=self.work.driver,
            device=facts.pop("device", ""),
            host=facts.pop("host", ""),
            date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            versions=facts,
            samples=tuple(self.samples),
            ended=self.ended,
            note=self.work.note,
            spec=self.work.spec,
        )


def measure(work: WorkList, opener: Opener, tell: Tell = log.info) -> Recording:
    """Do a work list.

    Raises
    ------
    DriverFault
        The device is missing, busy or fails before anything was measured.

    Examples
    --------
    >>> from ..drivers.host import HostDriver
    >>> asked = (Request("host:chase uint8[4096]", 3),)
    >>> kept = measure(WorkList("host", asked, starts=2, most_starts=2, blocks=3, busy=99.0), HostDriver)
    >>> sorted({s.start for s in kept.samples})
    [0, 1]
    """
    for request in work.requests:
        if touched(request) > work.bytes:
            raise DriverFault(
                "unsupported",
                f"{request.signature}: a batch of {request.n} touches {touched(request):.3g} B, "
                f"{work.bytes:.3g} B are allowed; ask for fewer repeats",
            )
    return Measurement(work, opener, tell).run()


@contextmanager
def opened(opener: Opener, work: WorkList) -> Iterator[Driver]:
    """A driver that works, on a device that is idle; closed whatever happens."""
    driver = opener()
    try:
        state = driver.probe()
        if isinstance(state, Missing):
            raise state.fault()
        used = conditions.used_by_others()
        if used > work.busy:
            raise DriverFault(
                "busy",
                f"{work.driver}: others use {used:.1f} cores of this machine, {work.busy:g} are "
                "allowed; wait until they end, or allow it ('--busy')",
            )
        driver.open(work.spec)
        yield driver
    finally:
        driver.close()
