"""Training answers beside what was measured (D4, D7: ``docs/accuracy.md``) and published."""

import os
from pathlib import Path

import foretrace
import pytest
from by_day import every

ROOT = Path(os.environ.get("FORETRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture
def data(monkeypatch):
    if not (ROOT / "sailor-training").exists():
        pytest.skip(f"no measured training steps at {ROOT}; set FORETRACE_DATA")
    monkeypatch.setenv("FORETRACE_DATA", str(ROOT))
    return ROOT


def test_the_plans_that_are_set_aside_are_those_of_lowest_digest(data):
    from foretrace.calibration.rows.sailor_rows import ASIDE, FOLDER, data_set, digest

    every = sorted(digest(f.stem) for f in (data_set() / FOLDER).rglob("*.json"))
    assert tuple(every[: len(every) // 3]) == ASIDE


@pytest.mark.parametrize(("name", "error"), [("N16_D16", 0.03), ("N4_D2", 0.05), ("N8_D4", 0.06)])
def test_a_plan_from_its_layers_takes_what_was_measured(data, tmp_path, name, error):
    from foretrace.calibration.judge.profile import run
    from foretrace.calibration.rows.sailor_rows import plans

    (plan,) = (p for p in plans() if p.name == name)
    seconds, memory = run(plan, tmp_path)
    assert seconds == pytest.approx(plan.seconds, rel=error)
    assert memory + 2.63e9 == pytest.approx(plan.memory, rel=0.06)


def test_one_row_of_sixteen_tensor_parallel_ranks_calibrates_another(data, tmp_path):
    from foretrace.calibration.judge.training import Constants, predicted, scenario
    from foretrace.calibration.rows.megatron_rows import rows

    row = next(r for r in rows("measured_multi_node_3.6B") if r.number == 21)
    text = scenario(row, "full", tmp_path)
    blind, calibrated = predicted(text), predicted(text, Constants(1.004, 0.48))
    assert blind / row.seconds - 1 < -0.2
    assert calibrated == pytest.approx(row.seconds, rel=0.07)


@pytest.mark.parametrize(("number", "ahead", "threads"), [(402, -0.87, -0.50), (295, -0.65, -0.36)])
def test_small_layers_wait_for_their_host(data, tmp_path, number, ahead, threads):
    """D4b, composed from op times: eight tensor-parallel ranks of hidden 1024, blind."""
    from foretrace.calibration.judge.training import predicted, scenario
    from foretrace.calibration.rows.megatron_rows import rows

    row = next(r for r in rows("measured_single_node") if r.number == number)
    for hosts, error in (("ahead", ahead), ("threads", threads)):
        said = predicted(scenario(row, "none", tmp_path, hosts))
        assert said / row.seconds - 1 == pytest.approx(error, abs=0.015)


def test_the_host_is_ahead_of_large_kernels(data, tmp_path):
    from foretrace.calibration.judge.training import predicted, scenario
    from foretrace.calibration.rows.megatron_rows import rows

    row = next(r for r in rows("measured_multi_node_3.6B") if r.number == 2)
    ahead, threads = (predicted(scenario(row, "full", tmp_path, h)) for h in ("ahead", "threads"))
    assert threads == pytest.approx(ahead, rel=1e-3)


def test_pairs_are_of_one_submitter_and_in_the_data(data):
    import csv

    with (data / "mlperf-training" / "llm_medians_dev.csv").open() as lines:
        known = {(r["version"], r["benchmark"], r["submitter"], r["system"])
                 for r in csv.DictReader(lines)}  # fmt: skip
    rows = Path(foretrace.__file__).parent / "calibration" / "rows"
    with (rows / "mlperf_pairs.csv").open() as lines:
        pairs = list(csv.DictReader(lines))
    assert len(pairs) == 52
    for pair in pairs:
        at = pair["version"], pair["benchmark"], pair["submitter"]
        assert {(*at, pair["small"]), (*at, pair["large"])} <= known


def test_submitters_are_set_aside_until_they_have_a_third_of_the_pairs(data):
    from foretrace.calibration.judge.scaling import set_aside, table

    assert set_aside(table("mlperf_pairs.csv")) == {"NVIDIA", "Krai", "MangoBoost", "HPE", "Nebius"}


def test_each_pair_that_is_described_says_how_both_systems_trained(data):
    from foretrace.calibration.judge.scaling import systems, table

    known = systems()
    for pair in table("mlperf_pairs.csv"):
        both = [known[pair["benchmark"], pair["submitter"], pair[k]] for k in ("small", "large")]
        assert pair["not_described"] or all("settings" in system for system in both)


@pytest.mark.parametrize(
    ("benchmark", "small", "large", "error"),
    every(
        4,
        [
            ("llama2_70b_lora", "hpg.dgxb200x8.n1", "hpg.dgxb200x8.n2", 0.01),
            ("llama2_70b_lora", "hpg.dgxb200x8.n1", "hpg.dgxb200x8.n8", 0.03),
            ("llama2_70b_lora", "hpg.dgxb200x8.n2", "hpg.dgxb200x8.n16", 0.03),
            ("llama31_8b", "hpg.dgxb200x8.n1", "hpg.dgxb200x8.n2", 0.05),
        ],
    ),
)
def test_a_larger_system_takes_what_was_measured(data, benchmark, small, large, error):
    from foretrace.calibration.judge.scaling import predicted, seconds, systems

    of = "University-of-Florida"
    known = systems()
    said, _, _ = predicted(known[benchmark, of, small], known[benchmark, of, large])
    assert said == pytest.approx(seconds(known[benchmark, of, large]), rel=error)


def published(name, *set_):
    """Predicted over published time of a row of ``calibration/rows/published_rows.py``."""
    from foretrace.calibration.judge.published import scenario, seconds_published
    from foretrace.calibration.rows.published_rows import steps
    from foretrace.scenarios.config.loader import loads
    from foretrace.scenarios.studies.variants.samples import samples_of
    from foretrace.scenarios.studies.variants.variants import build_variants

    (step,) = (s for s in steps() if s.name == name)
    (point,) = build_variants(loads(scenario(step), set=set_))
    told = {n: float(v[0]) for n, v in samples_of(point, point.run()).items()}
    return told["iteration_time"] / seconds_published(step, told)


@pytest.mark.parametrize(
    "name", ["gpt-22b-a100-full", "gpt-22b-a100-selective", "gpt-7.5b-a100", "gpt-18b-a100"]
)
def test_a_step_of_a100s_takes_what_was_published(name):
    assert published(name) == pytest.approx(1, rel=0.05)


def test_long_products_of_h100s_are_as_quick_as_published_only_under_the_power_limit():
    limited = published("mpt-70b-2048-128-h100")
    without = published("mpt-70b-2048-128-h100", "cluster.node.gpu.sustained=null")
    assert without < 0.8 < 0.87 < limited < 1


def test_long_sequences_of_2023_take_what_was_published_only_with_the_attention_of_2023():
    name = "mpt-1b-8192-8-h100"  # a size that the fit set aside
    assert published(name) == pytest.approx(1, rel=0.05)
    assert published(name, "cluster.node.gpu.kernels=h100-sxm5-80g") < 0.65


def test_small_micro_batches_of_fsdp_take_what_was_published_where_gathers_slow_kernels():
    """What gathers take of GPUs was fitted to other GPUs' recorded kernels (fit_overlap.py)."""
    name = "mpt-13b-2048-8-h100"
    assert published(name) < 0.78
    assert published(name, "cluster.node.gpu.core=true") == pytest.approx(1, rel=0.08)


def test_traces_of_kernels_beside_collectives_are_set_aside_by_hash():
    from foretrace.calibration.fit.overlap import ASIDE

    assert {name for name, aside in ASIDE.items() if not aside} == {
        "dlrm-A100x8-rank3", "dlrm-V100x2-rank1", "dlrm-8xV100",
    }  # fmt: skip


@pytest.mark.nightly
def test_products_beside_all_reduces_of_eight_a100s_take_nearly_twice_as_long(data):
    from foretrace.calibration.fit.overlap import KINETO, TRACES, places, slowdown

    name = "dlrm-A100x8-rank3"
    found = places(KINETO / name / part for part in TRACES[name])
    beside = [p for p in found if p.kind == "reduces" and p.family == "products"]
    assert len(beside) == 5
    assert slowdown(beside) == pytest.approx(1.90, abs=0.01)


def test_attention_of_2023_grows_with_sequences_as_it_did_in_sizes_that_were_set_aside():
    import numpy as np
    from foretrace.calibration.fit.attention import measured_growths, predict, set_aside
    from foretrace.models.compute.kernels import load_families

    assert set_aside() == {"1b", "30b", "350m"}
    for gpu, name in (("a100", "a100-sxm4-80g"), ("h100", "h100-sxm5-80g")):
        far = [g for g in measured_growths(gpu) if g.size in set_aside()]
        truth = np.array([g.seconds for g in far])
        then, now = (
            np.median(np.abs(predict(gpu, load_families(kernels), far) / truth - 1))
            for kernels in (f"{name}-flash-1", name)
        )
        assert then < 0.06 < 0.5 < now


def test_published_rows_are_as_many_as_were_declared_and_each_has_its_source():
    from foretrace.calibration.rows.published_rows import steps

    rows = list(steps())
    assert len({row.name for row in rows}) == len(rows) == 57
    assert all(row.source and row.assumed and row.value > 0 for row in rows)
