"""Rows behind a submission: its key, its way, or its point of a grid and the numbers at it.

Only points whose corners agree are submitted in the loop; Python submits all others.
"""

from __future__ import annotations

from ...kernel import policy_rows as rows
from ...kernel.grid_arrays import Answers, Cell, GridArrays
from ...kernel.interpolation import INSIDE, interpolate, locate, nearest_corner
from ...kernel.jit import Int, jit_without_refcounts
from ...kernel.native_calls import array_at, table_at
from ..memory.state_layout import NONE
from .desk_layout import (
    FIRST_WAY,
    FIXED_AT,
    FLOW_COUNT,
    GRID,
    HIGH_AT,
    LIMITS_AT,
    LOW_AT,
    NAME,
    OP_COUNT,
    OWNERS_AT,
    SUB,
    SUB_KEY,
    SUB_POINT,
    SUB_SHAPE,
    WAY_COUNT,
    Array,
    Desk,
)
from .grid_layout import (
    ABOVE_AT,
    AXES,
    BEGIN_AT,
    COORDINATE_AT,
    COORDINATES,
    CORNER_AT,
    CORNER_HIGH_AT,
    CORNER_LOW_AT,
    OPS_AT_POINT,
    POINT_FIXED_AT,
    POINT_HIGH_AT,
    POINT_LIMITS_AT,
    POINT_LOW_AT,
    POINTS,
    STRUCTURE_AT,
    VARIANT_COUNT,
    VARIANTS_AT,
    WIDTH_AT,
)


@jit_without_refcounts
def read_numbers(desk: Desk, one: Array, actions: Array, row: Int, count: Int) -> Int:
    """Read the rows behind a submission; their number, or NONE if Python must go on with it.

    They may give its key, and a way or the point of a grid, which determine the row of its shape.
    """
    for k in range(SUB_POINT, SUB):
        one[k] = NONE
    graph, behind, has_key = one[SUB_SHAPE], row + 1, False
    grid = desk.shapes[graph, GRID]
    axes = desk.grids[grid - 1, AXES] if grid else 0
    while behind < count:
        verb, a = actions[behind, rows.VERB], actions[behind, rows.A]
        if verb == rows.FLOP or verb == rows.BYTES or (verb == rows.AT and not 0 <= a < axes):
            return NONE
        if verb == rows.KEY:
            one[SUB_KEY], has_key = a, True
        elif verb == rows.AT:
            one[SUB_POINT + a] = actions[behind, rows.B]
        elif verb == rows.WAY:
            one[SUB_SHAPE] = shape_on_way(desk, graph, a)
            if one[SUB_SHAPE] == NONE:
                return NONE
        else:
            break
        behind += 1
    if grid:
        one[SUB_SHAPE] = shape_at_point(desk, grid - 1, one)
    if one[SUB_SHAPE] == NONE or desk.shapes[one[SUB_SHAPE], OP_COUNT] == 0:
        return NONE
    if not has_key:
        one[SUB_KEY] = desk.names[desk.shapes[one[SUB_SHAPE], NAME]]
    return behind - row - 1


@jit_without_refcounts
def shape_on_way(desk: Desk, k: Int, way: Int) -> Int:
    """Row of the shape of a graph on one of its ways; NONE if Python must submit it."""
    shape = desk.shapes[k]
    if not 0 <= way < shape[WAY_COUNT]:
        return NONE
    return desk.ways[shape[FIRST_WAY] + way]


@jit_without_refcounts
def shape_at_point(desk: Desk, k: Int, one: Array) -> Int:
    """Row of the variant of a grid at a point; NONE if only Python can submit it."""
    of, grid, cell = desk.grids[k], grid_arrays(desk, k), cell_of_grid(desk, k)
    point = one[SUB_POINT : SUB_POINT + of[AXES]]
    if locate(grid, point, cell) != INSIDE:  # also if a number is missing
        return NONE
    structure = grid.structure[nearest_corner(cell)]
    if structure >= of[VARIANT_COUNT]:
        return NONE
    return array_at(desk.now, of[VARIANTS_AT], of[VARIANT_COUNT])[structure]


@jit_without_refcounts
def write_numbers(desk: Desk, one: Array, shape: Array) -> None:
    """Write the numbers of a submission of a grid to the room of its variant."""
    k, now = shape[GRID] - 1, desk.now
    grid, cell = grid_arrays(desk, k), cell_of_grid(desk, k)
    n, flows = shape[OP_COUNT], shape[FLOW_COUNT]
    hi, limit = array_at(now, shape[HIGH_AT], n), array_at(now, shape[LIMITS_AT], n)
    lo = array_at(desk.words, shape[LOW_AT], n)
    locate(grid, one[SUB_POINT : SUB_POINT + desk.grids[k, AXES]], cell)
    interpolate(grid, cell, Answers(array_at(now, shape[FIXED_AT], n), hi, lo, limit))
    owners = array_at(now, shape[OWNERS_AT], flows)
    for i in range(flows):  # the op of a flow is not before it
        hi[i], lo[i], limit[i] = hi[owners[i]], lo[owners[i]], limit[owners[i]]


@jit_without_refcounts
def grid_arrays(desk: Desk, k: Int) -> GridArrays:
    """Arrays of a grid, by its row."""
    of, like = desk.grids[k], desk.now
    points, n = of[POINTS], of[OPS_AT_POINT]
    return GridArrays(
        array_at(like, of[COORDINATE_AT], of[COORDINATES]),
        array_at(like, of[BEGIN_AT], of[AXES] + 1),
        array_at(like, of[STRUCTURE_AT], points),
        table_at(like, of[POINT_FIXED_AT], points, n),
        table_at(like, of[POINT_HIGH_AT], points, n),
        table_at(desk.words, of[POINT_LOW_AT], points, n),
        table_at(like, of[POINT_LIMITS_AT], points, n),
    )


@jit_without_refcounts
def cell_of_grid(desk: Desk, k: Int) -> Cell:
    """Room for a cell of a grid, by its row."""
    of, like = desk.grids[k], desk.now
    axes, corners = of[AXES], 1 << of[AXES]
    return Cell(
        array_at(like, of[ABOVE_AT], axes),
        array_at(like, of[WIDTH_AT], axes),
        array_at(like, of[CORNER_AT], corners),
        array_at(like, of[CORNER_HIGH_AT], corners),
        array_at(desk.words, of[CORNER_LOW_AT], corners),
    )
