"""Random factors: of a process start, of a rank and iteration, of an op."""

import numpy as np
from foretrace.sim.facts.backend import Backend, Spread, Timing
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.sampling import fixed_point_spread_tables, random_factors, scaled_duration
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

NONE = np.empty(0)
WIDE = np.linspace(0.5, 1.5, 64)
TYPICAL = 10**9  # ticks


def drawn(spread, replica, n=6):
    rank, iteration = np.repeat([0, 1], n // 2), np.tile(np.arange(n // 2), 2)
    found = np.full(n, TYPICAL)
    for by in random_factors(
        spread, name="g", row=np.arange(n), rank=rank.astype(np.int32),
        period=iteration.astype(np.uint16), seed=3, replica=replica,
    ):  # fmt: skip
        found = scaled_duration(found, by)
    return found


def test_the_start_factor_is_common_to_a_replica_and_differs_between_replicas():
    found = [drawn(Spread(NONE, NONE, WIDE), k) for k in range(20)]
    assert all(len(np.unique(f)) == 1 for f in found)
    assert len({int(f[0]) for f in found}) == 20


def test_ten_replicas_cover_every_fifth_of_the_start_distribution():
    """Independent draws would miss one of the fifths in half of the cases."""
    for seed in range(50):
        factors = [
            fixed_point_spread_tables(Spread(NONE, NONE, WIDE), seed, k)[0].item() / 2**20
            for k in range(10)
        ]
        fifths = np.histogram(factors, 5, (0.5, 1.5))[0]
        assert (fifths > 0).all(), seed


def test_start_factors_follow_their_quantiles():
    skewed = np.linspace(0, 1, 64) ** 2 + 0.5
    factors = [
        fixed_point_spread_tables(Spread(NONE, NONE, skewed), 8, k)[0].item() / 2**20
        for k in range(2000)
    ]
    at = [0.1, 0.5, 0.9]
    want = np.quantile(skewed, at, method="hazen")
    np.testing.assert_allclose(np.quantile(factors, at), want, atol=0.01)


def test_the_factors_multiply():
    both = Spread(np.array([2.0]), np.array([0.25]), np.array([3.0]))
    assert drawn(both, 0).tolist() == [TYPICAL * 3 // 2] * 6


def test_a_constant_start_factor_changes_no_draw():
    a, b = Spread(WIDE, WIDE), Spread(WIDE, WIDE, np.array([1.0]))
    assert drawn(a, 4).tolist() == drawn(b, 4).tolist()


class Varying(Backend):
    source = "made up"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration, spread=Spread(WIDE, WIDE, WIDE))


def test_both_engines_draw_the_same():
    build = Builder("g")
    for rank in range(3):
        last = []
        for step in range(4):
            last = [build.op(Kind.COMPUTE, rank=rank, period=step, duration=0.1, after=last)]
    graph = build.graph()
    gpus = [Component(f"g{i}", "gpu", slots=1) for i in range(3)]
    system = System(tuple(gpus), tuple(g.name for g in gpus))
    ends = [
        Simulation(system, {"g*": Varying()}, engine=engine, seed=9).run(graph, replica=5).end
        for engine in ("core", "reference")
    ]
    assert ends[0].tolist() == ends[1].tolist()
    assert len(np.unique(np.diff(ends[0][:4]))) == 3
