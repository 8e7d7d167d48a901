"""Fits of every kind on made-up devices: constants come back, and so do the times in a run.

What each op takes is written out here, from the page of the part, and not asked of a model.
"""

import json
from collections.abc import Mapping

import numpy as np
import pytest
from by_day import every
from foretrace.hil.recording import Recording
from foretrace.hil.sample import Sample
from foretrace.scenarios.cli.app import app
from foretrace.scenarios.config.catalog import installed
from foretrace.scenarios.studies.fitting.round_trip import RoundTrip
from foretrace.sim.errors import ScenarioError
from foretrace.sim.setting_groups import flatten_settings
from foretrace.sim.units import quantity
from typer.testing import CliRunner

NOISE = 0.02
STARTS, REPEATS = 6, 15
SIZES = [round(64 * 2 ** (k / 2)) for k in range(44)]  # 64 B to 200 MiB
UNITS = {"bandwidth": "B/s", "latency": "s", "overhead": "s", "launch": "s", "step": "s"}


def kept(path, texts: Mapping[str, float], spec=None):
    """A recording of ops that take so many seconds, with noise."""
    random = np.random.default_rng(7)
    samples = tuple(
        Sample(text, 1e9 * seconds * random.normal(1, NOISE, REPEATS), "wall", start=start)
        for start in range(STARTS)
        for text, seconds in texts.items()
    )
    made = Recording("made-up", "d0", "box", "2026-01-31T12:00:00Z", {}, samples, spec=spec or {})
    made.write(path)
    return path


def plain(node):
    """Values of an entry of the catalog, groups as mappings."""
    if isinstance(node.value, dict):
        return {key: plain(below) for key, below in node.value.items()}
    return node.value


def fit(tmp_path, kind, texts, *words, spec=None):
    """The report of a fit, and its entry's parameters in SI."""
    file, out = kept(tmp_path / "made-up.rec.gz", texts, spec), tmp_path / "mine" / "part.yaml"
    out.parent.mkdir(exist_ok=True)
    told = CliRunner().invoke(
        app, ["fit", kind, "--recording", str(file), "--name", "mine", "-o", str(out), "--json",
              *map(str, words)]
    )  # fmt: skip
    if told.exception and not isinstance(told.exception, SystemExit):
        raise told.exception
    assert told.exit_code == 0, told.output
    entry = installed([str(out.parent)]).entry(kind, "mine")
    values = {
        name: float(quantity(str(value), UNITS[name.split(".")[-1]]))
        for name, value in flatten_settings(plain(entry)).items()
        if name.split(".")[-1] in UNITS
    }
    return json.loads(told.stdout), values


def answers_are_within_a_percent(report, texts):
    """Of a run with the entry, against the constants, which are without noise."""
    rows = report["round_trip"]["ops"]
    assert {row["signature"] for row in rows} == set(texts)
    for row in rows:
        assert row["simulated"] == pytest.approx(texts[row["signature"]], rel=0.01)


def copies(name, latency, bandwidth, passes):
    return {f"copy:{name} uint8[{n}]": latency + passes * n / bandwidth for n in SIZES}


def sends(seconds):
    return {f"send:rdma-write uint8[{n}]": seconds(n) for n in SIZES}


BEFORE = ("--know", "bandwidth=30 GB/s", "--know", "latency=3 us")


@pytest.mark.parametrize(
    ("kind", "name", "passes"),
    every(3, [("memory", "h2h", 2), ("cxl", "h2c", 1), ("cxl", "c2h", 1), ("link", "h2d", 1)]),
)
def test_a_part_that_copies_cross_comes_back(tmp_path, kind, name, passes):
    texts = copies(name, 1.3e-6, 11e9, passes)
    report, values = fit(tmp_path, kind, texts, *BEFORE)
    assert values["latency"] == pytest.approx(1.3e-6, rel=0.02)
    assert values["bandwidth"] == pytest.approx(11e9, rel=0.02)
    answers_are_within_a_percent(report, texts)


def test_copies_down_and_up_a_tier_are_one_fit(tmp_path):
    texts = copies("h2c", 1.3e-6, 11e9, 1) | copies("c2h", 1.3e-6, 11e9, 1)
    report, values = fit(tmp_path, "cxl", texts, *BEFORE)
    assert values["bandwidth"] == pytest.approx(11e9, rel=0.02)
    answers_are_within_a_percent(report, texts)


def test_an_efficiency_that_stays_is_counted_as_a_run_counts_it(tmp_path):
    texts = copies("h2c", 1.3e-6, 11e9, 1)
    report, values = fit(tmp_path, "cxl", texts, *BEFORE, "--know", "efficiency=0.5")
    assert values["bandwidth"] == pytest.approx(22e9, rel=0.02)
    answers_are_within_a_percent(report, texts)


def test_memory_beside_is_not_counted_again(tmp_path):
    """Of copies to CXL the DRAM takes a part, which the machine says."""
    machine = tmp_path / "machine.yaml"
    machine.write_text("""\
foretrace: 1
name: tiers
workload: {type: transfers, ops: [{op: "copy:h2c", bytes: 1 MB}]}
cluster:
  nodes: 1
  node:
    gpu: {count: 1, streams: 1, copy_engines: 0}
    host: {cores: 1}
    memory: {bandwidth: 100 GB/s, latency: 0.5 us}
    cxl: {bandwidth: 1 GB/s, latency: 1 s}
backends: {"node*.gpu*": {use: copy}}
""")
    texts = copies("h2c", 1.3e-6, 11e9, 1)
    report, values = fit(tmp_path, "cxl", texts, *BEFORE, "--machine", machine)
    assert values["latency"] == pytest.approx(0.8e-6, rel=0.02)
    answers_are_within_a_percent(report, texts)


def test_of_a_nic_the_sum_comes_back_and_what_is_one_is_named(tmp_path):
    """Posting and two crossings are told together only."""
    texts = sends(lambda n: 0.4e-6 + 2 * 0.9e-6 + n / (25e9 * 4096 / 4178))
    words = (*BEFORE, "--know", "overhead=0.4 us")
    report, values = fit(tmp_path, "nic", texts, *words)
    assert values["bandwidth"] == pytest.approx(25e9, rel=0.02)
    assert values["overhead"] + 2 * values["latency"] == pytest.approx(2.2e-6, rel=0.02)
    told = [p["text"] for p in report["fits"][0]["parameters"]]
    assert sum("the data cannot determine it" in text for text in told) == 1
    answers_are_within_a_percent(report, texts)


def test_a_switch_comes_back(tmp_path):
    texts = sends(lambda n: 0.7e-6 + n / 12.5e9)
    report, values = fit(tmp_path, "switch", texts, *BEFORE, "--know", "ports=64")
    assert values["latency"] == pytest.approx(0.7e-6, rel=0.02)
    assert values["bandwidth"] == pytest.approx(12.5e9, rel=0.02)
    answers_are_within_a_percent(report, texts)


def test_a_gpu_comes_back(tmp_path):
    def seconds(m, n, k):
        flop, moved = 2 * m * n * k, 2 * (m * k + k * n + m * n)
        return 3e-6 + max(flop / (300e12 * 0.7), moved / (2e12 * 0.8))

    shapes = [(m, n, k) for m in (16, 64, 128, 1024, 4096) for n in (1024, 4096, 8192)
              for k in (512, 2048, 8192)]  # fmt: skip
    texts = {f"compute:aten::mm bf16[{m}x{k}] bf16[{k}x{n}]": seconds(m, n, k)
             for m, n, k in shapes}  # fmt: skip
    words = (
        "--know",
        "peaks.bf16=300 Tflop/s",
        "--know",
        "bandwidth=2 TB/s",
        "--holdout",
        "shapes",
    )
    report, values = fit(tmp_path, "gpu", texts, *words)
    found = {p["name"]: p["value"] for p in report["fits"][0]["parameters"]}
    assert found["efficiency"] == pytest.approx(0.7, rel=0.02)
    assert found["memory_efficiency"] == pytest.approx(0.8, rel=0.02)
    assert values["launch"] == pytest.approx(3e-6, rel=0.02)
    answers_are_within_a_percent(report, texts)


PORTS = """\
foretrace: 1
name: ports
workload: {type: transfers, ops: [{op: "collective:all-reduce", bytes: 1 MB, from: [0, 1, 2, 3]}]}
cluster:
  nodes: 4
  node:
    gpu: {count: 1, streams: 1}
    host: {cores: 1}
    nic: {count: 1, bandwidth: 10 GB/s, latency: 1 us, header: 0 B}
"""


@pytest.mark.nightly
def test_a_library_comes_back_on_the_links_that_are_known(tmp_path):
    """A ring of four: six steps, each two crossings of NICs, and 1.5 times the bytes."""
    machine = tmp_path / "ports.yaml"
    machine.write_text(PORTS)
    texts = {
        f"collective:all-reduce fp32[{n}]": 20e-6 + 6 * (2e-6 + 2 * 1e-6)
        + 1.5 * 4 * n / (10e9 * 0.9)
        for n in SIZES[4:]
    }  # fmt: skip
    words = ("--know", "algorithms=ring", "--machine", machine)
    report, values = fit(tmp_path, "library", texts, *words, spec={"ranks": 4})
    found = {p["name"]: p["value"] for p in report["fits"][0]["parameters"]}
    assert found["simple.efficiency"] == pytest.approx(0.9, rel=0.02)
    told = [p["text"] for p in report["fits"][0]["parameters"]]
    assert sum("the data cannot determine it" in t for t in told) == 1  # the start, or the steps
    assert values["simple.launch"] + 6 * values["simple.step"] == pytest.approx(32e-6, rel=0.02)
    answers_are_within_a_percent(report, texts)


def test_families_of_ops_come_back(tmp_path):
    texts = copies("h2h", 1.3e-6, 11e9, 2)
    file, out = kept(tmp_path / "made-up.rec.gz", texts), tmp_path / "ops.json"
    words = ["fit", "ops", "--recording", str(file), "--holdout", "shapes", "-o", str(out)]
    told = CliRunner().invoke(app, [*words, "--json"])
    assert told.exit_code == 0, told.output
    answers_are_within_a_percent(json.loads(told.stdout), texts)


def test_the_round_trip_is_printed(tmp_path):
    file = kept(tmp_path / "made-up.rec.gz", copies("h2c", 1.3e-6, 11e9, 1))
    words = ["fit", "cxl", "--recording", str(file), *BEFORE]
    said = CliRunner().invoke(app, words).output
    assert "round trip     44 ops run with the entry: 0." in said
    assert "64 to 2896 B: " in said


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("cxl", "copy:h2h uint8[64]", "does not cross a cxl"),
        ("memory", "host:read uint8[64]", "does not run on a memory"),
        ("library", "collective:all-reduce fp32[64]", "give a scenario with --machine FILE"),
    ],
)
def test_ops_that_such_a_part_is_not_asked_about_are_refused(tmp_path, kind, text, said):
    with pytest.raises(ScenarioError, match=said):
        fit(tmp_path, kind, copies("h2c", 1e-6, 1e9, 1) | {text: 1e-6}, *BEFORE)


@pytest.mark.parametrize(("own", "apart"), [(0.002, 0.003), (0.15, 0.011)])
def test_a_fit_that_does_not_come_back_within_its_error_or_a_percent_is_refused(own, apart):
    one = np.array([1e-6, 2e-6])
    back = RoundTrip(("copy:h2c uint8[1]",) * 2, one, one, one * [1, 1 + apart], one, own)
    with pytest.raises(ScenarioError, match="by the fit, so nothing is written"):
        back.require_simulation_equals_fit()
    nearer = RoundTrip(back.texts, one, one, one * [1, 1 + apart / 2], one, own)
    nearer.require_simulation_equals_fit()
