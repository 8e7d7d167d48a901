"""The lab's drivers where their devices are absent: what a probe says, and what is refused."""

import os
import sys
import types
from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace.hil.driver import Missing, Ready
from foretrace.hil.driver_registry import make_driver
from foretrace.hil.drivers.linux import netns
from foretrace.hil.drivers.network import collective, switch
from foretrace.hil.measuring.device_lock import lock_device
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault


def pyverbs(monkeypatch, listed):
    """A pyverbs whose device list is what a machine without RDMA, or with it, gives."""
    package, device = types.ModuleType("pyverbs"), types.ModuleType("pyverbs.device")
    device.get_device_list = listed
    package.device = device
    monkeypatch.setitem(sys.modules, "pyverbs", package)
    monkeypatch.setitem(sys.modules, "pyverbs.device", device)


def two():
    return [types.SimpleNamespace(name=name) for name in (b"rxe1", b"rxe2")]


def test_verbs_without_pyverbs_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyverbs", None)
    state = make_driver("verbs").probe()
    assert isinstance(state, Missing)
    assert (state.kind, "python3-pyverbs" in state.cure) == ("missing", True)


def test_no_device_is_missing_whether_the_library_raises_or_lists_none(monkeypatch):
    def fails():
        raise RuntimeError("Failed to get devices list")

    for listed in (list, fails):
        pyverbs(monkeypatch, listed)
        state = make_driver("verbs").probe()
        assert isinstance(state, Missing)
        assert state.kind == "missing"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"device": "mlx5_9"}, "no RDMA device 'mlx5_9'; there are: .*rxe1"),
        ({"transport": "xrc"}, "transport is 'xrc'; one of rc, uc, ud"),
        ({"metric": "latency"}, "metric is 'latency'; one of completion, half_rtt"),
        ({"completions": "poll"}, "polling never ends under the clock timetravel"),
        ({"depth": 4}, "no setting 'depth'; it takes: device"),
    ],
)
def test_verbs_refuses_what_it_cannot_do(monkeypatch, spec, why):
    pyverbs(monkeypatch, two)
    verbs = make_driver("verbs")
    verbs.clock = "timetravel"
    with pytest.raises(DriverFault, match=why):
        verbs.open(spec)


def test_setting_up_takes_no_time_where_the_processor_costs_nothing(monkeypatch):
    pyverbs(monkeypatch, two)
    verbs = make_driver("verbs")
    verbs.clock = "timetravel"
    verbs.open({})
    with pytest.raises(DriverFault, match="measure it under icount"):
        verbs.timing([Request("host:verbs-create-qp uint8[64]")])


def test_datagrams_are_not_written(monkeypatch):
    pyverbs(monkeypatch, two)
    verbs = make_driver("verbs")
    verbs.open({"transport": "ud"})
    with pytest.raises(DriverFault, match="rdma-write is not possible over transport ud"):
        verbs.timing([Request("send:rdma-write uint8[64]")])


def test_a_switch_alone_cannot_be_timed():
    driver = make_driver("switch")
    driver.open({})
    with pytest.raises(DriverFault, match=r"alone cannot be timed: .* at its two ends"):
        driver.timing([Request("send:rdma-write uint8[64]")])
    driver.close()


def test_devices_on_a_switch_need_the_lab():
    with pytest.raises(DriverFault, match="no namespace 'switch'"):
        make_driver("switch").open({"ends": "verbs"})


def test_the_queue_of_a_port_is_what_was_asked_for():
    told = {**switch.SETTINGS, "rate": "1gbit", "loss": 1.5}
    assert " ".join(switch.queue_arguments(told)) == "netem loss 1.5% rate 1gbit limit 10000"
    assert (
        switch.queue_arguments(switch.SETTINGS) == switch.queue_arguments(collective.SETTINGS) == []
    )


@pytest.mark.parametrize("name", ["verbs", "switch", "collective", "cxl"])
def test_a_probe_never_raises_and_always_names_a_cure(name):
    state = make_driver(name).probe()
    assert isinstance(state, Ready | Missing)
    if isinstance(state, Missing):
        assert state.reason
        assert state.cure


def test_cxl_without_a_far_node_is_missing():
    driver = make_driver("cxl")
    with pytest.raises(DriverFault, match=r"no NUMA node with memory but without processors .*lab"):
        driver.open({"far": 63})


def test_a_dax_device_that_is_not_there_is_missing():
    with pytest.raises(DriverFault, match=r"/dev/dax9\.9 cannot be read"):
        make_driver("cxl").open({"dax": "/dev/dax9.9"})


def test_near_memory_answers_everywhere():
    """Placing and reading need no second node; the far tier is the same node here."""
    driver = make_driver("cxl")
    driver.open({"far": 0})
    asked = [
        Request(f"host:memory-{op} tier=near uint8[65536]", 2) for op in ("place", "read", "chase")
    ]
    place, read, walk = driver.timing(asked)
    assert place.facts == {"placed": 1.0}
    assert np.median(walk.ns) < np.median(read.ns)
    with pytest.raises(DriverFault, match="give tier=near or tier=far"):
        driver.timing([Request("host:memory-read uint8[64]")])
    driver.close()


def test_a_collective_of_one_rank_is_refused():
    with pytest.raises(DriverFault, match="ranks is 1; give 2 to 64"):
        make_driver("collective").open({"ranks": 1})


@pytest.mark.parametrize(
    ("name", "device", "spec"),
    [
        ("switch", "bridge", {"ends": "sockets"}),
        ("collective", "bridge", {}),
        ("cxl", "memory-node0", {"far": 0}),
        ("host", f"core{max(os.sched_getaffinity(0))}", {}),
    ],
)
def test_a_driver_does_not_open_what_another_run_measures(name, device, spec):
    with lock_device(device), pytest.raises(DriverFault, match=f"^busy: {device}: measured by"):
        make_driver(name).open(spec)


def test_a_device_is_free_again_once_its_driver_is_closed():
    for _ in range(2):
        driver = make_driver("cxl")
        driver.open({"far": 0})
        driver.close()


def test_a_command_that_is_not_there_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DriverFault, match="missing: ip is not installed; apt install iproute2"):
        netns.run_command("ip", "link")


@pytest.mark.parametrize(
    ("name", "device"), [("verbs", "a NIC"), ("perftest", "a NIC"), ("cxl", "an expander")]
)
def test_the_page_of_limits_says_what_a_driver_has_not_seen(name, device):
    page = Path(foretrace.__file__).parent / "docs/limits.md"
    parts = " ".join(page.read_text().split()).replace("; ", ". ").split(". ")
    assert any(f"`{name}`" in part and f"never on {device}" in part for part in parts)
