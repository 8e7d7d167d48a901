"""Values that nobody measured widen an interval; those that the user states do not."""

import pytest
from foretrace.models.value_doubts import ASSUMED_RATE, DATASHEET_RATE, UNMEASURED_TIME
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.studies.confidence.uncertainty import error_sources
from foretrace.scenarios.studies.confidence.unmeasured import (
    RATES,
    TIMES,
    time_bounds_of_unmeasured,
)
from foretrace.scenarios.studies.run.plan import plan
from foretrace.scenarios.studies.run.run import study
from foretrace.scenarios.studies.variants.variants import build_variants

SCENARIO = """
foretrace: 1
name: far
workload: {{trace: "foretrace:ddp-gpt", recorded_on: {{device: epyc-zen4-core, nodes: 2}}}}
cluster:
  nodes: 2
  node: {{gpu: {{model: {gpu}, count: 1}}, host: epyc-zen4-vm, nic: {nic}}}
  fabric: {{library: {library}, switch: {switch}}}
{more}
run: {{replicas: 1}}
"""
PARTS = {"gpu": "epyc-zen4-core", "nic": "loopback-tcp", "library": "gloo", "switch": "null"}


def scenario(more="", **parts):
    return loads(SCENARIO.format(**PARTS | parts, more=more))


def test_a_datasheet_rate_is_not_what_is_reached():
    found = time_bounds_of_unmeasured([scenario(nic="connectx-7")])
    assert found == {RATES: {"nic": DATASHEET_RATE}, TIMES: {"nic": UNMEASURED_TIME}}


def test_a_share_that_is_assumed_is_as_wrong_as_that_of_another_part():
    found = time_bounds_of_unmeasured(
        [scenario(nic="connectx-7", library="nccl-nvlink4")], ["fabric"]
    )
    assert found[RATES] == {"nic": ASSUMED_RATE}


def test_what_the_user_states_has_no_doubt():
    mine = "{bandwidth: 10 GB/s, latency: 1 us, overhead: 1 us}"
    assert time_bounds_of_unmeasured([scenario(nic=mine)]) == {}


def test_what_is_inside_a_fitted_value_is_not_counted_again():
    told = scenario(switch="lab-port")
    assert "fabric" not in time_bounds_of_unmeasured([told], ["fabric"]).get(TIMES, {})
    assert time_bounds_of_unmeasured([scenario()]) == {}


def width(told):
    """Of the interval, relative; 0 without one."""
    value = study(told).summary.value("base", "iteration_time.p50")
    assert value.interval_of == ("model",) * (value.interval is not None)
    low, high = value.interval or (value.value, value.value)
    return (high - low) / value.value


def test_a_network_that_nobody_measured_widens_the_interval():
    """10 Gbit/s that are assumed, and 10 Gbit/s that are asked about."""
    stated = "{bandwidth: 10 Gbit/s, latency: 5 us, ports: 64}"
    assert width(scenario(switch="lab-port")) > 0.02 > 10 * width(scenario(switch=stated))


@pytest.mark.nightly
def test_a_gpu_of_a_datasheet_alone_is_as_wrong_as_rooflines_of_other_gpus():
    bare = "{model: b200-sxm-180g, count: 1, kernels: ''}"
    told = loads(
        SCENARIO.format(**PARTS, more="").replace("{model: epyc-zen4-core, count: 1}", bare)
    )
    assert error_sources([told]).blind
    assert width(told) > 0.1


@pytest.mark.nightly
def test_a_plan_counts_the_runs_that_doubts_take():
    told = scenario(gpu="b200-sxm-180g")
    sources = error_sources([told], build_variants(told))
    names = [name for group in sources.families for name in group]
    assert "product" in names
    bound = 'backends: {"node*.gpu*": recorded, "node*.host": recorded}'
    alone = plan(scenario(bound, gpu="b200-sxm-180g")).simulations
    assert plan(told).simulations == alone + 2 * len(sources.families)
