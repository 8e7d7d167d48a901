"""Hosts of described training steps: behind their GPUs where kernels are short, ahead elsewhere."""

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.variants.samples import samples_of
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.errors import ForetraceError

TEXT = """
foretrace: 1
name: tiny
workload: {type: training, model: gpt2, batch: 8, sequence: 128, parallel: {micro_batch: 4}}
cluster:
  nodes: 1
  node:
    gpu: {model: a100-sxm4-80g, count: 1}
    host: {cores: 64, operator: 100 us}
    links: [{from: gpu, to: gpu, via: nvlink3}]
  fabric: {library: nccl-nvlink3, fidelity: alpha-beta}
backends: {"node*.gpu*": {use: roofline}}
run: {keep: ranks}
"""


def point(*set, text=TEXT):
    (one,) = build_variants(loads(text, set=set))
    return one


def seconds(*set, text=TEXT):
    return float(point(*set, text=text).run().makespan)


def dispatched(*set):
    """Ops that are no host's, of one step."""
    return len(next(iter(point("workload.execution.hosts=ahead", *set).built.graphs.values())))


def test_a_step_of_short_kernels_takes_as_long_as_its_thread():
    slow = seconds("cluster.node.host.operator=1 ms")
    assert slow == pytest.approx(dispatched() * 1e-3, rel=0.02)
    assert seconds("workload.execution.hosts=ahead") < 0.1 * slow


def test_a_step_whose_thread_is_quick_takes_as_long_as_without():
    ahead = seconds("workload.execution.hosts=ahead")
    assert seconds("cluster.node.host.operator=10 ns") == pytest.approx(ahead, rel=2e-3)


def test_the_thread_runs_ahead_where_kernels_are_long():
    long = (
        "workload.sequence=1024",
        "workload.parallel.micro_batch=8",
        "cluster.node.host.operator=20 us",
    )
    assert seconds(*long) == pytest.approx(
        seconds(*long, "workload.execution.hosts=ahead"), rel=0.01
    )


def test_hosts_are_threads_where_the_machine_says_what_dispatching_takes():
    told = seconds()
    assert (
        told
        == seconds("workload.execution.hosts=threads")
        > 2 * seconds("workload.execution.hosts=ahead")
    )
    nobody = TEXT.replace(", operator: 100 us", "")
    assert seconds(text=nobody) == seconds("workload.execution.hosts=ahead", text=nobody)
    assert seconds("cluster.node.host=epyc-7742-dual", text=nobody) > 1.5 * seconds(text=nobody)


def test_exchanges_have_a_cost_of_their_own_and_else_that_of_an_operator():
    two = ("cluster.node.gpu.count=2", "workload.parallel.tensor=2")
    plain = seconds(*two)
    assert seconds(*two, "cluster.node.host.exchange=100 us") == plain
    assert seconds(*two, "cluster.node.host.exchange=1 ms") > 1.5 * plain


def test_a_slower_host_is_an_override_and_shows_in_the_blame():
    slow = study(loads(TEXT, set=['cluster.override={"node0.host": {slowdown: 2}}'])).summary
    time = slow.value("base", "iteration_time.p50").value
    assert time == pytest.approx(seconds("cluster.node.host.operator=200 us"), rel=1e-6)
    assert slow.points["base"]["blame"]["node0.host"] > 0.9 * time


@pytest.mark.parametrize("keep", ["ranks", "ops"])
def test_the_compiled_engine_and_the_reference_agree(keep):
    eight = (
        "cluster.node.gpu.count=8", "workload.parallel={tensor: 2, pipeline: 2, zero: 1}",
        "workload.batch=16", "workload.iterations.measure=2", f"run.keep={keep}",
    )  # fmt: skip
    answers = []
    for engine in ("core", "reference"):
        one = point(*eight, f"run.engine={engine}")
        result = one.run()
        answers.append((result.makespan, samples_of(one, result)["iteration_time"].tolist()))
    assert answers[0] == answers[1]


def test_the_second_iteration_begins_while_the_first_ends_and_lasts_as_long():
    one = point("workload.iterations.measure=3")
    first, second, third = samples_of(one, one.run())["iteration_time"].tolist()
    assert second == pytest.approx(third, rel=1e-6)
    assert 0 < first - second < 3e-3  # its thread begins while the GPU still updates weights


def test_a_host_of_which_nobody_says_it_is_refused_with_the_cure():
    nobody = TEXT.replace(", operator: 100 us", "")
    with pytest.raises(ForetraceError, match=r"the time of its thread .*\.hosts: ahead"):
        seconds("workload.execution.hosts=threads", text=nobody)


def test_what_a_catalog_says_of_dispatching_is_doubted():
    told = TEXT.replace("{cores: 64, operator: 100 us}", "epyc-7742-dual")
    summary = study(loads(told)).summary
    low, high = summary.value("base", "iteration_time.p50").interval
    assert high > 2 * low
    assert "family dispatching" in [one["source"] for one in summary.points["base"]["errors"]]
