"""Join recordings of several sessions: ``calibration.record.join_recordings OUT FILE…``.

Process starts in which some op is missing are left out, so that the result is complete. Of
``FILE:warm`` only the warm ops are used, since its contexts differ.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from foretrace.hil.recording import Recording, read
from foretrace.hil.sample import WARM, Sample
from foretrace.sim.errors import RecordingError


def complete_starts(recording: Recording) -> Recording:
    """Recording without process starts that were interrupted."""
    every = {s.key for s in recording.samples}
    starts = {s.start for s in recording.samples}
    full = {n for n in starts if {s.key for s in recording.samples if s.start == n} == every}
    kept = tuple(s for s in recording.samples if s.start in full)
    return replace(recording, samples=kept, ended="")


def read_recording(name: str) -> Recording:
    """Complete starts of the recording at `PATH`; with `PATH:warm`, only its warm ops."""
    path, _, only = name.partition(":")
    recording = read(Path(path))
    kept = tuple(s for s in recording.samples if not only or s.context == WARM)
    return complete_starts(replace(recording, samples=kept))


def merge_recordings(recordings: Sequence[Recording]) -> Recording:
    """Join the samples of several recordings of one driver and device; starts are renumbered.

    Raises
    ------
    RecordingError
        The drivers or devices differ.
    """
    first = recordings[0]
    samples: list[Sample] = []
    for other in recordings:
        if (other.driver, other.device) != (first.driver, first.device):
            raise RecordingError(
                f"a recording of {other.driver} {other.device} is not one of "
                f"{first.driver} {first.device}; keep them apart"
            )
        begin = 1 + max((s.start for s in samples), default=-1)
        samples += [Sample(**{**vars(s), "start": begin + s.start}) for s in other.samples]
    failed = tuple(row for other in recordings for row in other.failed)
    return Recording(**{**vars(first), "samples": tuple(samples), "failed": failed})


def main() -> None:
    out = Path(sys.argv[1])
    joined = merge_recordings([read_recording(name) for name in sys.argv[2:]])
    joined.write(out)
    starts = len({s.start for s in joined.samples})
    print(f"{out}: {len(joined.samples)} samples of {starts} starts, {out.stat().st_size} B")


if __name__ == "__main__":
    main()
