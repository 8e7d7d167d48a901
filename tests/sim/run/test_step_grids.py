"""Graphs over a grid of numbers: exact at points, interpolated between, asked outside."""

from typing import NamedTuple

import numpy as np
import pytest
from foretrace.sim.errors import BackendError, GraphError, SimulationError
from foretrace.sim.facts.backend import Backend, Holds, Spread, Timing, Usage
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.facts.way import Way
from foretrace.sim.kernel import policy
from foretrace.sim.record.step_grid import MOST_ROWS, StepGrid, geometric_axis
from foretrace.sim.run.policies.compiled_process import CompiledProcess
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.testing import check_same_run

GPUS = ("node0.gpu0", "node1.gpu0")
WIRE, RAIL = 2, 3
SYSTEM = System(
    (
        *(Component(name, "gpu", slots=1) for name in GPUS),
        Component("wire", "link", rate=1e9),
        Component("rail", "link", rate=4e9),
        Component("fabric", "fabric"),
        Component("hbm", "memory", capacity=1000),
    ),
    GPUS,
    fabric="fabric",
)


class Affine(Backend):
    """A microsecond, a picosecond per flop, and bytes on a wire; it counts its calls and rows."""

    source = "affine"

    def __init__(self, spread=None, exponent=1.0):
        self.spread, self.exponent, self.calls, self.rows = spread, exponent, 0, 0

    def timing(self, ops, now=0.0):
        self.calls, self.rows, n = self.calls + 1, self.rows + len(ops), len(ops)
        fixed = 1e-6 + 1e-12 * ops.flop**self.exponent
        limit = np.full(n, 5e8)
        return Timing.of(fixed, ops.bytes, Usage.repeated([WIRE], n), limit, spread=self.spread)


class Switching(Affine):
    """Its ops take another wire above 1,000 bytes."""

    def timing(self, ops, now=0.0):
        said = super().timing(ops, now)
        usage = Usage.of([{WIRE if b <= 1000 else RAIL: 1.0} for b in ops.bytes.tolist()])
        return Timing(said.fixed, said.work, usage)


class Holding(Affine):
    """Its ops hold as much memory as they have bytes."""

    def timing(self, ops, now=0.0):
        return Timing.of(
            ops.flop * 1e-12, holds=Holds.of([[(5, int(b) + 1)] for b in ops.bytes.tolist()])
        )


def step(tokens, context):
    build = Builder("step")
    first = build.op(Kind.COMPUTE, flop=2e6 * tokens, bytes=100.0 * tokens)
    build.op(
        Kind.COMPUTE, flop=10.0 * tokens * context, bytes=8.0 * context, after=[first],
        signature=f"compute:attention:{tokens}",
    )  # fmt: skip
    return build.graph()


def one(size):
    build = Builder("one")
    build.op(Kind.COMPUTE, flop=1e6, bytes=float(size))
    return build.graph()


AXES = {"tokens": [1, 8, 64, 512], "context": [0, 128, 1024]}
GRID = StepGrid(step, AXES)
POINTS = [(1, 0), (8, 128), (512, 1024), (5, 60), (100, 900), (511, 1), (600, 128), (2, 4096)]
ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])


def simulated(backend, engine="reference", **settings):
    return Simulation(SYSTEM, {"*": backend}, engine=engine, **settings)


def ends(process, backend, engine="reference", **settings):
    return simulated(backend, engine).run(None, process, **settings).metrics


def by_grid(points, made=None, grid=GRID, **prepare):
    def process(sim):
        prepared = sim.prepare(grid, **prepare)
        if made is not None:
            made.append(prepared)
        for point in points:
            yield sim.submit(prepared, at=point).done
            sim.emit("end", sim.now)

    return process


def one_by_one(points, build=step):
    def process(sim):
        for point in points:
            yield sim.submit(build(*point)).done
            sim.emit("end", sim.now)

    return process


@ENGINES
def test_it_is_exact_at_points_outside_and_where_times_are_linear(engine):
    assert ends(by_grid(POINTS), Affine(), engine) == ends(one_by_one(POINTS), Affine(), engine)


def test_all_points_are_asked_at_once_and_none_during_the_run():
    asked, made = Affine(), []
    inside = [p for p in POINTS if p[0] <= 512 and p[1] <= 1024]
    ends(by_grid(inside, made), asked)
    assert asked.calls == 3  # the first point, all, and the random points
    assert asked.rows == 2 * (1 + 12 + 64)
    assert made[0].asked == 0


def test_a_point_outside_is_asked_once():
    made, asked = [], Affine()
    ends(by_grid([(600, 128), (601, 128), (600, 128), (2, 4096)], made), asked)
    assert made[0].asked == 3
    assert asked.calls == 6


@ENGINES
def test_between_points_it_interpolates_and_tells_the_error(engine):
    curved, made = Affine(exponent=1.2), []
    points = [(3, 50), (40, 700), (300, 200)]
    grid = [t for _, _, t in ends(by_grid(points, made), curved, engine)]
    exact = [t for _, _, t in ends(one_by_one(points), curved, engine)]
    assert grid != exact
    assert np.allclose(grid, exact, rtol=0.2)
    doubt = made[0].doubt
    assert doubt.family == "grid step"
    assert doubt.regime == "between points"
    assert -0.5 < doubt.quantiles[0] < 0
    assert doubt.quantiles[-1] < 1e-6


def test_a_linear_time_has_no_error():
    made = []
    ends(by_grid([], made), Affine())
    assert np.abs(made[0].doubt.quantiles).max() < 1e-9


def test_the_run_names_the_grid_and_its_error():
    result = simulated(Affine(exponent=1.2)).run(None, by_grid([(3, 50)]))
    (run,) = result.runs
    text = run.answers.sources[0]
    assert text.startswith("affine, on a grid of 4 tokens x 3 context (error between points: med")
    assert [one.family for one in run.answers.doubts] == ["grid step"]
    assert run.graph.ops.flop.tolist() == pytest.approx([6e6, 1500.0])


@ENGINES
def test_another_structure_at_a_corner_is_asked_exactly(engine):
    grid, made = StepGrid(one, {"size": [100, 900, 2000, 4000]}), []
    points = [(500,), (950,), (1500,), (1999,), (3000,), (900,), (2000,)]
    found = ends(by_grid(points, made, grid), Switching(), engine)
    assert found == ends(one_by_one(points, one), Switching(), engine)
    assert made[0].asked == 3  # between 900 and 2,000


@ENGINES
def test_amounts_are_never_interpolated(engine):
    grid, made = StepGrid(one, {"size": [100, 900]}), []
    result = simulated(Holding(), engine).run(None, by_grid([(100,), (500,)], made, grid))
    assert made[0].asked == 1
    assert result.makespan == pytest.approx(2e-6)
    assert [run.lowered.claims.amount.tolist() for run in result.runs] == [[101], [501]]


def test_draws_are_those_of_the_interpolated_times():
    spread = Spread(np.array([0.9, 1.1]), np.array([0.8, 1.2]))
    points = POINTS[:6]
    settings = {"replica": 3}
    found = [
        ends(make(points), Affine(spread), engine, **settings)
        for engine in ("reference", "core")
        for make in (by_grid, one_by_one)
    ]
    assert found[0] == found[1] == found[2] == found[3]


def test_a_way_has_its_own_grid():
    class ByGpu(Affine):
        def timing(self, ops, now=0.0):
            return Timing.of(1e-12 * ops.flop * (1 + ops.at.component))

    def process(sim):
        grid = StepGrid(one, {"size": [1, 9]})
        prepared = sim.prepare(grid, ways=[Way(gpus=GPUS[:1]), Way(gpus=GPUS[1:])])
        for way in (0, 1):
            yield sim.submit(prepared, way=way, at=[4]).done
            sim.emit("end", sim.now)

    assert [t for _, _, t in ends(process, ByGpu())] == [1e-6, 3e-6]


class Steps(Affine):
    """Its times jump every 10 bytes up to 100, and bend beyond."""

    def timing(self, ops, now=0.0):
        self.calls, self.rows = self.calls + 1, self.rows + len(ops)
        stairs = np.ceil(np.minimum(ops.bytes, 100) / 10)
        return Timing.of(1e-6 * (stairs + np.maximum(ops.bytes - 100, 0) ** 1.5 / 1e4))


@ENGINES
def test_points_are_placed_where_times_jump_and_bend(engine):
    made, grid = [], StepGrid(one, {"size": [1, 137, 1000]}, points=64)
    points = [(x,) for x in (*range(1, 110), 137, 999, 1000)]
    found = ends(by_grid(points, made, grid), Steps(), engine)
    exact = ends(one_by_one(points, one), Steps(), engine)
    axis = made[0].placed.axes["size"].tolist()
    assert len(axis) <= 64
    assert {1, 137, 1000} <= set(axis)
    assert {10, 11, 20, 21, 90, 91} <= set(axis)
    took = [np.diff([0, *(t for _, _, t in run)]) for run in (found, exact)]
    assert np.abs(took[0] / took[1] - 1).max() < 0.01
    inside = [k for k, (x,) in enumerate(points) if x in axis]
    assert np.allclose(took[0][inside], took[1][inside], rtol=1e-9)
    assert made[0].asked == 0


def test_fewer_points_make_a_larger_error_which_is_stated():
    worst = []
    for points in (8, 16, 32, 64):
        made, grid = [], StepGrid(one, {"size": [1, 1000]}, points=points)
        ends(by_grid([], made, grid), Steps())
        assert len(made[0].placed) <= points
        worst.append(made[0].error.most)
    assert worst[0] > 0.05
    assert worst[-1] < 0.01
    assert sorted(worst, reverse=True) == worst


def test_linear_times_need_only_the_given_points():
    made = []
    grid = StepGrid(step, {"tokens": [1, 512], "context": [0, 1024]}, 400)
    ends(by_grid([], made, grid), Affine())
    assert made[0].error.axes == {"tokens": 2, "context": 2}
    assert made[0].error.most < 1e-9


def test_a_change_of_structure_is_enclosed():
    made, asked = [], Switching()
    grid = StepGrid(one, {"size": [100, 4000]}, points=40)
    points = [(x,) for x in range(990, 1011)]
    found = ends(by_grid(points, made, grid), asked)
    assert {1000, 1001} <= set(made[0].placed.axes["size"].tolist())
    assert made[0].asked == 0
    assert found == ends(one_by_one(points, one), Switching())


def test_asks_of_the_placement_are_bounded():
    asked, made = Steps(), []
    ends(by_grid([], made, StepGrid(one, {"size": [0, 10**9]}, points=100)), asked)
    assert asked.rows <= 3 * 100 + 2 * 64 + 35


def test_both_engines_place_the_same_points():
    found = []
    for engine in ("reference", "core"):
        made = []
        ends(by_grid([], made, StepGrid(step, {"tokens": [1, 300], "context": [0, 900]}, 100)),
             Affine(exponent=1.4), engine)  # fmt: skip
        found.append({name: axis.tolist() for name, axis in made[0].placed.axes.items()})
    assert found[0] == found[1]


@pytest.mark.parametrize("points", [3, 2**22 + 1])
def test_a_wrong_number_of_points_is_refused(points):
    with pytest.raises(GraphError, match=f"points is {points}; give 4, as many as the axes have"):
        StepGrid(step, {"tokens": [1, 2], "context": [1, 2]}, points=points)


def test_points_of_many_ops_that_do_not_fit_are_refused_before_they_are_asked():
    def wide(a):
        build = Builder("wide")
        for _ in range(5):
            build.op(Kind.COMPUTE, flop=1.0)
        return build.graph()

    text = "grid wide: has 4,194,304 points of 5 ops, but at most 4,194,304 op times fit into memor"
    with pytest.raises(GraphError, match=text):
        ends(by_grid([], grid=StepGrid(wide, {"a": [1, 9]}, points=MOST_ROWS)), Affine())


# Kernels.


class State(NamedTuple):
    """Submissions so far, and the numbers of each."""

    count: np.ndarray
    numbers: np.ndarray


@policy.policy_kernel
def walk(state, event, turn):
    k = state.count[0]
    if event[policy.KIND] == policy.ENDED:
        policy.emit(turn, 0, event[policy.NOW] / policy.ticks_per_second(turn))
    if k == len(state.numbers):
        return policy.DONE
    state.count[0] += 1
    policy.submit(turn, 0, k)
    policy.at(turn, 0, state.numbers[k, 0])
    policy.at(turn, 1, state.numbers[k, 1])
    return policy.GO_ON


def kernel(points, step=walk, **settings):
    state = State(np.zeros(1, np.int64), np.array(points, np.int64))
    return CompiledProcess(step, state, graphs={"step": GRID}, metrics=["end"], **settings)


@ENGINES
def test_a_kernel_equals_its_twin(engine):
    points = np.random.default_rng(1).integers([1, 0], [700, 1500], (60, 2)).tolist()
    curved = simulated(Affine(exponent=1.3), engine)
    check_same_run(curved, kernel(points), by_grid(points))


def test_both_engines_are_equal_to_the_tick():
    points = np.random.default_rng(2).integers([1, 0], [700, 1500], (60, 2)).tolist()
    found = [ends(kernel(points), Affine(exponent=1.3), e) for e in ("reference", "core")]
    assert found[0] == found[1]
    assert len(found[0]) == 60


def missing_axis(state, event, turn):
    policy.submit(turn, 0, 0)
    policy.at(turn, 1, 5)
    return policy.GO_ON


def unknown_axis(state, event, turn):
    policy.submit(turn, 0, 0)
    policy.at(turn, 2, 5)
    return policy.GO_ON


def no_number(state, event, turn):
    policy.submit(turn, 0, 0)
    return policy.GO_ON


def stray(state, event, turn):
    policy.at(turn, 0, 5)
    return policy.GO_ON


@pytest.mark.parametrize(
    ("step", "error", "text"),
    [
        (missing_axis, GraphError, "at= names context; name tokens, context"),
        (unknown_axis, SimulationError, "axis 2 does not exist; the grid has 2"),
        (no_number, GraphError, "at= is missing; give a number for tokens, context"),
        (stray, SimulationError, "gives a number to no submission"),
    ],
)
def test_a_wrong_number_of_a_kernel_is_refused(step, error, text):
    with pytest.raises(error, match=text):
        ends(kernel([(1, 1)], step), Affine())


# Refusals.


@pytest.mark.parametrize(
    ("axes", "text"),
    [
        ({}, "has 0 axes; give 1 to 4"),
        ({"a": []}, "axis a has no numbers"),
        ({"a": [1, 4, 3]}, "axis a does not ascend"),
        ({"a": [1, 1]}, "axis a does not ascend"),
        ({"a": [-1, 4]}, "a is -1; give 0 or more"),
        ({"a": [0, 2**62]}, r"a is 4611686018427387904; give 0 or more, below 2\^62"),
        ({"a": [0.5]}, "axis a is float64"),
        ({"a": range(3000), "b": range(3000)}, "has 9,000,000 points of 1 ops, but at most 4,194,"),
    ],
)
def test_a_wrong_grid_is_refused_before_anything_is_asked(axes, text):
    with pytest.raises(GraphError, match=text):
        StepGrid(lambda **_: pytest.fail("asked"), axes)


def test_a_grid_that_does_not_fit_is_refused_before_it_is_asked():
    def wide(a):
        assert not a
        build = Builder("wide")
        for _ in range(5):
            build.op(Kind.COMPUTE, flop=1.0)
        return build.graph()

    grid = StepGrid(wide, {"a": range(MOST_ROWS // 5 + 1)})
    with pytest.raises(GraphError, match="grid wide: has 838,861 points of 5 ops"):
        ends(by_grid([], grid=grid), Affine())


def test_another_structure_is_refused_with_its_point():
    def odd(a):
        build = Builder("odd")
        for _ in range(1 + (a == 7)):
            build.op(Kind.COMPUTE, flop=1.0, bytes=1.0)
        return build.graph()

    with pytest.raises(GraphError, match=r"grid odd: a=7: its 2 ops \(not 1\) differ"):
        ends(by_grid([], grid=StepGrid(odd, {"a": [1, 7]})), Affine())


def test_an_error_of_a_backend_names_the_point():
    class Small(Affine):
        def timing(self, ops, now=0.0):
            if (ops.bytes > 500).any():
                raise BackendError("op 0: too large")
            return super().timing(ops, now)

    grid = StepGrid(one, {"size": [1, 600]})
    with pytest.raises(BackendError, match="grid one: size=600: op 0: too large"):
        ends(by_grid([], grid=grid), Small())


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ({}, "at= is missing"),
        ({"at": (1,)}, "at= has 1 numbers; give one for tokens, context each"),
        ({"at": {"tokens": 1}}, "at= names tokens; name tokens, context"),
        ({"at": (1, -1)}, "context is -1; give 0 or more"),
        ({"at": (1, 0.5)}, "context is 0.5; give a whole number"),
        ({"flop": {0: 1.0}}, "give at= instead"),
    ],
)
def test_wrong_numbers_are_refused(numbers, text):
    def process(sim):
        yield sim.submit(sim.prepare(GRID), **numbers).done

    with pytest.raises(GraphError, match=text):
        ends(process, Affine())


def test_at_needs_a_grid():
    def process(sim):
        yield sim.submit(sim.prepare(one(1)), at=[3]).done

    with pytest.raises(GraphError, match="prepare a StepGrid"):
        ends(process, Affine())


def test_collectives_are_timed_over_a_grid():
    class Reducing(Backend):
        source = "reducing"

        def timing(self, ops, now=0.0):
            usage = Usage.repeated([WIRE], len(ops))
            return Timing.of(1e-6 * ops.at.members.counts, ops.bytes, usage)

    def reduce(size):
        build = Builder("reduce")
        build.collective([Member(0), Member(1)], name="all_reduce", bytes=float(size))
        return build.graph()

    grid, points = StepGrid(reduce, {"size": geometric_axis(1000, 10**6, 4)}), [(1000,), (55000,)]
    found = ends(by_grid(points, grid=grid), Reducing())
    assert found == ends(one_by_one(points, reduce), Reducing())


AXES = {"tokens": [1, 5, 9], "context": [0, 8]}


def more_context(tokens, context):
    return step(tokens, context + 1)


@pytest.mark.parametrize("second", [step, more_context])
def test_equal_grids_of_a_run_build_their_graphs_once(second, monkeypatch):
    built, graph_at = [], StepGrid.graph_at

    def count(grid, point):
        built.append((grid.build, tuple(point)))
        return graph_at(grid, point)

    monkeypatch.setattr(StepGrid, "graph_at", count)

    def submits(functions):
        def submit(sim):
            for build, gpu in zip(functions, GPUS, strict=False):
                grid = sim.prepare(StepGrid(build, AXES), gpus=[gpu])
                yield sim.submit(grid, at={"tokens": 3, "context": 4}).done
                sim.emit("end", sim.now)

        return Simulation(SYSTEM, {"*": Affine()}).run(None, submit).emitted

    def ends(functions):
        return [value for *_, value in submits(functions)]

    both = ends([step, second])
    points = [point for build, point in built if build is step]
    again = [point for point in points if points.count(point) > 1]
    assert set(again) <= {(1, 0)}  # the first point of each grid, for its placement
    alone = ends([second])
    assert both[1] - both[0] == pytest.approx(alone[0], rel=1e-9)
