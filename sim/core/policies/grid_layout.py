"""Layout of the table of prepared grids of the compiled loop.

A row has the addresses and sizes of the arrays of ``sim/kernel/grid_arrays.py``: of the answers
at the points of a grid (``GridArrays``), and of the room for a cell (``Cell``). The row of shapes
of a variant has the addresses of the room for its numbers.
"""

(
    AXES,
    POINTS,  # number of points, and of ops
    OPS_AT_POINT,
    COORDINATES,  # number of all axes together
    COORDINATE_AT,
    BEGIN_AT,
    STRUCTURE_AT,
    POINT_FIXED_AT,
    POINT_HIGH_AT,
    POINT_LOW_AT,
    POINT_LIMITS_AT,
    ABOVE_AT,
    WIDTH_AT,
    CORNER_AT,
    CORNER_HIGH_AT,
    CORNER_LOW_AT,
    VARIANTS_AT,  # row of shapes of each structure, -1 for none; their number
    VARIANT_COUNT,
    GRID_ROW,
) = range(19)
