"""The host driver on this machine: real ops, whose answers must be possible and ordered."""

import os

import numpy as np
import pytest
from foretrace.hil import sample_checks
from foretrace.hil.driver import Ready
from foretrace.hil.drivers.linux import pointer_chase
from foretrace.hil.drivers.memory.host import HostDriver
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault

OPS = [
    "copy:h2h uint8[65536]",
    "host:read uint8[65536]",
    "host:fill uint8[65536]",
    "host:chase uint8[65536]",
    "compute:aten::mm fp32[64x32] fp32[32x16]",
    "compute:aten::mm fp64[64x32] fp64[32x16]",
    "compute:aten::add fp32[1000] fp32[1000]",
]


@pytest.fixture
def host():
    before = os.sched_getaffinity(0)
    driver = HostDriver()
    driver.open({})
    yield driver
    driver.close()
    assert os.sched_getaffinity(0) == before


def test_it_works_wherever_there_is_linux_and_numpy():
    state = HostDriver().probe()
    assert isinstance(state, Ready)
    assert state.devices[0].startswith("core")


@pytest.mark.parametrize("context", ["warm", "cold"])
def test_every_op_on_its_list_is_done_and_timed(host, context):
    asked = [Request(op, 3, context) for op in OPS]
    samples = host.timing(asked)
    sample_checks.check_samples(asked, samples, "host", "cpu")
    assert {s.signature.split()[0] for s in samples} == set(HostDriver.ops)
    assert host.describe()["device"].endswith(f"core{host.settings['core']}")


def test_it_is_pinned_to_one_core(host):
    assert os.sched_getaffinity(0) == {host.settings["core"]}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("op", "small", "large", "times"),
    [("copy:h2h", 1 << 16, 1 << 24, 20), ("host:chase", 1 << 12, 1 << 26, 3)],
)
def test_a_larger_copy_and_a_larger_working_set_take_longer(host, op, small, large, times):
    """The median of rounds in which one is timed next to the other."""
    asked = [Request(f"{op} uint8[{n}]", 5) for n in (small, large)]
    rounds = [[s.median for s in host.timing(asked)] for _ in range(9)]
    assert np.median([slow / fast for fast, slow in rounds]) > times


@pytest.mark.parametrize("size", [1 << 12, 1 << 16])
def test_a_copy_moves_every_byte_from_one_place_to_another(host, monkeypatch, size):
    moved = set()
    monkeypatch.setattr("foretrace.hil.drivers.memory.host.MOVE", lambda *told: moved.add(told))
    host.timing([Request(f"copy:h2h uint8[{size}]")])
    ((to, start, length),) = moved
    assert length == size <= abs(to - start)


def test_context_is_restored_before_each_repeat(host):
    done = []
    host.calls = {"host:read uint8[64]": (lambda: done.append("before"), 1)}
    host.builders = {**host.builders, "host:fill": lambda parts: (lambda: done.append("op"), 1)}
    host.timing([Request("host:fill uint8[64]", 3, "after", ("host:read uint8[64]",))])
    assert done == ["op"] + ["before", "op"] * 3


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("host:chase uint8[100]", "give a multiple of 64 B"),
        ("compute:aten::mm fp32[2x3] fp32[4x5]", "the columns of the first matrix are not"),
        ("compute:aten::mm fp32[2x3]", "give two matrices"),
        ("compute:aten::mm fp16[2x3] fp16[3x2]", "NumPy has no fp16"),
        ("copy:h2h", "has no operand"),
        ("copy:h2h uint8[99999999999]", "4294967296 B are allowed"),
    ],
)
def test_what_it_cannot_do_says_why(host, signature, said):
    with pytest.raises(DriverFault, match=said):
        host.timing([Request(signature)])


def test_settings_that_cannot_be_are_refused():
    for spec, said in (
        ({"core": 4096}, "core 4096 is not available"),
        ({"clock": "sun"}, "one of wall, cpu"),
    ):
        with pytest.raises(DriverFault, match=said):
            HostDriver().open(spec)


def test_a_second_run_on_the_same_core_is_refused(host):
    with pytest.raises(
        DriverFault, match=f"busy: core{host.settings['core']}: measured by process"
    ):
        HostDriver().open({"core": host.settings["core"]})


def test_a_ring_is_one_cycle_through_every_line():
    words = pointer_chase.pointer_ring(64 * 100, seed=3)
    walk, seen = pointer_chase.machine_code_loop(), []
    at = words.ctypes.data
    for _ in range(100):
        seen.append(at)
        at = walk(at, 1)
    assert at == words.ctypes.data
    assert sorted(seen) == (words.ctypes.data + 64 * np.arange(100)).tolist()


def test_another_processor_is_unsupported(monkeypatch):
    monkeypatch.setattr(pointer_chase.platform, "machine", lambda: "pdp11")
    with pytest.raises(DriverFault, match="unsupported: no pointer chase for pdp11"):
        pointer_chase.machine_code_loop()
    state = HostDriver().probe()
    assert (state.kind, state.cure) == ("unsupported", "bind a recording instead")


def test_where_code_may_not_be_made_the_chase_is_denied_with_its_cure(monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pointer_chase.mmap, "mmap", refuse)
    state = HostDriver().probe()
    assert state.kind == "denied"
    assert "writable and executable: Permission denied; allow execmem" in state.reason
