"""Message rates: asymptotic bounds of a closed system, in every combination."""

import numpy as np
import pytest
from foretrace.models.network.part.message_rate import MessageRate
from foretrace.models.network.part.nic import Nic
from hypothesis import given
from hypothesis import strategies as st

NIC = MessageRate(latency=2e-6, bandwidth=12.5e9, service=5e-9, pair=5e-8, outstanding=1e6)
size = st.integers(1, 1 << 20)
depth = st.integers(1, 256)
pairs = st.integers(1, 64)


@given(size, depth, pairs)
def test_no_message_is_faster_than_the_wire_its_queue_pair_or_the_nic(size, depth, pairs):
    took = float(NIC.seconds(size, depth, pairs))
    assert took >= float(NIC.wire_seconds(np.float64(size)))
    assert took >= max(NIC.service, NIC.pair / pairs)


@given(size, depth, pairs)
def test_more_outstanding_or_more_queue_pairs_never_take_longer(size, depth, pairs):
    took = NIC.seconds(size, depth, pairs)
    assert NIC.seconds(size, 2 * depth, pairs) <= took
    assert NIC.seconds(size, depth, 2 * pairs) <= took


@given(size)
def test_one_message_at_a_time_takes_what_it_takes_alone(size):
    alone = NIC.latency + float(NIC.wire_seconds(np.float64(size)))
    assert float(NIC.seconds(size, 1, 1)) == pytest.approx(alone)


def test_a_window_bounds_what_depth_would_allow():
    free = MessageRate(latency=1e-3, bandwidth=1e9, header=0)
    narrow = MessageRate(latency=1e-3, bandwidth=1e9, header=0, outstanding=262144)
    assert float(free.seconds(65536, 32, 1)) == pytest.approx(65536e-9)
    assert float(narrow.seconds(65536, 32, 1)) == pytest.approx((1e-3 + 65536e-9) / 4)


LOOPBACK = {  # B: million messages a second
    2: 2.778732, 64: 2.812504, 512: 2.686135, 2048: 2.620509, 4096: 2.546793, 8192: 1.636168,
    16384: 1.074080, 32768: 0.594753, 65536: 0.338685, 131072: 0.171545, 262144: 0.089645,
    524288: 0.045358, 1048576: 0.022817, 2097152: 0.011460, 4194304: 0.005819, 8388608: 0.002905,
}  # fmt: skip
"""ib_write_bw of one InfiniBand port of 200 Gb/s to itself, 128 outstanding on one queue pair
(microsoft/superbenchmark, tests/data, ib_loopback_all_sizes.log)."""
SLOT = 31.5e9  # B/s of PCIe 4.0 x16, 128b/130b taken off
INFINIBAND = 8 + 12 + 4 + 2  # B around a packet: local header, base transport, two checks


def test_a_real_card_is_bounded_by_data_sheets_and_told_by_its_rate_of_two_bytes():
    """The rate of 2 B is the one constant; no size that is judged was in it."""
    sizes, rates = (np.array(x, float) for x in zip(*LOOPBACK.items(), strict=True))
    bare = Nic(bandwidth=25e9, latency=6e-7, header=INFINIBAND)
    blind = MessageRate.of_parts(bare, slot=SLOT).seconds(sizes, 128, 1)
    assert np.all(blind * rates * 1e6 < 1)  # no message was quicker than the bounds
    posted = Nic(bandwidth=25e9, latency=6e-7, overhead=1 / (rates[0] * 1e6), header=INFINIBAND)
    error = np.abs(MessageRate.of_parts(posted, slot=SLOT).seconds(sizes, 128, 1) * rates * 1e6 - 1)
    large = sizes >= 4096
    assert np.median(error[large]) < 0.10
    assert np.max(error[~large]) < 0.06
    assert 0.4 < error[sizes == 8192] < 0.45  # told: where posting and wire take as long


def test_a_message_alone_waits_for_its_first_packet_at_every_switch_that_stores_it():
    path = MessageRate(latency=1e-6, bandwidth=1e9, mtu=1000, header=0)
    stored = MessageRate(latency=1e-6, bandwidth=1e9, mtu=1000, header=0, hops=2)
    assert float(stored.seconds(8000, 1, 1) - path.seconds(8000, 1, 1)) == pytest.approx(2e-6)
    assert float(stored.seconds(8000, 64, 1)) == pytest.approx(8e-6)  # a stream does not


def test_a_narrow_slot_bounds_what_the_wire_would_allow():
    fast = Nic(bandwidth=50e9, latency=6e-7)
    gen3 = MessageRate.of_parts(fast, slot=15.75e9)  # PCIe 3.0 x16
    took = float(gen3.seconds(1 << 20, 64, 1))
    assert took == pytest.approx(float(gen3.bus_seconds(np.float64(1 << 20))))
    assert (1 << 20) / took < 15.75e9 * 256 / 280
