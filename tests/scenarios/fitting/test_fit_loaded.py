"""Fit of memory under load: constants that are known come back, and only its own ops are taken."""

import json
from dataclasses import asdict
from itertools import product

import numpy as np
import pytest
from foretrace.hil.recording import Recording
from foretrace.hil.sample import Sample
from foretrace.models.memory.loaded import LoadedMemory
from foretrace.scenarios.studies.fitting.loaded_memory import LOADED_MEMORY, load_op
from foretrace.scenarios.studies.fitting.recording_rows import measured_rows
from foretrace.sim.errors import ScenarioError

TRUE = LoadedMemory(latency=1.1e-7, read=2e11, write=1.4e11, in_flight=1400, queueing=9e-9)
THREADS, READS, SIZE = (1, 2, 4, 8, 12, 16, 24, 32), (0, 50, 75, 100), 64 << 20
KNOWN = {"latency": 9e-8, "bandwidth": 3e11}
ALL = ("latency", "read", "write", "in_flight", "queueing", "turnaround", "sharpness")


@pytest.fixture
def recorded(tmp_path):
    """Writes a made-up recording of a memory, with 2 % of noise."""

    def write(memory=TRUE, noise=0.02):
        random, samples = np.random.default_rng(5), []
        for threads, reads in product(THREADS, READS):
            drawn = float(memory.bandwidth(threads, reads / 100))
            told = {"stream": threads * SIZE / drawn,
                    "under-load": float(memory.latency_at(drawn, reads / 100))}  # fmt: skip
            for name, seconds in told.items():
                text = f"host:memory-{name} threads={threads} reads={reads} uint8[{SIZE}]"
                ns = 1e9 * seconds * (1 + noise * random.standard_normal(9))
                samples.append(Sample(text, ns, "wall"))
        kept = Recording("memory", "node0", "box", "2026-01-31T12:00:00Z", {}, tuple(samples))
        kept.write(tmp_path / "memory.rec.gz")
        return str(tmp_path / "memory.rec.gz")

    return write


@pytest.mark.nightly
def test_known_constants_come_back_and_combinations_that_no_fit_saw(recorded):
    found, still = LOADED_MEMORY.fit(measured_rows([recorded()]), KNOWN, (), "shapes")
    assert found.kept == ()
    assert still == {"turnaround": 0.0, "sharpness": 0.0}
    for name, value in found.values.items():
        bar = 0.10 if name == "queueing" else 0.02  # it shows in few combinations
        assert value == pytest.approx(getattr(TRUE, name), rel=bar), name
    assert found.held.median < 0.02


@pytest.mark.nightly
def test_a_bus_that_turns_around_and_a_sharp_bend_are_told(recorded):
    sharp = LoadedMemory(**{**asdict(TRUE), "turnaround": 0.15, "sharpness": 0.5})
    found, _ = LOADED_MEMORY.fit(measured_rows([recorded(sharp, 0.002)]), KNOWN, ALL, "shapes")
    assert found.values["turnaround"] == pytest.approx(0.15, rel=0.05)
    assert found.values["sharpness"] == pytest.approx(0.5, rel=0.2)
    assert found.held.median < 0.005


def test_what_is_not_known_before_is_asked_for(recorded):
    with pytest.raises(ScenarioError, match=r"bandwidth is unknown; .* --know bandwidth="):
        LOADED_MEMORY.fit(measured_rows([recorded()]), {"latency": 1e-7}, (), "shapes")


def test_other_ops_are_refused_by_name():
    with pytest.raises(ScenarioError, match=r"'copy:h2h .*' is neither host:memory-stream nor"):
        load_op("copy:h2h uint8[4096]")


def test_the_command_writes_what_the_model_takes_with_interval_and_source(recorded, cli, tmp_path):
    out = tmp_path / "memory.json"
    code, told, error = cli("fit", "loaded", "--recording", recorded(), "--holdout", "shapes",
                            "--know", "latency=90 ns", "--know", "bandwidth=300 GB/s",
                        "--out", out)  # fmt: skip
    assert (code, error) == (0, "")
    assert "held out" in told
    file = json.loads(out.read_text())
    fitted = LoadedMemory(**file["parameters"])
    assert float(fitted.bandwidth(16, 1.0)) == pytest.approx(
        float(TRUE.bandwidth(16, 1.0)), rel=0.02
    )
    low, high = file["intervals"]["latency"]
    assert low <= fitted.latency <= high
    assert "fit loaded" in file["source"]
