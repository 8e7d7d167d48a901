"""Tables of the desk that describe prepared grids: their arrays and variants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine_api.driven_policy import FixedShape, GridShapes
from ..memory.state_layout import NONE
from . import desk_layout as dl
from .desk_layout import Array
from .desk_tables import address, shape_row, table
from .grid_layout import GRID_ROW


@dataclass
class GridTables:
    """Prepared grids of all policies; see ``grid_layout.py``."""

    grids: list[tuple[GridShapes, int, int]] = field(default_factory=list)
    variants: list[Array] = field(default_factory=list)  # per grid, row of each structure
    structures: dict[int, int] = field(default_factory=dict)  # structure of each row of a variant

    def add(self, grid: GridShapes, row: int, name: int) -> None:
        """Add a grid, whose row in the table of shapes and whose name's number are given."""
        self.grids.append((grid, row, name))

    def add_variants(self, shapes: list[list[int]], may_flow: bool) -> list[FixedShape]:
        """Append the rows of all variants to the table of shapes; returns the variants."""
        found = []
        for k, (grid, row, name) in enumerate(self.grids):
            at = np.full(1 + max(grid.variants, default=0), NONE, np.int64)
            shapes[row][dl.GRID], shapes[row][dl.NAME] = k + 1, name
            for structure, variant in grid.variants.items():
                at[structure] = len(shapes)
                self.structures[len(shapes)] = structure
                shapes.append(shape_row(variant, name, may_flow))
                shapes[-1][dl.GRID] = k + 1
                found.append(variant)
            self.variants.append(at)
        return found

    def table(self) -> Array:
        """Table of the grids."""
        rows = [
            _grid_row(grid, at) for (grid, *_), at in zip(self.grids, self.variants, strict=True)
        ]
        return table(rows, GRID_ROW)

    def point(self, one: list[int]) -> tuple[int, tuple[int, ...]] | None:
        """Structure and point of a submission, given by its row; None if it is of no grid."""
        structure = self.structures.get(one[dl.SUB_SHAPE])
        if structure is None:
            return None
        return structure, tuple(x for x in one[dl.SUB_POINT : dl.SUB] if x != NONE)


def _grid_row(grid: GridShapes, variants: Array) -> list[int]:
    """Row of a grid."""
    arrays, cell = grid.arrays, grid.cell
    points, ops = arrays.fixed.shape
    answers: tuple[NDArray[Any], ...] = (*arrays, *cell)
    counts = [len(cell.above), points, ops, len(arrays.coordinate)]
    return [*counts, *map(address, answers), address(variants), len(variants)]
