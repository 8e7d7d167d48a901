"""Recordings of several sittings, joined."""

import numpy as np
import pytest
from foretrace.calibration.record.join_recordings import merge_recordings
from foretrace.hil.recording import Recording
from foretrace.hil.sample import Sample
from foretrace.sim.errors import RecordingError

COPY = "copy:h2h uint8[4096]"


def recording(*starts, device="core0"):
    samples = tuple(Sample(COPY, np.array([1.0]), "cpu", start=start) for start in starts)
    return Recording(driver="host", device=device, host="box", date="2026-01-31T12:00:00Z",
                     versions={"numpy": "2"}, samples=samples)  # fmt: skip


def test_recordings_of_one_device_are_joined_with_starts_of_their_own():
    joined = merge_recordings([recording(0, 1), recording(0)])
    assert [s.start for s in joined.samples] == [0, 1, 2]


def test_a_recording_of_another_device_is_refused():
    with pytest.raises(RecordingError, match="is not one of host core0"):
        merge_recordings([recording(0), recording(0, device="core1")])
