"""The bundled recordings of an H100 are complete, plausible and replayed as measured."""

import pytest
from foretrace.hil.bundled_recordings import bundled_names, recording_path
from foretrace.hil.drivers.recording_driver import RecordingDriver
from foretrace.hil.recording import read
from foretrace.hil.sample import Request
from foretrace.models.compute.demand import demand
from foretrace.sim.facts.signature import parse_signature

NAMES = [name for name in bundled_names() if name.endswith("-h100")]
PEAK, BANDWIDTH = {"bf16": 989.4e12, "fp16": 989.4e12, "tf32": 494.7e12, "fp8": 1978.9e12}, 3.35e12


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


def test_nine_lists_were_recorded():
    assert len(NAMES) == 9


def test_a_recording_is_whole_and_of_an_h100(name):
    recording = read(recording_path(f"foretrace:{name}"))
    assert (recording.driver, recording.device) == ("torch", "NVIDIA H100 80GB HBM3")
    assert (recording.ended, recording.failed) == ("", ())
    assert {s.clock for s in recording.samples} == {"device"}
    assert {s.facts.get("ahead", 1) for s in recording.samples} == {1}
    assert not any(s.flags for s in recording.samples)
    assert recording.versions["gpu_most_watts"] == "700.0"
    assert recording.versions["kernel"] == "6.18.44"


def test_a_recording_returns_the_median_of_each_op(name):
    file = recording_path(f"foretrace:{name}")
    samples = read(file).samples
    driver = RecordingDriver()
    driver.open({"file": str(file), "answer": "median", "driver": "torch"})
    asked = [Request(*key) for key in dict.fromkeys((s.signature, 1, s.context) for s in samples)]
    answers = driver.timing(asked)
    driver.close()
    for request, answer in zip(asked, answers, strict=True):
        own = [s.median for s in samples if s.key == request.key]
        assert min(own) <= answer.median <= max(own)


def test_no_gemm_is_quicker_than_the_datasheet_allows(name):
    seen = 0
    for sample in read(recording_path(f"foretrace:{name}")).samples:
        parts = parse_signature(sample.signature)
        if parts.op in ("aten::mm", "aten::_scaled_mm") and parts.dtype in PEAK:
            seen += 1
            assert demand(sample.signature).flop <= PEAK[parts.dtype] * sample.median * 1e-9
    assert seen or name.split("-")[1] in ("attention", "layers", "rows", "copies", "images")
