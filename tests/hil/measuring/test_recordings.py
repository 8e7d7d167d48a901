"""The bundled recordings: whole, from several starts, and what they say of this machine."""

import numpy as np
import pytest
from foretrace.hil.bundled_recordings import bundled_names, recording_path
from foretrace.hil.drivers.recording_driver import RecordingDriver
from foretrace.hil.measuring.spread import difference_between_starts, samples_by_key, start_medians
from foretrace.hil.recording import read
from foretrace.hil.sample import WARM, Request
from foretrace.models.compute.roofline import Roofline
from foretrace.scenarios.config.catalog import installed
from foretrace.scenarios.config.reading.tree import to_dict
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.signature import parse_signature
from foretrace.sim.setting_groups import construct_with_groups, flatten_settings, unflatten_settings
from foretrace.sim.units import quantity

LISTS = (
    "host-epyc",
    "host-sizes-epyc",
    "torch-gpt-epyc",
    "torch-resnet50-epyc",
    "torch-shapes-epyc",
)
SMALL = 1 << 20  # bytes of all of them together


@pytest.fixture(params=LISTS)
def recording(request):
    return read(recording_path(f"foretrace:{request.param}"))


def medians(recording, warm=True):
    """ns of each op, warm or after what precedes it."""
    found = samples_by_key(recording.samples)
    chosen = {k: s for k, s in found.items() if (k[1] == WARM) == warm}
    return {signature: float(np.median(start_medians(s))) for (signature, _), s in chosen.items()}


def test_every_bundled_recording_can_be_read_and_they_are_small():
    assert set(LISTS) <= set(bundled_names())
    files = [recording_path(f"foretrace:{n}") for n in bundled_names()]
    assert all(read(f).samples for f in files)
    assert sum(f.stat().st_size for f in files) < SMALL


def test_a_recording_says_what_was_measured_where_and_how_often(recording):
    assert recording.source.startswith(f"recording:{recording.driver} AMD EPYC core")
    assert "cpu clock" in recording.source
    assert recording.ended == ""
    assert len({s.start for s in recording.samples}) >= 2
    assert {"kernel", "cpu", "python"} <= set(recording.versions)


def test_a_recording_times_every_op_it_contains(recording):
    remembers = RecordingDriver.of(recording)
    asked = [Request(s) for s in medians(recording)]
    assert all(s.ns[0] > 0 for s in remembers.timing(asked))


def test_recorded_memory_latency_grows_with_the_cache_level():
    host = medians(read(recording_path("foretrace:host-epyc")))
    chase = [host[f"host:chase uint8[{1 << i}]"] for i in (12, 17, 20, 26)]
    assert chase == sorted(chase)
    assert chase[0] < 2 < chase[1] < 10 < 100 < chase[-1] < 300  # ns in L1, L2, L3, DRAM


def test_the_two_halves_of_starts_agree_within_the_required_precision():
    host = difference_between_starts(read(recording_path("foretrace:host-epyc")).samples)
    apart = np.array(list(host.values()))
    assert np.median(apart) < 0.10


@pytest.mark.parametrize("name", ["gpt", "resnet50"])
def test_in_context_op_times_add_up_to_a_real_step_and_warm_ones_do_not(name):
    recording = read(recording_path(f"foretrace:torch-{name}-epyc"))
    warm, place = medians(recording), medians(recording, warm=False)
    graph, step = recording.spec["graphs"][name], warm[f"compute:step {name}"]
    alone = sum(warm[s] for s in graph)
    in_place = sum(place.get(s, warm[s]) for s in graph)
    assert alone < 0.97 * step
    assert in_place == pytest.approx(step, rel=0.05)
    assert warm[f"compute:graph {name}"] == pytest.approx(step, rel=0.05)


UNITS = {
    "peaks.fp32": "flop/s",
    "bandwidth": "B/s",
    "cache.size": "B",
    "cache.bandwidth": "B/s",
    "launch": "s",
}


def errors_of_the_catalog(names, measured):
    """Predicted over measured products, less one: nothing of these recordings was fitted."""
    told = flatten_settings(to_dict(installed(()).entry("gpu", "epyc-zen4-core")))
    core = construct_with_groups(
        Roofline, unflatten_settings({k: quantity(told[k], u) for k, u in UNITS.items()})
    )
    shapes = [[o.shape for o in parse_signature(n).operands[-2:]] for n in names]
    flop = [2.0 * m * k * n for (m, k), (_, n) in shapes]
    moved = [4.0 * (m * k + k * n + m * n) for (m, k), (_, n) in shapes]
    ops = Ops.of(kind=int(Kind.COMPUTE), flop=flop, bytes=moved, duration=0.0,
                 signature=np.arange(len(names)), signatures=tuple(names))  # fmt: skip
    return core.timing(ops).fixed / (np.array([measured[n] for n in names]) * 1e-9) - 1


def test_the_catalogs_core_predicts_products_of_another_sitting():
    measured = medians(read(recording_path("foretrace:torch-gpt-epyc")))
    products = [n for n in measured if n.split()[0] in ("compute:aten::mm", "compute:aten::addmm")]
    assert len(products) > 20
    errors = np.abs(errors_of_the_catalog(products, measured))
    assert np.median(errors) < 0.05
    assert errors.mean() < 0.08


def test_gemms_of_eight_rows_do_not_follow_a_roofline():
    measured = medians(read(recording_path("foretrace:torch-resnet50-epyc")))
    thin = [n for n in measured if n.split()[0] in ("compute:aten::mm", "compute:aten::addmm")]
    assert errors_of_the_catalog(thin, measured).max() < -0.5  # they are slower than it says
