"""Backend that times the ops of a component by looking them up in a recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..sim.facts.backend import Backend, Timing, backend
from ..sim.facts.ops import Ops
from ..sim.facts.system import System
from .bundled_recordings import recording_path
from .coupling.op_path import op_signature
from .drivers.recording_driver import ANSWERS, MEDIAN, RecordingDriver
from .recording import read
from .sample import Request

NANOSECOND = 1e-9


@backend("recording")
class RecordingBackend(Backend):
    """Backend that returns recorded op timings; an op that was not recorded is refused.

    Parameters
    ----------
    file : str
        Path of a recording, or ``foretrace:NAME`` for a bundled one.
    answer : str
        Which of an op's samples is returned. ``median``: their median. ``sequence``: one after the
        other, in recorded order. ``draw``: a random one.
    """

    def __init__(self, *, file: str, answer: str = MEDIAN):
        if answer not in ANSWERS:
            raise ValueError(f"answer is {answer!r}; it is one of {', '.join(ANSWERS)}")
        self.file, self.mode = file, answer
        self.source = f"recording:{Path(file).name}"
        self._driver: RecordingDriver | None = None

    def open(self, system: System) -> None:
        """Read the recording and start at its first sample."""
        kept = read(recording_path(self.file))
        self.source = f"recorded on {kept.date[:10]}: {kept.driver} {kept.device} on {kept.host}"
        self._driver = RecordingDriver.of(kept, self.mode)

    def knows(self, ops: Ops) -> NDArray[np.bool_]:
        """(n,) True where the op was recorded."""
        driver = self._opened
        return np.array([driver.answers(op_signature(ops, i)) for i in range(len(ops))], bool)

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        """Recorded time of each op, in s; equal ops are looked up one by one."""
        requests = [Request(op_signature(ops, i)) for i in range(len(ops))]
        samples = self._opened.timing(requests)
        return Timing.of(np.array([s.ns[-1] for s in samples]) * NANOSECOND)

    @property
    def _opened(self) -> RecordingDriver:
        if self._driver is None:
            raise ValueError(f"{self.source}: used before it was opened")
        return self._driver
