"""Message rates: asymptotic bounds of a closed system, in every combination."""

import numpy as np
import pytest
from foretrace.models.network.message_rate import MessageRate
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
