"""A constructor may take groups of settings; old flat names are understood with a message."""

import logging
from dataclasses import dataclass

import pytest
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.loader import load, loads, with_overrides
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.settings import constructor_model, plain_settings
from foretrace.scenarios.studies.building.system import build_backends, build_system
from foretrace.scenarios.studies.fitting.catalog_entry import settings_before_fit
from foretrace.scenarios.studies.fitting.part_fit import part_to_fit
from foretrace.sim.errors import ScenarioError
from foretrace.sim.setting_groups import construct_with_groups
from foretrace.sim.units import Ratio, Seconds

SCENARIO = """foretrace: 1
name: grouped
cluster:
  nodes: 2
  node:
    gpu: {model: h100-sxm5-80g, count: 2}
    nic: {model: connectx-7, count: 2}
    links: [{from: gpu, to: gpu, via: nvlink4}]
  fabric:
    switch: tomahawk-4
    library:
      model: nccl-nvlink4
      LIBRARY
workload: {type: transfers, ops: [{op: "collective:all-reduce", bytes: 1 MiB}]}
"""
LINE = 13  # of LIBRARY


@dataclass(frozen=True)
class Retry:
    """Attempts after a failure.

    Parameters
    ----------
    wait : Seconds
        Time before one.
    """

    wait: Seconds
    share: Ratio = 0.5


class Sender:
    """Sends."""

    def __init__(self, *, retry: Retry | None = None, last: Retry = Retry(2.0)):
        self.retry, self.last = retry, last


def scenario(library, **more):
    return loads(SCENARIO.replace("LIBRARY", library), file="s.yaml", **more)


def fabric(scenario):
    system = build_system(scenario)
    return build_backends(scenario, system)[system.fabric]


def problem(text, **more):
    with pytest.raises(InvalidScenarioError) as caught:
        scenario(text, **more)
    return str(caught.value)


def test_a_group_is_read_with_units_and_constructed():
    read = constructor_model(Sender).model_validate({"retry": {"wait": "3 us"}})
    made = construct_with_groups(Sender, plain_settings(read))
    assert (made.retry, made.last) == (Retry(3e-6), Retry(2.0))


def test_a_group_of_a_file_lies_over_that_of_the_catalog():
    told = scenario("ll: {launch: 9 us}").cluster.fabric.library.settings["ll"]
    assert told["launch"] == 9e-6
    assert told["step"] == pytest.approx(0.831e-6)


def test_a_binding_lies_over_the_part_group_by_group():
    text = SCENARIO.replace("LIBRARY", "ll: {launch: 9 us}")
    made = fabric(loads(text + "backends: {fabric: {use: fabric, ll: {step: 2 us}}}\n"))
    assert made.protocols["ll"][:2] == (9e-6, 2e-6)


def test_an_unknown_key_of_a_group_names_the_nearest_and_the_place():
    told = problem("ll: {lunch: 9 us}")
    assert "unknown key 'lunch'; did you mean 'launch'?" in told
    assert f"s.yaml:{LINE}:12  cluster.fabric.library.ll.lunch" in told


def test_a_unit_of_a_group_is_checked_in_its_place():
    told = problem("simple: {network: {step: 9}}")
    assert "cluster.fabric.library.simple.network.step" in told
    assert "us" in told


def test_a_group_that_is_no_mapping_is_refused():
    assert "'9 us' is not a mapping" in problem("ll: 9 us")


def test_an_unknown_key_of_a_group_of_a_backend_is_told():
    text = SCENARIO.replace("LIBRARY", "choice: nccl")
    with pytest.raises(InvalidScenarioError, match="did you mean 'rate'"):
        loads(text + "backends: {fabric: {use: fabric, cores: {rat: 1 GB/s}}}\n")


def test_settings_of_groups_are_explained():
    assert "latency of each step" in explain("fabric.ll.step").what
    assert "eager_limit" in explain("cluster.fabric.library.network").below


def test_nested_settings_are_set_varied_and_resolved():
    one = scenario("choice: nccl", set=["cluster.fabric.library.ll.launch=7 us"])
    assert fabric(one).protocols["ll"].launch == 7e-6
    again = with_overrides(one.resolved(), {"cluster.fabric.library.sends.ll.rate": "1 GB/s"})
    assert fabric(again).of_sends["ll"].pair_rate == 1e9
    assert fabric(again).protocols["ll"].launch == 7e-6


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("launch_ll: 9 us", "ll: {launch: 9 us}"),
        ("network_step: 9 us", "simple: {network: {step: 9 us}}"),
        ("send_rate_ll: 1 GB/s", "sends: {ll: {rate: 1 GB/s}}"),
        ("low_latency_launch: null", "sends: {low_latency: {launch: null}}"),
    ],
)
def test_old_names_are_understood_with_a_message(caplog, old, new):
    name = old.partition(":")[0]
    with caplog.at_level(logging.WARNING):
        told = scenario(old).cluster.fabric.library
    assert told == scenario(new).cluster.fabric.library
    (message,) = [r.getMessage() for r in caplog.records]
    assert message.startswith(f"s.yaml:{LINE}:7: 'cluster.fabric.library.{name}' is now 'cluster.")
    assert "release 0.3" in message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("peak_fp8: 1 Tflop/s", "peaks: {fp8: 1 Tflop/s}"),
        ("launch_fp8: 9 us", "gemm: {fp8: {launch: 9 us}}"),
        ("tf32: true", "gemm: {tf32: true}"),
        ("cache: 2 MiB, cache_bandwidth: 1 TB/s", "cache: {size: 2 MiB, bandwidth: 1 TB/s}"),
        ("shared_cache: 2 MiB", "chip: {cache: 2 MiB}"),
    ],
)
def test_old_names_of_a_gpu_are_understood(old, new):
    one, two = (
        loads(
            SCENARIO.replace("LIBRARY", "choice: nccl").replace("count: 2}", f"count: 2, {t}}}", 1)
        )
        for t in (old, new)
    )
    assert one.cluster.node.gpu == two.cluster.node.gpu


def test_a_group_with_the_old_name_of_a_setting_is_set_and_varied_by_either():
    base = loads(
        SCENARIO.replace("LIBRARY", "choice: nccl") + "what_if:\n"
        "  - {name: old, set: {cluster.node.gpu.cache: 2 MiB, cluster.node.gpu.cache_bandwidth: "
        "1 TB/s}}\n"
        "  - {name: new, set: {cluster.node.gpu.cache: {size: 2 MiB, bandwidth: 1 TB/s}}}\n"
        "sweep: {vary: {cluster.node.gpu.cache: [2 MiB, 4 MiB]}}\n"
    )
    old, new = (one.cluster.node.gpu.settings["cache"] for one in base.others)
    assert old == new == {"size": 2 * 2**20, "bandwidth": 1e12}
    assert list(base.resolved()["sweep"]["vary"]) == ["cluster.node.gpu.cache.size"]


def test_old_names_of_set_variants_and_sweeps_are_understood(caplog):
    more = (
        "what_if: [{name: a, set: {cluster.fabric.library.launch_ll: 9 us}}]\n"
        'sweep: {vary: {"cluster.fabric.library.launch_ll, cluster.nodes": [[8 us, 2]]}}\n'
    )
    one = loads(
        SCENARIO.replace("LIBRARY", "choice: nccl") + more,
        set=["cluster.fabric.library.core_rate=1 GB/s"],
    )
    assert fabric(one).cores.rate == 1e9
    assert fabric(one.others[0]).protocols["ll"].launch == 9e-6
    (vary,) = one.resolved()["sweep"]["vary"]
    assert vary == "cluster.fabric.library.ll.launch, cluster.nodes"
    assert len(caplog.records) == 3


def test_an_old_name_beside_the_new_one_is_refused():
    told = problem("launch_ll: 9 us\n      ll: {launch: 8 us}")
    assert (
        "'launch_ll' is the old name of 'll.launch', and both are given; keep 'll.launch'" in told
    )


def test_old_names_of_an_entry_of_ones_own_are_understood(tmp_path, caplog):
    (tmp_path / "own.yaml").write_text(
        "library:\n  own:\n    launch: {value: 4 us, source: {kind: assumed, where: here}}\n"
    )
    text = SCENARIO.replace("nccl-nvlink4", "own").replace("LIBRARY", "choice: nccl")
    one = loads(text, catalogs=[tmp_path])
    assert fabric(one).protocols["simple"].launch == 4e-6
    assert "own.yaml:3:5: 'catalog.library.own.launch' is now" in caplog.text


def test_old_names_of_a_gpu_of_ones_own_are_understood(tmp_path, caplog):
    (tmp_path / "own.yaml").write_text(
        "gpu:\n  own:\n    cache: {value: 4 MiB, source: {kind: assumed, where: here}}\n"
        "    cache_bandwidth: {value: 1 TB/s, source: {kind: assumed, where: here}}\n"
    )
    text = SCENARIO.replace("h100-sxm5-80g", "own").replace("LIBRARY", "choice: nccl")
    gpu = loads(text, catalogs=[tmp_path]).cluster.node.gpu
    assert gpu.settings["cache"] == {"size": 4 * 2**20, "bandwidth": 1e12}
    assert (
        "own.yaml:3:5: 'catalog.gpu.own.cache' is now 'catalog.gpu.own.cache.size'" in caplog.text
    )


def test_what_a_fit_knows_is_named_with_dots():
    before = settings_before_fit("library", "", ["ll.launch=5 us"], [])
    assert before.settings == {"ll": {"launch": pytest.approx(5e-6)}}
    with pytest.raises(ScenarioError, match=r"did you mean 'll\.launch'"):
        settings_before_fit("library", "", ["ll.lunch=5 us"], [])


def test_old_names_of_a_swap_are_understood(caplog):
    swap = "hil: {swap: [{component: node0.nic0, driver: recorded, SAID}]}\n"
    text = SCENARIO.replace("LIBRARY", "choice: nccl") + swap
    old = loads(text.replace("SAID", "context: cold, others: model"), file="s.yaml")
    new = loads(text.replace("SAID", "ops: {context: cold, others: model}"))
    assert old.section("hil") == new.section("hil")
    assert old.section("hil").swap[0].ops.context == "cold"
    assert "'hil.swap.0.context' is now 'hil.swap.0.ops.context'" in caplog.text


def test_a_fit_names_the_new_name_of_an_old_one():
    with pytest.raises(ScenarioError, match=r"no 'launch_ll'; 'launch_ll' is now 'll\.launch'"):
        settings_before_fit("library", "", ["launch_ll=5 us"], [])
    with pytest.raises(
        ScenarioError, match=r"no parameter join; 'join' is now 'gemm\.join'; write"
    ):
        part_to_fit("gpu", {"bandwidth": 1e12}, ["join"])


def test_the_library_of_scenarios_has_no_old_name(caplog):
    load("offline-profiling")
    assert not caplog.records
