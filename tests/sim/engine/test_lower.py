"""Rounding from SI floats to integer ticks and work, the only rounding in a run."""

from fractions import Fraction

import numpy as np
import pytest
from foretrace.sim.engine_api.lowering import scale_exponents_by_unit, scale_of_limit, work_units
from foretrace.sim.errors import BackendError, GraphError
from foretrace.sim.facts.backend import Backend, Timing, Usage
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation
from hypothesis import given
from hypothesis import strategies as st


class Said(Backend):
    """Backend that returns a given timing."""

    source = "the test"

    def __init__(self, timing):
        self.answer = timing

    def timing(self, ops, now=0.0):
        return self.answer


def run(timing, *components):
    """End of every op of a graph without dependencies, for a given timing."""
    gpu = Component("node0.gpu0", "gpu", slots=64)
    system = System((gpu, *components), ("node0.gpu0",))
    build = Builder("ops")
    for _ in range(len(timing)):
        build.op(Kind.COMPUTE)
    simulation = Simulation(system, {"node0.gpu0": Said(timing)}, engine="reference")
    return simulation.run(build.graph()).columns.end.tolist()


def wire(rate, **facts):
    return Component("wire", "link", rate=rate, **facts)


def test_a_scale_leaves_room_for_weights_below_one():
    system = System((wire(25e9), Component("flops", "gpu", rate=1e15, unit="flop")))
    scale = scale_exponents_by_unit(system)
    for unit, top in (("B", 400e9), ("flop", 16e15)):
        assert 2**57 <= top * 2 ** scale[unit] < 2**58


def test_a_rate_beyond_the_range_is_refused():
    with pytest.raises(GraphError, match="use a larger unit"):
        scale_exponents_by_unit(System((wire(1e17),)))


@pytest.mark.parametrize("limit", [0.5, 16384.0, 1e9, 3.35e12, 1e15])
def test_a_limit_alone_bounds_work(limit):
    nothing = Usage.of([{}])
    assert run(Timing.of([0.0], work=[limit], usage=nothing, limit=[limit])) == [10**12]


@pytest.mark.parametrize("limit", [1e13, 1e30])
def test_a_limit_above_all_rates_changes_nothing(limit):
    use = Usage.repeated([1], 1)
    assert run(Timing.of([0.0], work=[25e9], usage=use, limit=[limit]), wire(25e9)) == [10**12]


@pytest.mark.parametrize("weight", [1 / 16, 1 / 8, 1 / 2, 1.0, 2.0])
def test_a_weight_divides_the_rate(weight):
    use = Usage.repeated([1], 1, weight)
    assert run(Timing.of([0.0], work=[1e9], usage=use), wire(1e9)) == [int(weight * 10**12)]


def test_work_that_nothing_bounds_is_refused():
    with pytest.raises(BackendError, match="op 1: work, but neither usage nor limit"):
        run(Timing.of([0.0, 0.0], work=[0.0, 1.0], usage=Usage.of([{}, {}])))


def test_work_beyond_127_bits_names_the_op():
    use = Usage.of([{}, {1: 1.0}, {1: 1.0}])
    with pytest.raises(BackendError, match="op 2: work 1e"):
        run(Timing.of([0.0] * 3, work=[0.0, 1.0, 1e25], usage=use), wire(1e9))


@given(
    st.floats(0, 1e15),
    st.integers(0, 40),
    st.sampled_from([10**9, 10**12]),
)
def test_work_is_exact_in_two_words(work, k, per_second):
    whole = round(Fraction(work) * 2**k)  # half to even, as the border does
    if whole * per_second < 2**127:
        high, low = work_units(np.array([work]), np.array([k]), per_second)
        assert (int(high[0]) << 64) + int(low[0]) == whole * per_second


@given(st.floats(1e-6, 1e17))
def test_the_scale_of_a_limit_keeps_it_in_range(limit):
    (k,) = scale_of_limit(np.array([limit])).tolist()
    assert limit * 2**k < 2**58


@pytest.mark.parametrize(("heavy", "said"), [(2e5, 1), (1e5, 0)])
def test_weights_that_differ_a_million_fold_give_a_warning(heavy, said, caplog):
    usage = Usage.of([{1: heavy}, {1: 0.1}])
    run(Timing.of([0.0, 0.0], work=[1.0, 1.0], usage=usage), wire(10.0))
    told = [r.getMessage() for r in caplog.records if "weights on wire" in r.getMessage()]
    assert len(told) == said
    assert all("from 0.1 to 200000" in text for text in told)
