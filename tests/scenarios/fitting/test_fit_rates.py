"""Fit of message rates: constants that are known come back, streams are never pooled with ops."""

import json
from itertools import product

import numpy as np
import pytest
from foretrace.hil.bundled_recordings import recording_path
from foretrace.hil.recording import Recording, read
from foretrace.hil.sample import Sample
from foretrace.models.network.part.message_rate import MessageRate
from foretrace.scenarios.studies.fitting.rates import (
    MESSAGE_RATES,
    require_no_streams,
    stream_numbers,
)
from foretrace.scenarios.studies.fitting.recording_rows import measured_rows
from foretrace.sim.errors import ScenarioError

TRUE = MessageRate(latency=2.3e-6, bandwidth=24e9, service=2e-8, pair=7e-8)
SIZES, DEPTHS, PAIRS = (8, 512, 65536), (1, 2, 4, 16, 64, 128), (1, 2, 3, 4, 8, 16)
KNOWN = {"bandwidth": 20e9, "latency": 5e-7, "overhead": 5e-8}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Writes a made-up recording of streams, or of what else is asked for."""
    folder = tmp_path_factory.mktemp("kept")

    def write(name, metric="message_rate", attributes="depth={} qps={} "):
        random = np.random.default_rng(3)
        samples = []
        for size, depth, pairs in product(SIZES, DEPTHS, PAIRS):
            took = 1e9 * float(TRUE.seconds(size, depth, pairs))
            text = f"send:rdma-write {attributes.format(depth, pairs)}uint8[{size}]"
            samples += [
                Sample(text, took * (1 + 0.02 * random.standard_normal(5)), "wall", metric)
            ]  # fmt: skip
        kept = Recording(
            "verbs", "mlx5_0-mlx5_1", "box", "2026-01-31T12:00:00Z", {}, tuple(samples)
        )
        kept.write(folder / name)
        return str(folder / name)

    return write


@pytest.mark.nightly
def test_known_constants_come_back_from_depths_that_were_not_held_out(recorded):
    data = measured_rows([recorded("rates.rec.gz")])
    found, _ = MESSAGE_RATES.fit(data, KNOWN, (), "depths")
    assert found.kept == ()
    for name, value in found.values.items():
        assert value == pytest.approx(getattr(TRUE, name), rel=0.02), name
    assert found.held.median < 0.02
    assert found.blind.median > 0.1


@pytest.mark.nightly
def test_combinations_that_no_fit_saw_are_foretold_on_real_queue_pairs():
    """108 of size, depth and queue pairs on soft-RoCE over a port of 10 Gb/s; none failed."""
    kept = read(recording_path("foretrace:rates-10gbit"))
    assert (len({s.signature for s in kept.samples}), kept.failed, kept.ended) == (108, (), "")
    data = measured_rows(["foretrace:rates-10gbit"])
    frame = {"bandwidth": 1.25e9, "mtu": 4096.0, "header": 58.0}
    found, still = MESSAGE_RATES.fit(data, frame, (), "shapes")
    aside, once = data.rows("shapes").held_out_masks()
    unseen = aside | once
    model = MESSAGE_RATES.model(still)(found.values, data.ops)
    error = np.abs(model / data.seconds - 1)
    large = data.ops.bytes >= 4096
    assert np.median(error[unseen & large]) < 0.01
    assert error[unseen & large].max() < 0.10
    assert np.median(error[unseen & ~large]) < 0.05
    streams = np.array([*map(stream_numbers, data.texts)])
    wire = MessageRate(latency=0.0, **frame).seconds(*streams.T)
    assert np.all(wire <= data.seconds * 1.002)  # what nothing was fitted for bounds every one


def test_one_constant_of_one_combination_tells_the_107_others():
    """Blind: packet formats, the port's rate, and its delay there and back. The constant is what
    64 B alone took more; no other combination was seen."""
    data = measured_rows(["foretrace:rates-10gbit"])
    size, depth, pairs = np.array([stream_numbers(t) for t in data.texts]).T
    seen = (size == 64) & (depth == 1) & (pairs == 1)

    def error(constant):
        latency = 2 * 1e-6 + (16 + 62) / 1.25e9 + constant  # of a port; what writes bring along
        path = MessageRate(latency=latency, bandwidth=1.25e9, mtu=4096, header=58)
        return path.seconds(size, depth, pairs) / data.seconds - 1

    blind = error(0.0)
    assert np.all(blind < 1e-4)  # bounds
    constant = -float(np.median((blind * data.seconds)[seen]))
    assert 1.5e-6 < constant < 1.7e-6
    told, large = np.abs(error(constant))[~seen], (size >= 4096)[~seen]
    assert np.median(np.abs(blind[~seen][large])) < 0.01
    assert np.median(told[large]) < 0.01
    assert told[large].max() < 0.05
    assert np.median(told[~large]) > 0.2  # told: a stream of small messages waits for the NIC


def test_depths_are_held_out_as_drivers_write_them(recorded):
    rows = measured_rows([recorded("rates.rec.gz")]).rows("depths")
    assert len(set(rows.groups)) == len(DEPTHS) * len(PAIRS)
    assert "depth=64 qps=8" in rows.groups


@pytest.mark.parametrize(
    ("metric", "attributes", "why"),
    [
        ("message_rate", "", "has message_rate, which depends on the number of outst"),
        ("completion", "depth={} qps={} ", "has several concurrent messages"),
        ("completion", "flows={} ", "has several concurrent messages"),
    ],
)
def test_the_fit_of_a_nic_does_not_pool_streams_with_single_messages(
    recorded, metric, attributes, why
):
    data = measured_rows([recorded("other.rec.gz", metric, attributes)])
    with pytest.raises(ScenarioError, match=f"^fit nic: .*{why}"):
        require_no_streams("nic", data)


def test_rates_are_not_fitted_to_completions(recorded):
    data = measured_rows([recorded("alone.rec.gz", "completion", "")])
    with pytest.raises(ScenarioError, match="has completion; record with metric message_rate"):
        MESSAGE_RATES.fit(data, KNOWN, (), "shapes")


def test_the_command_writes_what_the_model_takes(recorded, cli, tmp_path):
    out = tmp_path / "rates.json"
    code, told, error = cli(
        "fit", "rates", "--recording", recorded("rates.rec.gz"), "--holdout", "depths",
        "--know", "bandwidth=20 GB/s", "--out", out,
    )  # fmt: skip
    assert (code, error) == (0, "")
    assert "groups of depths fitted," in told
    fitted = MessageRate(**json.loads(out.read_text())["parameters"])
    assert float(fitted.seconds(64, 128, 8)) == pytest.approx(TRUE.service, rel=0.02)
