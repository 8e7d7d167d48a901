"""Ways of the graphs of policies, and the rows that are reserved for submissions."""

from __future__ import annotations

from collections.abc import Callable

from ...engine_api.driven_policy import DrivenPolicy, FixedShape
from ..memory.state_layout import NONE
from . import desk_layout as dl

Sizes = tuple[int, int, int, int]  # flows, uses, holders, claims


class WayTables:
    """Ways of all graphs, each with a row of shapes behind those of the graphs; and pools of rows.

    Shapes of equal sizes share a pool, since hundreds of ways often have routes of equal length.
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.way_of: dict[int, int] = {}  # by row of shapes
        self.sizes: dict[Sizes, int] = {}  # pool by sizes

    def add(
        self,
        policy: DrivenPolicy,
        first: int,
        shapes: list[list[int]],
        append: Callable[[DrivenPolicy, FixedShape], None],
    ) -> None:
        """Add the ways of a policy's graphs.

        Parameters
        ----------
        first : row of the policy's first graph
        shapes : rows of shapes so far
        append : function that appends a row for a shape
        """
        for k, on_ways in enumerate(policy.way_shapes(), first):
            shapes[k][dl.FIRST_WAY], shapes[k][dl.WAY_COUNT] = len(self.rows), len(on_ways)
            for way, shape in enumerate(on_ways):
                self.rows.append(NONE if shape is None else len(shapes))
                if shape is not None:
                    self.way_of[len(shapes)] = way
                    append(policy, shape)

    def set_pools(self, shapes: list[list[int]]) -> None:
        """Give each shape the pool of its sizes."""
        for row in shapes:
            sizes = (
                row[dl.FLOW_COUNT], row[dl.USE_COUNT], row[dl.HOLDER_COUNT], row[dl.CLAIM_COUNT]
            )  # fmt: skip
            needs = row[dl.FLOW_COUNT] or row[dl.CLAIM_COUNT]
            row[dl.POOL] = self.sizes.setdefault(sizes, len(self.sizes)) if needs else NONE
