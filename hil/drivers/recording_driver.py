"""Driver ``recorded``: replays the samples of a recording."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...sim.errors import RecordingError
from ..bundled_recordings import recording_path
from ..driver import Driver, Missing, Ready, Sharing, Spec, checked, driver
from ..recording import Recording, read
from ..sample import Request, Sample

SEQUENCE, MEDIAN, DRAW = "sequence", "median", "draw"
ANSWERS = (SEQUENCE, MEDIAN, DRAW)
SETTINGS = {"file": "", "answer": MEDIAN, "seed": 0, "driver": "", "device": ""}


@driver("recorded")
class RecordingDriver(Driver):
    """Driver that replays recorded samples; an op that was not recorded raises RecordingError.

    Settings: ``file`` (a path, or ``foretrace:NAME`` of a bundled recording), ``answer``
    (``median``; ``sequence``: the repeats in recorded order, an error once they are used up;
    ``draw``: a random repeat, by ``seed``), and ``driver`` and ``device`` if the recording must be
    of these.

    Examples
    --------
    >>> samples = (Sample("copy:h2h uint8[64]", np.array([30.0, 10.0, 20.0]), "wall"),)
    >>> kept = Recording("host", "cpu0", "box", "2026-01-31T12:00:00Z", {}, samples)
    >>> remembers = RecordingDriver.of(kept)
    >>> [s.ns.tolist() for s in remembers.timing([Request("copy:h2h uint8[64]", n=2)])]
    [[20.0, 20.0]]
    >>> in_order = RecordingDriver.of(kept, answer="sequence")
    >>> in_order.timing([Request("copy:h2h uint8[64]", n=2)])[0].ns
    array([30., 10.])
    >>> remembers.timing([Request("copy:h2h uint8[65]")])
    Traceback (most recent call last):
    foretrace.sim.errors.RecordingError: host cpu0 on box, 2026-01-31: has not seen ...
    """

    recording: Recording
    sharing: Sharing = "solo"

    @classmethod
    def of(cls, recording: Recording, answer: str = MEDIAN, seed: int = 0) -> RecordingDriver:
        """Driver that replays a recording that is already in memory."""
        self = cls()
        self._use_recording(recording, answer, seed)
        return self

    def probe(self) -> Ready | Missing:
        """Always ready, because only the file named in ``open`` is needed."""
        return Ready()

    def open(self, spec: Spec) -> None:
        """Read the recording and check its driver and device against the settings."""
        settings = checked(spec, SETTINGS)
        recording = read(recording_path(settings["file"]))
        for name in ("driver", "device"):
            if settings[name] not in ("", getattr(recording, name)):
                raise RecordingError(
                    f"{settings['file']}: was recorded with {name} {getattr(recording, name)!r}, "
                    f"not {settings[name]!r}; give another recording, or change {name}"
                )
        self._use_recording(recording, settings["answer"], settings["seed"])

    def describe(self) -> dict[str, str]:
        """Provenance of the recording: driver, device, host, date, versions."""
        r = self.recording
        head = {"driver": r.driver, "device": r.device, "host": r.host, "date": r.date}
        return {**head, **r.versions, "source": r.source}

    def answers(self, signature: str) -> bool:
        """True if the recording contains this op."""
        return any(signature == known for known, _ in self._samples)

    def _use_recording(self, recording: Recording, answer: str, seed: int) -> None:
        if answer not in ANSWERS:
            raise RecordingError(f"answer is {answer!r}; it is one of {', '.join(ANSWERS)}")
        self.recording, self._mode = recording, answer
        self._random = np.random.default_rng(seed)
        self._used: dict[tuple[str, str], int] = {}
        self._samples: dict[tuple[str, str], list[Sample]] = {}
        for sample in recording.samples:
            self._samples.setdefault(sample.key, []).append(sample)
        first = recording.samples[0] if recording.samples else None
        self.clock = first.clock if first else "wall"
        self.metric = first.metric if first else "completion"

    def time_op(self, request: Request) -> Sample:
        """Recorded sample of an op."""
        batches = self._samples.get(request.key)
        if not batches:
            self._refuse_failed(request)
            raise RecordingError(
                f"{self._driver_name}: has not seen {request.signature!r} ({request.key[1]}); "
                "record it, or bind a model"
            )
        batches = [b for b in batches if b.good] or batches
        ns = self._select_times(np.concatenate([b.ns for b in batches]), request)
        return replace(batches[0], ns=ns, facts={"repeats": sum(len(b.ns) for b in batches)})

    def _refuse_failed(self, request: Request) -> None:
        """Raise RecordingError for an op that failed when it was to be recorded."""
        for row in self.recording.failed:
            if (row.signature, row.context) == request.key:
                raise RecordingError(
                    f"{self._driver_name}: {request.signature!r} ({row.context}) failed when it "
                    f"was recorded ({row.fault}); record it again, or bind a model"
                )

    def _select_times(self, ns: NDArray[np.float64], request: Request) -> NDArray[np.float64]:
        if self._mode == MEDIAN:
            return np.full(request.n, np.median(ns))
        if self._mode == DRAW:
            return self._random.choice(ns, request.n)
        begin = self._used.get(request.key, 0)
        if begin + request.n > len(ns):
            raise RecordingError(
                f"{self._driver_name}: {request.signature!r} was recorded {len(ns)} times and "
                "is requested more often; record more repeats, or set answer: draw or median"
            )
        self._used[request.key] = begin + request.n
        return ns[begin : begin + request.n]

    @property
    def _driver_name(self) -> str:
        r = self.recording
        return f"{r.driver} {r.device} on {r.host}, {r.date[:10]}"
