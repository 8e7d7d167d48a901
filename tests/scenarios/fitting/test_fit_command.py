"""``foretrace fit`` from recordings: what it writes loads, and what it cannot do it says."""

import json

import numpy as np
import pytest
from foretrace.hil.recording import Recording
from foretrace.hil.sample import Sample
from foretrace.models.compute.families import Families
from foretrace.scenarios.cli.app import app
from foretrace.scenarios.config.catalog import installed
from foretrace.sim.errors import ScenarioError
from foretrace.sim.facts.ops import Ops
from typer.testing import CliRunner


@pytest.fixture
def copies(tmp_path):
    """A memory of 10 GB/s and 1 us, in copies (each byte moved twice) of 40 sizes, two starts."""
    random, samples = np.random.default_rng(1), []
    for start in range(2):
        for k in range(40):
            size = 1024 * round(2 ** (k / 3))
            ns = 1000 + 2 * size / 10
            made = ns * random.normal(1, 0.01, 5)
            text = f"copy:h2h uint8[{size}]"
            samples.append(Sample(text, made, "cpu", start=start))
    path = tmp_path / "copies.rec.gz"
    Recording("host", "core0", "box", "2026-01-31T12:00:00Z", {}, tuple(samples)).write(path)
    return path


def run(*words):
    done = CliRunner().invoke(app, ["fit", *map(str, words)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_a_memory_from_a_recording_is_a_catalog_entry_with_its_whole_source(copies, tmp_path):
    out = tmp_path / "mine" / "memory.yaml"
    out.parent.mkdir()
    known = ("--know", "bandwidth=20 GB/s", "--know", "latency=100 ns")
    said = run("memory", "--recording", copies, *known, "--name", "box-dram", "-o", out)
    assert "held out" in said
    entry = installed([str(out.parent)]).entry("memory", "box-dram")
    assert float(entry["bandwidth"].value.split()[0]) == pytest.approx(10, rel=0.02)
    source = entry["bandwidth"].source
    assert source.kind == "fitted"
    assert "host core0 on box, 2026-01-31" in source.where
    for word in ("held-out sizes", "interpolation", "nearest neighbour", "scored once"):
        assert word in source.note
    assert 0 < source.error_fraction < 0.03


def test_families_that_were_fitted_predict(copies, tmp_path):
    out = tmp_path / "ops.json"
    run("ops", "--recording", copies, "--holdout", "shapes", "-o", out)
    assert json.loads(out.read_text())["clock"] == "cpu"
    cpu = Families(file=str(out))
    cpu.open(None)
    ops = Ops.of(signature=0, signatures=("copy:h2h uint8[1000000]",))
    assert cpu.timing(ops).fixed[0] == pytest.approx(1e-6 + 2e6 / 10e9, rel=0.03)
    assert "host core0 on box" in cpu.source


def test_what_cannot_be_fitted_is_said(copies):
    with pytest.raises(ScenarioError, match="bandwidth, latency of the memory is unknown"):
        run("memory", "--recording", copies)
    with pytest.raises(
        ScenarioError, match="write one of memory, cxl, link, nic, switch, gpu, library, ops"
    ):
        run("gpus", "--recording", copies)
    with pytest.raises(ScenarioError, match="write one of sizes, shapes"):
        run("ops", "--recording", copies, "--holdout", "colours")


def test_every_fit_is_judged_against_its_bar(copies):
    said = run("ops", "--recording", copies, "--holdout", "shapes")
    assert said.partition("{")[0].count("bar 10 % (A/A") == 2  # held out, scored once
    assert "bar 15 %" in said  # all families together
    assert ": pass" in said
    strict = run("ops", "--recording", copies, "--holdout", "shapes", "--bar", "0.001")
    assert "bar 0.001 %" not in strict  # 1.5 x A/A is more


def test_a_latency_is_no_family_of_bytes(tmp_path):
    samples = tuple(
        Sample(f"host:chase uint8[{1 << k}]", np.array([5.0]), "cpu", start=s)
        for k in range(12, 28) for s in range(2)
    )  # fmt: skip
    path = tmp_path / "chase.rec.gz"
    Recording("host", "core0", "box", "2026-01-31T12:00:00Z", {}, samples).write(path)
    assert "not fitted: host:chase: latency of dependent loads" in run(
        "ops", "--recording", path, "--holdout", "shapes"
    )


def test_what_caches_cost_takes_three_kinds_of_samples(copies, tmp_path):
    def kept(name, *samples):
        path = tmp_path / name
        Recording("host", "core0", "box", "2026-01-31T12:00:00Z", {}, samples).write(path)
        return path

    def sample(text, ns, context="warm"):
        return Sample(text, np.array([float(ns)]), "cpu", context=context)

    by_size = [
        sample(f"host:{verb} uint8[{size}]", ns)
        for verb, times in (("chase", (4, 100)), ("read", (10_000, 9_000_000)))
        for size, ns in zip((1 << 20, 1 << 28), times, strict=True)
    ]
    cold = [sample("copy:h2h uint8[1000]", ns, how) for how, ns in (("warm", 300), ("cold", 9000))]
    whole = kept("whole.rec.gz", *by_size, *cold)
    out = tmp_path / "ops.json"
    run("ops", "--recording", copies, "--holdout", "shapes", "--caches", whole, "-o", out)
    told = json.loads(out.read_text())["caches"]
    assert np.allclose(told["latency"], [[1 << 20, 4e-9], [1 << 28, 1e-7]])
    assert told["other"] == pytest.approx(8.7e-6, rel=0.02)
    with pytest.raises(ScenarioError, match="0 ops both warm and cold"):
        run("ops", "--recording", copies, "--holdout", "shapes",
            "--caches", kept("no.rec.gz", *by_size))  # fmt: skip
