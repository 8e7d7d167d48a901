"""Memory of GPUs as a capacity: described steps hold of it, and jobs on the same GPUs compete."""

import pytest
from foretrace.models.training.plan.rank_memory import memory_of_stages
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.errors import SimulationError

WORK = """{type: training, model: gpt2, batch: 8, sequence: 256, execution: {hosts: ahead},
      parallel: {tensor: 2, pipeline: 2, zero: 1}MORE}"""
CLUSTER = """
cluster:
  nodes: 1
  node:
    gpu: {model: h100-sxm5-80g, count: 8, memory: MEMORY GiB}
    links: [{from: gpu, to: gpu, via: nvlink4}]
  fabric: {library: nccl-nvlink4, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
"""
HEAD = "foretrace: 1\nname: shared\n"
TWO = f"""{HEAD}jobs:
  a:
    workload: {WORK}
    on: {{gpu: "node0.gpu*"}}
  b:
    workload: {WORK}
    on: {{gpu: "node0.gpu*"}}
{CLUSTER}"""
ONE = f"{HEAD}workload: {WORK}\n{CLUSTER}"


def built(text, memory=80, more="", gpu=""):
    said = text.replace("MEMORY GiB", f"{memory} GiB{gpu}").replace("MORE", more)
    (point,) = build_variants(loads(said))
    return point


def ends(result):
    first, second = (result.of(name).frame() for name in "ab")
    return first["end_us"].max(), second["start_us"].min()


def test_two_jobs_that_do_not_fit_together_run_one_after_the_other():
    end, start = ends(built(TWO, memory=4).run())
    assert start == pytest.approx(end)


def test_two_jobs_that_fit_together_run_side_by_side():
    _, start = ends(built(TWO, memory=8).run())
    assert start == 0


def test_a_job_that_begins_when_another_has_ended_is_answered():
    late = TWO.replace("  b:\n", "  b:\n    arrives: 5 s\n")
    assert study(loads(late.replace("MEMORY GiB", "80 GiB").replace("MORE", ""))).summary


@pytest.mark.parametrize(("gpu", "doubts"), [("", 1), (", core: true", 0)])
def test_jobs_that_share_gpus_but_not_their_computing_are_doubted(gpu, doubts):
    said = loads(TWO.replace("MEMORY GiB", f"80 GiB{gpu}").replace("MORE", ""))
    told = [
        one.message for one in said.warnings if "without slowing each other down" in one.message
    ]
    assert len(told) == doubts


def test_a_job_that_is_not_to_wait_is_refused():
    with pytest.raises(SimulationError, match=r"job b: needs .* of node0\.gpu0\.memory"):
        built(TWO, memory=4, more=", when_full: refuse").run()


def test_each_rank_holds_the_peak_of_its_stage_and_ticks_stay_the_same():
    point, plain = built(ONE, gpu=", capacity: true"), built(ONE)
    result = point.run()
    work = point.workloads["main"]
    each = [one.peak for one in memory_of_stages(work.model, work.plan_on(8), work.reserve)]
    held = result.utilization()
    for gpu in range(8):
        share = each[gpu // 4] / (80 * 2**30)
        assert held[f"node0.gpu{gpu}.memory"] == pytest.approx(share, rel=1e-6)
    assert result.makespan == plain.run().makespan
    assert not any("memory" in name for name in plain.run().utilization())


def test_ranks_hold_where_they_are_placed():
    text = ONE.replace("8, memory", "16, memory") + "placement: {ranks: [RANKS]}\n"
    ranks = ", ".join(f"node0.gpu{15 - n}" for n in range(8))
    work = "pipeline: 2, data: 2, zero"
    text = text.replace("pipeline: 2, zero", work).replace("RANKS", ranks)
    held = built(text, gpu=", capacity: true").run().utilization()
    assert held["node0.gpu15.memory"] > 0
    assert not held.get("node0.gpu0.memory")


def test_a_gpu_whose_memory_nobody_knows_is_no_capacity():
    text = ONE.replace("{model: h100-sxm5-80g, count: 8, memory: MEMORY GiB}", "GPU")
    gpu = "{count: 8, capacity: true, streams: 8, peaks: {bf16: 100 Tflop/s}, bandwidth: 1 TB/s}"
    with pytest.raises(Exception, match="memory: is missing"):
        built(text.replace("GPU", gpu)).run()
