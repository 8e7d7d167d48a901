"""A plan for a GPU, done on a made-up one: what a fit makes of it, and how a slow one is told."""

import json
from dataclasses import replace

import numpy as np
import pytest
from foretrace.hil.measuring.plan import PlanPiece, RecordingPlan
from foretrace.hil.measuring.plan_run import run_plan
from foretrace.hil.recording import read
from foretrace.hil.sample import AFTER, Request
from foretrace.models.compute.kernels import load_families
from foretrace.models.compute.op_shape import op_shape
from foretrace.scenarios.cli.app import app
from foretrace.scenarios.config.catalog import installed
from foretrace.scenarios.config.reading.tree import to_dict
from foretrace.scenarios.studies.fitting.gpu_fit import PRODUCTS
from foretrace.scenarios.studies.fitting.gpu_plan import gpu_plan
from foretrace.sim.errors import ScenarioError
from foretrace.sim.setting_groups import flatten_settings
from foretrace.sim.units import quantity
from made_up_gpu import COLD, FAMILIES, OTHER, SETTINGS, MadeUpGpu, plug_in, true_seconds
from typer.testing import CliRunner

UNITS = {"launch": "s", "gemm.join": "s", "gemm.cold": "s", "gemm.fp8.launch": "s"}
UNITS |= {f"peaks.{t}": "flop/s" for t in ("fp16", "tf32", "fp32", "fp64")}
SOME = ("products", "sums", "norms", "in place")
NORMS = ("norm", "activation", "rope")
SLOWED, CAPPED = 0x40, 0x4  # by heat; by the power cap, as every large GPU is


@pytest.fixture
def nvml(monkeypatch):
    return plug_in(monkeypatch)


def quick(names, repeats=20, blocks=6, rounds=1):
    """Pieces of the plan, in one round: a made-up GPU starts as it did before."""
    return RecordingPlan(
        tuple(
            PlanPiece(replace(p.work, blocks=blocks, busy=99.0, requests=tuple(
                replace(r, n=repeats) for r in p.work.requests)), p.seconds)
            for p in gpu_plan("cuda:0").pieces if not names or p.name in names
        ),
        rounds,
    )  # fmt: skip


def recorded(folder, plan, driver=MadeUpGpu):
    return run_plan(plan, folder, lambda name: driver, lambda text: None)


def fit(recording, *words):
    """Report of a fit, and the folder of its catalog."""
    out = recording.with_name("mine.yaml")
    told = CliRunner().invoke(
        app, ["fit", "gpu", "--recording", str(recording), "--start", "h100-sxm5-80g", "--name",
              "mine", "-o", str(out), "--json", *words]
    )  # fmt: skip
    if told.exception and not isinstance(told.exception, SystemExit):
        raise told.exception
    assert told.exit_code == 0, told.output
    return json.loads(told.stdout), out.parent


def constants(report):
    return {p["name"]: p for one in report["fits"] for p in one["parameters"]}


def true_constant(name):
    """What the made-up GPU has: its own, or one of a family."""
    if name in SETTINGS:
        return SETTINGS[name]
    family, _, constant = name.rpartition(" ")
    return COLD if constant == "cold" else FAMILIES[family][constant]


def constants_come_back(report):
    """Those told within 2 % are within it; the others are named."""
    found = constants(report)
    for name in report["told"]:
        assert found[name]["value"] == pytest.approx(true_constant(name), rel=0.02), name
    worse = {text.partition(":")[0] for text in report["worse"]}
    assert {*report["told"], *worse, *report["kept"]} == set(found)
    known = {name: one for name, one in found.items() if one["width"] is not None}
    inside = [abs(c["value"] / true_constant(n) - 1) <= c["width"] for n, c in known.items()]
    assert np.mean(inside) > 0.8  # intervals are of 90 %


def answers_are_within_a_percent(report, in_place=()):
    """Of runs with the entry, against the constants, which are without noise."""
    rows = report["round_trip"]["ops"]
    texts = [row["signature"] for row in rows]
    simulated = np.array([row["simulated"] for row in rows])
    alone, after = true_seconds(texts), true_seconds(texts, after=True)
    wrong = np.minimum(abs(simulated / alone - 1), abs(simulated / after - 1))
    family = np.array([op_shape(t).family for t in texts])
    for name in set(family.tolist()):
        assert np.median(wrong[family == name]) < 0.01, name
    return wrong


def test_fitted_gemm_and_norm_constants_match_the_simulated_gpu(nvml, tmp_path):
    plan = quick(SOME, repeats=16, blocks=4)
    pieces = [p if p.name != "in place" else replace(p, work=replace(p.work, requests=tuple(
        r for r in p.work.requests if "::mm " in r.signature or "rms_norm" in r.signature
    ))) for p in plan.pieces]  # fmt: skip
    report, home = fit(recorded(tmp_path, replace(plan, pieces=tuple(pieces))))
    constants_come_back(report)
    assert {*PRODUCTS, "gemm.cold"} - {"exposed"} <= set(report["told"])
    assert {f"{f} {c}" for f in NORMS for c in ("launch", "first", "again", "near")} <= set(
        report["told"]
    )
    wrong = answers_are_within_a_percent(report)
    assert np.quantile(wrong, 0.99) < 0.01
    assert report["round_trip"]["apart"] < 0.001
    entry = installed([str(home)]).entry("gpu", "mine")
    assert quantity(str(entry["launch"].value), "s") == pytest.approx(SETTINGS["launch"], rel=0.02)
    families = load_families(str(entry["kernels"].value))
    assert families["norm"].first == pytest.approx(FAMILIES["norm"]["first"], rel=0.02)
    assert families["experts"] == load_families("h100-sxm5-80g")["experts"]  # not recorded
    assert entry["launch"].source.kind == "fitted"
    assert entry["memory"].source.kind == "datasheet"


@pytest.mark.nightly
def test_the_complete_plan_recovers_every_constant_of_a_simulated_gpu(nvml, tmp_path):
    report, _ = fit(recorded(tmp_path, quick(())))
    constants_come_back(report)
    assert len(report["told"]) >= 65
    assert np.quantile(answers_are_within_a_percent(report), 0.99) < 0.01
    lines = report["round_trip"]["lines"]
    assert {line.partition(":")[0] for line in lines[1:]} >= set(FAMILIES)
    assert any("_flash_attention_backward" in text for text in report["left"])


def test_a_gpu_without_catalog_entry_gives_its_datasheet_values_except_the_peak(nvml, tmp_path):
    file = recorded(tmp_path, quick(("launches", "products", "sums"), repeats=8, blocks=3))
    out = tmp_path / "mine.yaml"
    words = ["fit", "gpu", "--recording", str(file), "--name", "mine", "-o", str(out)]
    with pytest.raises(ScenarioError, match="a recording cannot tell the peak"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    told = CliRunner().invoke(app, [*words, "--know", "peaks.bf16=989.4 Tflop/s"])
    assert told.exit_code == 0, told.output
    entry = installed([str(tmp_path)]).entry("gpu", "mine")
    names = ("memory", "bandwidth", "chip.processors", "chip.clock", "chip.cache", "copy_engines")
    texts = {k: flatten_settings(to_dict(entry))[k] for k in (*names, "power")}
    assert texts == {
        "memory": "85899345920 B", "bandwidth": "3.352 TB/s", "chip.processors": 132,
        "chip.clock": "1.98 GHz", "chip.cache": "52428800 B", "copy_engines": 3, "power": "700 W",
    }  # fmt: skip
    assert entry["bandwidth"].source.kind == "measured"


def test_batches_of_a_throttled_gpu_are_reported_and_not_used(nvml, tmp_path):
    """A third of the batches takes 1.5 times as long, from heat."""

    class Hot(MadeUpGpu):
        def time_op(self, request):
            Hot.turn = getattr(Hot, "turn", 0) + 1
            type(self).slow = 1.5 if Hot.turn % 3 == 0 else 1.0
            nvml.reasons = lambda reading: SLOWED if Hot.turn % 3 == 0 else CAPPED
            return super().time_op(request)

    plan = quick(("launches", "products", "sums"), repeats=8, blocks=6)
    file = recorded(tmp_path, plan, Hot)
    flagged = [s for s in read(file).samples if not s.good]
    assert {s.flags for s in flagged} == {("throttled",)}
    assert 0.25 < len(flagged) / len(read(file).samples) < 0.4
    report, _ = fit(file)
    assert constants(report)["launch"]["value"] == pytest.approx(SETTINGS["launch"], rel=0.02)
    assert any(text.endswith("in which the GPU was slowed") for text in report["left"])


def test_an_op_throttled_in_all_batches_is_named(nvml, tmp_path):
    class Hot(MadeUpGpu):
        def time_op(self, request):
            nvml.reasons = lambda reading: SLOWED if "8192x8192" in request.signature else 0
            return super().time_op(request)

    plan = quick(("launches", "products", "sums"), repeats=4, blocks=2)
    report, _ = fit(recorded(tmp_path, plan, Hot))
    op = "compute:aten::mm bf16[8192x8192] bf16[8192x8192]"
    assert f"slowed in all batches: {op}" in report["left"]
    assert op not in [row["signature"] for row in report["round_trip"]["ops"]]


def test_an_op_that_fails_on_a_gpu_is_reported_and_not_repeated(nvml, tmp_path):
    asked = []

    class Older(MadeUpGpu):
        refuses = ("fp8", "inductor::rms_norm")

        def timing(self, requests):
            asked.extend(r.signature for r in requests)
            return super().timing(requests)

    plan = quick(("launches", "products", "sums", "scaled", "norms"), 4, 2, rounds=2)
    file = recorded(tmp_path, plan, Older)
    failed = {row.signature for row in read(file).failed}
    fp8 = {r.signature for p in plan.pieces if p.name == "scaled" for r in p.work.requests}
    assert fp8 <= failed
    assert all(asked.count(text) == 1 for text in failed)
    report, _ = fit(file)
    assert sum(text.startswith("failed: ") for text in report["left"]) == len(failed)
    assert "norm launch" not in constants(report)
    assert "activation launch" in constants(report)


def test_in_context_ops_include_the_cold_start_and_isolated_ones_do_not(nvml, tmp_path):
    text = "compute:inductor::rms_norm bf16[64x4096] bf16[4096]"
    other = "compute:aten::gelu bf16[8]"
    driver = MadeUpGpu()
    driver.open({"device": "cuda:0"})
    alone, after = driver.timing([Request(text, 200), Request(text, 200, AFTER, (other,))])
    driver.close()
    assert alone.median == pytest.approx(1e9 * true_seconds([text])[0], rel=0.01)
    assert after.median == pytest.approx(1e9 * true_seconds([text], True)[0], rel=0.01)
    assert OTHER > 0
