"""An optimizer on the host: time by the bus and the host's memory, and what is refused."""

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.variants.samples import samples_of
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.errors import ForetraceError

TEXT = """
foretrace: 1
name: tiny
workload: {type: training, model: gpt2, batch: 8, sequence: 1024, memory: {offload: optimizer}}
cluster:
  nodes: 1
  node:
    gpu: {model: h100-sxm5-80g, count: 1}
    host: {cores: 64}
    memory: {bandwidth: 400 GB/s, latency: 0 s, size: 64 GB}
    links:
      - {from: host, to: gpu, bandwidth: 50 GB/s, latency: 0 s}
      - {from: gpu, to: gpu, via: nvlink4}
  fabric: {library: nccl-nvlink4, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
run: {keep: ranks}
"""
WEIGHTS = 124_439_808


def run(*set, text=TEXT):
    (point, *_) = build_variants(loads(text, set=set))
    result = point.run()
    samples = {name: float(v[0]) for name, v in samples_of(point, result).items()}
    return point, result, samples


def test_one_bucket_goes_down_is_updated_and_comes_up():
    _, _, plain = run("workload.memory.offload=none")
    _, result, told = run("workload.optimizer.bucket=1000000000")
    detail = result.detail.frame()
    adam = detail[detail["name"] == "adam on the host"]
    took = (adam["end_us"] - adam["start_us"]).sum() * 1e-6
    assert took == pytest.approx(WEIGHTS * (4 + 24 + 2) / 400e9, rel=1e-3)
    longer = told["iteration_time"] - plain["iteration_time"]
    copies = WEIGHTS * (4 + 2) / 50e9
    on_gpu = WEIGHTS * (4 + 24 + 2) / 3.35e12
    assert longer == pytest.approx(copies + took - on_gpu, rel=0.02)
    assert told["peak_memory"] == pytest.approx(plain["peak_memory"] - 12 * WEIGHTS)


def test_buckets_run_beside_each_other_until_the_hosts_memory_is_busy_all_the_time():
    _, _, one = run("workload.optimizer.bucket=1000000000")
    _, _, many = run("workload.optimizer.bucket=1000000")
    hidden = one["iteration_time"] - many["iteration_time"]
    apart, busy = (4 + 2) / 50e9 + 30 / 400e9, (4 + 30 + 2) / 400e9  # copies use it, too
    assert hidden == pytest.approx(WEIGHTS * (apart - busy), rel=0.02)


EIGHT = ("cluster.node.gpu.count=8", "workload.batch=16")


def test_ranks_of_a_machine_share_its_memory_and_the_template_is_not_written_out():
    point, result, _ = run(*EIGHT, "workload.parallel.zero=0", "cluster.node.memory.size=1 TB")
    assert point.graph.template is not None
    assert result.keep == "ranks"
    detail = result.detail.frame()
    adam = detail[detail["name"] == "adam on the host"]
    took = (adam.groupby("rank")["end_us"].max() - adam.groupby("rank")["start_us"].min()) * 1e-6
    assert took.max() >= 8 * WEIGHTS * 30 / 400e9


def test_both_engines_give_the_same_tick():
    _, core, _ = run(*EIGHT, "workload.parallel.zero=1")
    _, plain, _ = run(*EIGHT, "workload.parallel.zero=1", "run.engine=reference")
    assert core.makespan_ticks == plain.makespan_ticks


def test_a_quicker_bus_is_quicker_where_the_memory_is_not_what_limits():
    c2c = TEXT.replace("bandwidth: 50 GB/s, latency: 0 s}", "via: nvlink-c2c}")
    fast = (*EIGHT, "workload.parallel.zero=1", "cluster.node.memory.bandwidth=4 TB/s")
    times = [run(*fast, text=text)[2]["iteration_time"] for text in (TEXT, c2c)]
    assert times[1] < 0.95 * times[0]


def test_the_fact_says_how_much_of_the_host_it_takes():
    point, _, _ = run()
    assert point.graph.facts["host_memory"].startswith(f"{16 * WEIGHTS / 1e9:.3g} GB")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            TEXT.replace("size: 64 GB", "size: 1 GB"),
            "workload.memory.offload: does not fit: .* 1.85 GiB",
        ),
        (TEXT.replace(", size: 64 GB", ""), "the memory of a machine's host is unknown"),
        (TEXT.replace("from: host", "from: gpu"), "give the node a link between host and GPU"),
        (
            TEXT.replace("memory: {off", "execution: {detail: layers}, memory: {off"),
            "take memory.offload: none, or",
        ),
    ],
)
def test_an_optimizer_that_cannot_be_on_the_host_is_refused(text, told):
    with pytest.raises(ForetraceError, match=told):
        run(text=text)
