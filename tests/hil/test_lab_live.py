"""The lab, booted: real drivers answer, in the right order and within wide bounds.

Numbers are judged on the committed recordings; here the machines have to work.  What is not
built is skipped with its name, and ``make lab-test`` builds it first.
"""

import numpy as np
import pytest
from foretrace.hil.driver import Ready
from foretrace.hil.lab import qemu, store
from foretrace.hil.lab.boot import booted
from foretrace.hil.lab.record import kept, medians
from foretrace.hil.sample import Request
from foretrace.sim.errors import DriverFault

pytestmark = pytest.mark.hardware("lab")
UML = (store.UML_KERNEL, store.ROOT)
QEMU = (qemu.PROGRAM, store.GUEST_KERNEL, store.GUEST_INITRD, store.GUEST_DISK)


def machine(name, driver, **settings):
    """A machine of the lab, or a skip that says what is not built."""
    lacking = [
        part for part in (UML if name == "uml" else QEMU) if not (store.home() / part).exists()
    ]
    if lacking:
        pytest.skip(f"THE LAB IS NOT BUILT: {name} lacks {', '.join(lacking)}; foretrace lab up")
    return booted(name, driver, settings)


def median(driver, signature, n=3):
    (sample,) = driver.timing([Request(signature, n)])
    return sample.median


@pytest.fixture(scope="module")
def virtual():
    driver = machine("uml", "switch", ends="5")
    yield driver
    driver.close()


def test_writes_cross_the_real_bridge_and_its_counters_say_so(virtual):
    virtual.open({"ends": "verbs", "rate": "1gbit", "delay_us": 1.0})
    (sample,) = virtual.timing([Request("send:rdma-write uint8[65536]", 3)])
    assert sample.clock == "timetravel"
    assert sample.facts["port2.bytes"] > 5 * 65536
    assert 500e3 < sample.median < 700e3
    kept_median = medians(kept("timetravel-1gbit"))[sample.key]
    assert sample.median == pytest.approx(kept_median, rel=0.1)
    virtual._ask("close")


def test_two_writes_into_one_port_take_twice_as_long(virtual):
    virtual.open({"ends": "verbs", "rate": "10gbit", "senders": "rxe1,rxe3"})
    alone = median(virtual, "send:rdma-write flows=1 uint8[1048576]")
    both = median(virtual, "send:rdma-write flows=2 uint8[1048576]")
    assert both == pytest.approx(2 * alone, rel=0.05)
    virtual._ask("close")


def test_a_slower_port_and_a_longer_message_take_longer(virtual):
    found = {}
    for rate in ("10gbit", "1gbit"):
        virtual.open({"ends": "verbs", "rate": rate})
        for size in (4096, 262144):
            found[rate, size] = median(virtual, f"send:rdma-write uint8[{size}]")
        virtual._ask("close")
    assert found["10gbit", 4096] < found["1gbit", 4096] < found["1gbit", 262144]
    assert found["10gbit", 262144] < found["1gbit", 262144]


def test_polling_is_refused_in_virtual_time(virtual):
    with pytest.raises(DriverFault, match="polling where the processor costs nothing"):
        virtual.open({"ends": "verbs", "completions": "poll"})


WAYS = [
    ({"metric": "half_rtt"}, "send:rdma-send uint8[64]"),
    ({"metric": "bandwidth"}, "send:rdma-write depth=16 qps=2 uint8[65536]"),
    ({"metric": "message_rate"}, "send:rdma-read depth=4 uint8[64]"),
    ({"transport": "uc"}, "send:rdma-write uint8[4096]"),
    ({"transport": "uc"}, "send:rdma-send uint8[4096]"),
    ({"transport": "ud"}, "send:rdma-send uint8[1024]"),
    ({}, "send:rdma-send uint8[4096]"),
    ({}, "send:rdma-read uint8[4096]"),
]


def test_every_transport_metric_and_op_of_rdma_answers():
    driver = machine("uml", "verbs")
    try:
        for spec, op in WAYS:
            driver.open(spec)
            (sample,) = driver.timing([Request(op, 2)])
            assert sample.metric == spec.get("metric", "completion")
            assert np.all(sample.ns > 0), op
            driver._ask("close")
    finally:
        driver.channel.close()


def test_gloo_takes_longer_with_more_ranks():
    driver, found = machine("uml", "collective"), []
    try:
        for ranks in (2, 4, 8):
            driver.open({"ranks": ranks, "rate": "10gbit", "delay_us": 5.0})
            found.append(median(driver, "collective:all-reduce fp32[1048576]"))
            driver._ask("close")
    finally:
        driver.channel.close()
    assert found == sorted(found)
    assert found[0] > 4 * 1048576 / 1.25  # ns: no faster than the port lets half of it twice


@pytest.fixture(scope="module")
def counted():
    driver = machine("qemu", "verbs")
    driver.open({})
    yield driver
    driver.close()


def test_counted_writes_are_where_they_were(counted):
    (sample,) = counted.timing([Request("send:rdma-write uint8[65536]", 3)])
    assert sample.clock == "icount"
    assert sample.median == pytest.approx(medians(kept("icount-verbs"))[sample.key], rel=0.3)


def test_each_call_that_sets_up_takes_its_own_time(counted):
    calls = (
        "open",
        "alloc-pd",
        "create-cq",
        "create-qp",
        "modify-init",
        "modify-rtr",
        "modify-rts",
    )
    times = [median(counted, f"host:verbs-{call} uint8[64]") for call in calls]
    assert min(times) > 1e3
    small, large = (median(counted, f"host:verbs-reg-mr uint8[{n}]") for n in (4096, 4 << 20))
    assert large > small


def test_pages_move_to_the_expander_and_back():
    driver = machine("qemu", "cxl", cxl="1")
    try:
        assert isinstance(driver.probe(), Ready)
        driver.open({})
        assert driver.describe()["memory"] == "emulated"
        asked = [Request(f"copy:{way} uint8[{n}]", 2) for way in ("h2c", "c2h")
                 for n in (4096, 262144)]  # fmt: skip
        found = driver.timing(asked)
        assert [s.facts["placed"] for s in found] == [1.0] * 4
        assert found[0].median < found[1].median
        (walk,) = driver.timing([Request("host:memory-chase tier=far uint8[65536]", 2)])
        assert walk.flags == ("emulated",)
        assert np.all(walk.ns > 0)
    finally:
        driver.close()
