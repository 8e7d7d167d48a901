"""Memory under load: laws that hold everywhere, and real silicon at threads that no fit saw."""

import numpy as np
import pytest
from foretrace.models.memory.loaded import LoadedMemory
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares

memories = st.builds(
    LoadedMemory, latency=st.floats(5e-8, 1e-6), read=st.floats(1e9, 1e12),
    write=st.floats(1e9, 1e12), in_flight=st.floats(100, 1e5), queueing=st.floats(1e-10, 1e-7),
    turnaround=st.floats(0, 1), sharpness=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)  # fmt: skip
threads = st.integers(1, 256)
reads = st.floats(0, 1)


@given(memories, threads, reads)
def test_what_is_outstanding_is_bandwidth_times_latency_or_the_peak_is_reached(memory, n, share):
    drawn = float(memory.bandwidth(n, share))
    assert 0 < drawn <= float(memory.peak(share))
    outstanding = drawn * float(memory.latency_at(drawn, share))
    if drawn < 0.999 * float(memory.peak(share)):
        assert outstanding == pytest.approx(n * memory.in_flight, rel=1e-4)


@given(memories, threads, reads)
def test_more_threads_never_draw_less_nor_make_a_load_quicker(memory, n, share):
    assert memory.bandwidth(2 * n, share) >= memory.bandwidth(n, share) * (1 - 1e-9)
    assert memory.loaded_latency(2 * n, share) >= memory.loaded_latency(n, share) * (1 - 1e-9)
    assert memory.loaded_latency(n, share) >= memory.latency


def test_a_mix_takes_the_time_of_both_and_of_turning_around():
    one_bus = LoadedMemory(latency=1e-7, read=40e9, write=20e9, in_flight=1000)
    assert one_bus.peak([1.0, 0.5, 0.0]) == pytest.approx([40e9, 80e9 / 3, 20e9])
    turning = LoadedMemory(latency=1e-7, read=40e9, write=20e9, in_flight=1000, turnaround=0.25)
    assert turning.peak([1.0, 0.5, 0.0]) == pytest.approx([40e9, 80e9 / 3 / 1.25, 20e9])


THREADS = (1, *range(4, 73, 4))
GRACE = {  # GB/s of 1, 4, 8 … 72 threads, 4 KiB at a time
    "own, reads": (2e-7, (21.0, 82.6, 156.6, 218.3, 265.9, 301.3, 327.0, 344.2, 354.5, 359.9, 360.2,
                          359.6, 359.0, 358.5, 357.9, 357.8, 357.5, 357.1, 357.2)),
    "own, writes": (2e-7, (43.3, 170.3, 315.3, 365.7, 364.7, 363.5, 363.1, 362.9, 362.8, 362.8,
                           362.9, 362.7, 362.6, 362.4, 362.3, 362.2, 362.0, 362.0, 362.0)),
    "the GPU's, reads": (8e-7, (5.4, 21.6, 42.6, 62.8, 82.8, 101.1, 117.2, 127.4, 129.3, 129.6,
                                129.5, 129.4, 129.4, 129.5, 129.5, 129.6, 129.6, 129.7, 129.7)),
    "the GPU's, writes": (8e-7, (9.4, 37.1, 73.7, 107.7, 137.3, 158.1, 162.6, 162.9, 162.5, 162.2,
                                 162.1, 162.0, 161.8, 161.8, 161.7, 161.6, 161.5, 161.4, 161.3)),
}  # fmt: skip
"""Grace Hopper's own memory, and the GPU's over NVLink-C2C (hpides/cxlbench, branch HCDS-2025,
sequential reads and writes), with the latency of one load when idle."""


@pytest.mark.parametrize("what", GRACE)
def test_bandwidth_of_grace_hopper_at_threads_that_no_fit_saw(what):
    latency, drawn = GRACE[what]
    n, wanted = np.array(THREADS, float), np.array(drawn) * 1e9
    seen = np.arange(len(n)) % 2 == 0

    def model(p, threads):
        peak, held, queue = np.exp(p[:3])
        memory = LoadedMemory(latency=latency, read=peak, write=peak, in_flight=held,
                              queueing=queue, sharpness=p[3])  # fmt: skip
        return memory.bandwidth(threads, 1.0)

    start = [np.log(1.02 * wanted.max()), np.log(wanted[0] * latency), np.log(latency / 5), 0.1]
    fitted = least_squares(
        lambda p: np.log(model(p, n[seen]) / wanted[seen]), start, loss="soft_l1", f_scale=0.02
    )
    error = np.abs(model(fitted.x, n[~seen]) / wanted[~seen] - 1)
    assert np.median(error) < 0.01
    assert error.max() < 0.04
