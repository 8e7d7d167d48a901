"""Driver ``memory``: streams and loads beside them, on the memory that is here."""

import ctypes
import os

import numpy as np
import pytest
from foretrace.hil.driver import Ready
from foretrace.hil.driver_registry import make_driver
from foretrace.hil.drivers.linux import numa_pages
from foretrace.hil.drivers.memory import memory_load
from foretrace.hil.drivers.memory.memory_load import PIECE
from foretrace.hil.sample import Request
from foretrace.hil.sample_checks import check_samples
from foretrace.sim.errors import DriverFault

STREAM = "host:memory-stream threads={} reads={} uint8[{}]"
LOADED = "host:memory-under-load threads={} reads={} uint8[{}]"


@pytest.fixture
def memory():
    driver = make_driver("memory")
    driver.open({"clock": "cpu"})
    yield driver
    driver.close()


def test_the_machine_s_own_memory_is_enough(memory):
    assert memory.describe()["device"] == "node0"
    memory.close()
    assert isinstance(memory.probe(), Ready)


@pytest.mark.parametrize("reads", [0, 75, 100])
def test_streams_and_loads_are_timed_for_each_share_of_reads(memory, reads):
    asked = [
        Request(STREAM.format(1, reads, 4 * PIECE), 3),
        Request(LOADED.format(0, reads, PIECE), 2),
    ]
    found = memory.timing(asked)
    check_samples(asked, found, "memory")
    assert [s.clock for s in found] == ["cpu", "cpu"]
    assert found[1].facts["drawn"] == 0.0


def test_loads_say_what_was_drawn_beside_them(memory, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    (sample,) = memory.timing([Request(LOADED.format(1, 50, 4 * PIECE), 20)])
    assert len(sample.ns) == 20
    assert np.all(sample.ns > 0)
    assert sample.facts["drawn"] >= 0


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (STREAM.format(99, 50, PIECE), "99 threads are not possible; give 1 to [0-9]+, one proces"),
        (STREAM.format(0, 50, PIECE), "0 threads are not possible; give 1 to"),
        (STREAM.format(1, 101, PIECE), "reads is 101; give 0 to 100"),
        (STREAM.format(1, 50, PIECE + 4096), "a multiple of 1048576 B up to"),
        ("host:memory-stream threads=1 uint8[1048576]", "give threads= and reads=, in %"),
        ("host:memory-stream threads=1 reads=5 nt=1 uint8[1048576]", "give threads= and reads="),
    ],
)
def test_what_cannot_be_timed_is_refused(memory, op, why):
    with pytest.raises(DriverFault, match=f"^unsupported: .*{why}"):
        memory.timing([Request(op)])


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"nodes": "0,7"}, "^missing: node 7 has no memory, but these nodes have: 0; look at num"),
        ({"nodes": "all"}, "^unsupported: nodes 'all' are not node numbers"),
        ({"clock": "tsc"}, "^unsupported: clock is 'tsc'"),
    ],
)
def test_settings_that_this_machine_has_not_are_refused(monkeypatch, spec, why):
    monkeypatch.setattr(memory_load, "numa_nodes_with_memory", lambda: {0: (1 << 30, True)})
    with pytest.raises(DriverFault, match=why):
        make_driver("memory").open(spec)


@pytest.mark.parametrize(("nodes", "way", "mask"), [(0, 2, 1), ((0, 0), 2, 1), ((0, 1), 3, 3)])
def test_pages_of_several_nodes_are_placed_in_turn(monkeypatch, nodes, way, mask):
    """MPOL_BIND for one node, MPOL_INTERLEAVE for several."""
    asked = []

    def call(which, address, size, how, at, *rest):
        asked.append((how, at._obj.value))

    monkeypatch.setattr(numa_pages, "_call", call)
    numa_pages.PageBlock(1 << 20, nodes)
    assert asked == [(way, mask)]


@pytest.mark.parametrize("op", [STREAM.format(1, 100, PIECE), LOADED.format(0, 100, PIECE)])
def test_each_sample_on_several_nodes_tells_the_share_of_pages_on_each(monkeypatch, op):
    def call(which, first, n, pages, to, status, *rest):
        if which == 1:  # three of four pages lie on the second node
            nodes = (ctypes.c_int32 * n).from_address(status)
            nodes[:] = [int(k % 4 > 0) for k in range(n)]

    both = {0: (1 << 30, True), 1: (1 << 30, False)}
    monkeypatch.setattr(memory_load, "numa_nodes_with_memory", lambda: both)
    monkeypatch.setattr(numa_pages, "_call", call)
    driver = make_driver("memory")
    driver.open({"nodes": "0,1"})
    (sample,) = driver.timing([Request(op, 1)])
    driver.close()
    assert (sample.facts["node0"], sample.facts["node1"]) == (0.25, 0.75)
