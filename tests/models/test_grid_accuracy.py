"""Grids of at most 4,096 points: how far op times between points are from those of backends."""

import itertools

import numpy as np
import pytest
from by_day import only
from foretrace.models.compute.families import Families, FittedLine
from foretrace.models.compute.gpu_groups import Chip, Gemm, Peaks
from foretrace.models.compute.roofline import Roofline
from foretrace.models.compute.table import MeasuredTable
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.collective.library import Protocol
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.switch import Switch, star
from foretrace.sim.facts.backend import uncontended_seconds
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.record.step_grid import StepGrid, geometric_axis
from foretrace.sim.run.simulation import Simulation

HIDDEN, LAYERS, GPUS = 4096, 32, 8
SYSTEM = star(
    GPUS, Link(bandwidth=450e9, latency=1e-6), Switch(bandwidth=450e9, latency=5e-7, ports=GPUS)
)
MOST_POINTS, BY_DAY, BY_NIGHT = 4096, 500, 10_000


def decode(tokens, context):
    """A projection, the attention over a context, and a norm, of a step with some tokens."""
    build = Builder("decode")
    weights = 2.0 * HIDDEN * HIDDEN
    mm = f"compute:aten::mm bf16[{tokens}x{HIDDEN}] bf16[{HIDDEN}x{HIDDEN}]"
    moved = weights + 4.0 * HIDDEN * tokens
    first = build.op(Kind.COMPUTE, flop=weights * tokens, bytes=moved, signature=mm)
    query, keys = f"bf16[{tokens}x32x1x128]", f"bf16[{tokens}x32x{context}x128]"
    second = build.op(
        Kind.COMPUTE, flop=4.0 * HIDDEN * tokens * context, bytes=4.0 * HIDDEN * tokens * context,
        after=[first],
        signature=f"compute:aten::scaled_dot_product_attention {query} {keys} {keys}",
    )  # fmt: skip
    build.op(
        Kind.COMPUTE, flop=8.0 * HIDDEN * tokens, bytes=4.0 * HIDDEN * tokens, after=[second],
        signature=f"compute:aten::sum bf16[{tokens}x{HIDDEN}]",
    )  # fmt: skip
    return build.graph()


def product(m, n):
    build = Builder("product")
    text = f"compute:aten::mm bf16[{m}x{n}] bf16[{n}x1024]"
    build.op(Kind.COMPUTE, flop=2048.0 * m * n, bytes=2.0 * m * n, signature=text)
    return build.graph()


def reduce(size):
    build = Builder("reduce")
    for name in ("all-reduce", "all-gather"):
        members = [Member(rank, 9) for rank in range(GPUS)]
        build.collective(members, bytes=float(size), signature=f"collective:{name} fp32[1]")
    return build.graph()


def table():
    sizes = [(m, n) for m, n in itertools.product((1, 16, 64, 256, 1024, 4096), repeat=2)]
    return MeasuredTable.of(
        [f"compute:aten::mm bf16[{m}x{n}] bf16[{n}x1024]" for m, n in sizes],
        [2e-6 + 3e-12 * m**0.9 * n**0.95 * 1024 for m, n in sizes],
    )


FABRIC = Fabric(simple=Protocol(launch=8e-6, step=1e-6), ll=Protocol(launch=4e-6, step=5e-7))
TOKENS, CONTEXT = geometric_axis(1, 4096, 64), geometric_axis(1, 2**20, 64)
STEP = StepGrid(decode, {"tokens": TOKENS, "context": CONTEXT})
FAMILIES = {
    "gemm": FittedLine(launch=2e-6, flop_rate=3e14, byte_rate=2e12),
    "attention": FittedLine(launch=3e-6, flop_rate=1e14, byte_rate=2e12),
    "memory": FittedLine(launch=1e-6, byte_rate=2e12),
    "sum": FittedLine(launch=1e-6, byte_rate=2e12, cache=5e7, rate_beyond=1e12),
}
GPU = {"bandwidth": 3.35e12, "launch": 2e-6, "peaks": Peaks(bf16=989.4e12)}
LIMITED = Gemm(sustained=0.8, burst=1e-3)
CHIP = Chip(processors=132, clock=1.98e9, cache=50 * 2**20)
CASES = {
    "roofline": (Roofline(**GPU), STEP),
    "roofline with a power limit": (Roofline(**GPU, gemm=LIMITED), STEP),
    "kernel families": (Roofline(**GPU, kernels="h100-sxm5-80g", chip=CHIP), STEP),
    "families": (Families.of(FAMILIES), STEP),
    "table": (
        table(),
        StepGrid(product, {"m": geometric_axis(1, 4096, 64), "n": geometric_axis(1, 4096, 64)}),
    ),
    "fabric": (FABRIC, StepGrid(reduce, {"size": geometric_axis(8, 2**30, 4096)})),
    "fabric, few points": (FABRIC, StepGrid(reduce, {"size": geometric_axis(8, 2**30, 64)})),
}  # fmt: skip


def relative_errors(backend, grid, count):
    """|interpolated / asked - 1| of each op at random points, evenly spread in the logarithm."""
    found = []

    def process(sim):
        prepared = sim.prepare(grid)
        rng = np.random.default_rng(7)
        axes = [np.geomspace(axis[0] or 1, axis[-1], 2) for axis in grid.axes.values()]
        points = [
            tuple(int(np.exp(rng.uniform(*np.log(axis)))) for axis in axes) for _ in range(count)
        ]
        asked = prepared._asks.times(points)
        told = prepared._asks.seconds(asked, asked.timing)
        guessed = [seconds(prepared, point, asked, k) for k, point in enumerate(points)]
        found.extend([prepared, np.abs(np.concatenate(guessed) / told - 1)])
        yield sim.wait(0.0)

    names = {"fabric": backend, "node0.gpu*": backend}
    Simulation(SYSTEM, names, engine="reference").run(None, process)
    return found


def seconds(prepared, point, asked, k):
    """Time in s of each op of a submission at a point, without contention."""
    made, n = prepared.submission(None, None, point), len(prepared)
    rows = np.arange(k * n, (k + 1) * n)
    timing = made.answers.timing
    ops = asked.ops.take_with_placement(rows)
    return uncontended_seconds(timing, ops)


# Attention takes another wave of blocks every 33 tokens: a jump that no smooth line follows.
MOST_AT_99 = {"kernel families": 0.09}


@pytest.mark.parametrize("count", only([BY_DAY], [BY_DAY, BY_NIGHT]))
@pytest.mark.parametrize("name", CASES)
def test_between_the_points_of_a_grid_errors_are_small(name, count):
    backend, grid = CASES[name]
    assert len(grid) <= MOST_POINTS
    check_errors(backend, grid, count, MOST_AT_99.get(name, 0.02))


@pytest.mark.parametrize("count", only([BY_DAY], [BY_DAY, BY_NIGHT]))
@pytest.mark.parametrize("name", CASES)
def test_errors_are_smaller_where_points_are_placed(name, count):
    backend, given = CASES[name]
    ends = {axis: [int(numbers[0]), int(numbers[-1])] for axis, numbers in given.axes.items()}
    grid = StepGrid(given.build, ends, points=MOST_POINTS)
    prepared = check_errors(backend, grid, count, 0.01)
    assert len(prepared.placed) <= MOST_POINTS


def check_errors(backend, grid, count, most):
    prepared, errors = relative_errors(backend, grid, count)
    assert np.median(errors) <= 0.005
    assert np.quantile(errors, 0.99) <= most
    told = np.abs(np.expm1(prepared.doubt.quantiles))
    assert abs(np.median(told) - np.median(errors)) < 0.005
    return prepared
