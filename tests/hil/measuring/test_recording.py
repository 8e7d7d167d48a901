"""Recordings: read as written, refused when damaged or foreign, and what they answer."""

import gzip
import json

import numpy as np
import pytest
from foretrace.hil import recording as form
from foretrace.hil.drivers.recording_driver import RecordingDriver
from foretrace.hil.recording import Recording, read
from foretrace.hil.sample import Request, Sample
from foretrace.sim.errors import RecordingError

COPY = "copy:h2h uint8[4096]"


def sample(ns=(30.0, 10.0, 20.0), **rest):
    return Sample(COPY, np.array(ns), rest.pop("clock", "cpu"), **rest)


def recording(*samples, **rest):
    told = {"driver": "host", "device": "core0", "host": "box", "date": "2026-01-31T12:00:00Z"}
    return Recording(
        **{**told, "versions": {"numpy": "2"}, "samples": samples or (sample(),), **rest}
    )


@pytest.fixture
def kept(tmp_path):
    path = tmp_path / "one.rec.gz"
    recording(sample(flags=("throttled",), facts={"load": 0.5}), sample(start=1)).write(path)
    return path


def test_a_recording_survives_writing_and_reading(kept):
    found = read(kept)
    assert [s.flags for s in found.samples] == [("throttled",), ()]
    assert [s.start for s in found.samples] == [0, 1]
    assert found.samples[0].facts == {"load": 0.5}
    assert found.versions == {"numpy": "2"}
    assert found.source == "recording:host core0 on box, 2026-01-31, cpu clock"


def test_the_same_samples_are_the_same_bytes(kept, tmp_path):
    read(kept).write(tmp_path / "two.rec.gz")
    assert (tmp_path / "two.rec.gz").read_bytes() == kept.read_bytes()


def test_a_partial_recording_says_so(tmp_path):
    recording(ended="died: the agent ended").write(tmp_path / "x.rec.gz")
    assert read(tmp_path / "x.rec.gz").source.endswith("partial: died: the agent ended")


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_a_truncated_recording_is_refused(kept, keep):
    kept.write_bytes(kept.read_bytes()[:keep])
    with pytest.raises(RecordingError, match=r"is truncated or not a recording|is not a recording"):
        read(kept)


def rewritten(path, change):
    """The file with its unpacked lines changed, its packing whole."""
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))


def test_a_recording_that_was_changed_is_refused(kept):
    rewritten(kept, lambda data: data.replace(b"30.0", b"29.0"))
    with pytest.raises(RecordingError, match="its checksum does not fit its lines"):
        read(kept)


def test_a_recording_that_lost_a_line_is_refused(kept):
    rewritten(kept, lambda data: data[: data[:-1].rindex(b"\n") + 1])
    with pytest.raises(RecordingError, match="checksum"):
        read(kept)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda head: {**head, "form": "other"}, "is not a recording of foretrace"),
        (lambda head: {**head, "schema": 99}, "has schema 99, this version reads 1"),
        (lambda head: {**head, "extra": 1}, "is damaged"),
        (lambda head: [head], "is not a recording of foretrace"),
    ],
)
def test_a_foreign_recording_is_refused(kept, change, text):
    def other(data):
        head, _, body = data.partition(b"\n")
        return json.dumps(change(json.loads(head))).encode() + b"\n" + body

    rewritten(kept, other)
    with pytest.raises(RecordingError, match=text):
        read(kept)


@pytest.mark.parametrize("bad", [{"clock": "sundial"}, {"metric": "charm"}, {"ns": [-1.0]}])
def test_a_recording_of_impossible_samples_is_refused(tmp_path, bad):
    ns = bad.pop("ns", [1.0])
    recording(Sample(COPY, np.array(ns), bad.pop("clock", "cpu"), **bad)).write(tmp_path / "x")
    with pytest.raises(RecordingError, match="is damaged"):
        read(tmp_path / "x")


def test_a_file_that_is_not_there_or_huge_is_refused(tmp_path, monkeypatch, kept):
    with pytest.raises(RecordingError, match="does not exist; record it first"):
        read(tmp_path / "none.rec.gz")
    monkeypatch.setattr(form, "LARGEST", 10)
    with pytest.raises(RecordingError, match="this is not a recording"):
        read(kept)


def answers(how, n=3, **rest):
    remembers = RecordingDriver.of(recording(sample(), sample((40.0,), start=1)), how, **rest)
    return remembers.timing([Request(COPY, n)])[0].ns.tolist()


def test_the_median_uses_only_unflagged_samples():
    assert answers("median", 2) == [25.0, 25.0]
    hot = recording(sample(), sample((9e9,), flags=("throttled",)))
    assert RecordingDriver.of(hot).timing([Request(COPY)])[0].ns.tolist() == [20.0]


def test_a_sequence_returns_each_sample_once_in_recorded_order():
    remembers = RecordingDriver.of(recording(), "sequence")
    assert remembers.timing([Request(COPY, 2)])[0].ns.tolist() == [30.0, 10.0]
    assert remembers.timing([Request(COPY)])[0].ns.tolist() == [20.0]
    with pytest.raises(RecordingError, match="was recorded 3 times and is requested more often"):
        remembers.timing([Request(COPY)])


def test_random_draws_depend_only_on_the_seed():
    assert answers("draw", 20, seed=4) == answers("draw", 20, seed=4)
    assert answers("draw", 20, seed=4) != answers("draw", 20, seed=5)
    assert set(answers("draw", 50)) <= {10.0, 20.0, 30.0, 40.0}


def test_an_op_missing_in_the_recording_is_refused():
    remembers = RecordingDriver.of(recording())
    with pytest.raises(RecordingError, match=r"has not seen 'copy:h2h uint8.64.' .warm.; record"):
        remembers.timing([Request("copy:h2h uint8[64]")])
    with pytest.raises(RecordingError, match=r"\(cold\)"):
        remembers.timing([Request(COPY, 1, "cold")])
    assert remembers.answers(COPY)
    assert not remembers.answers("copy:h2h uint8[64]")


def test_an_unknown_answer_mode_is_refused():
    with pytest.raises(RecordingError, match="answer is 'mean'; it is one of sequence, median"):
        RecordingDriver.of(recording(), "mean")


def test_a_recording_of_another_device_is_refused(kept):
    opened = RecordingDriver()
    opened.open({"file": str(kept), "device": "core0"})
    assert opened.describe()["source"].startswith("recording:host core0")
    with pytest.raises(RecordingError, match="was recorded with device 'core0', not 'core7'"):
        opened.open({"file": str(kept), "device": "core7"})
