"""Tables of the desk that describe policies: their arrays, parts and prepared graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...engine_api.driven_policy import DrivenPolicy, FixedShape
from ...engine_api.engine_control import EngineControl
from ..memory.block import GraphBlock
from ..memory.state_layout import NONE
from .desk_layout import SHAPE, Array

Key = tuple[int, int, str]  # component, owner, name of the process


@dataclass
class PartTables:
    """Parts of all policies, and what these hold of them; see ``desk_layout.py``."""

    used: list[list[int]] = field(default_factory=list)
    own: list[list[int]] = field(default_factory=list)
    keys: dict[Key, int] = field(default_factory=dict)  # row of `own`
    first: dict[int, int] = field(default_factory=dict)  # first row of `own` of a component

    def add(self, engine: EngineControl, policy: DrivenPolicy, part: int) -> None:
        """Add a part of a policy."""
        c, parts, book = policy.part_numbers[part], engine.parts, engine.ledger
        total = parts.capacity_of(c)
        may = total >= 0 and c not in parts.stores and policy.may_change(part)
        key = c, policy.owner, policy.name
        if key not in self.keys:
            self.keys[key] = len(self.own)
            holding = book.held.get(c, {}).get(key[1:], 0)
            first = self.first.setdefault(c, len(self.own))
            self.own.append([holding, NONE, book.taken.get(c, 0), first])
        has_rate = int(parts.rate[c] >= 0)
        blocked = NONE if c in parts.stores else int(c in book.waiting)
        self.used.append([c, total, has_rate, int(may), blocked, self.keys[key]])


def shape_row(shape: FixedShape | None, name: int, may_flow: bool) -> list[int]:
    """Row of a prepared graph in the table of shapes; zeros if only Python may submit it."""
    if shape is None or (not may_flow and len(cast(GraphBlock, shape.shape).flows)):
        return [0] * SHAPE
    block, numbers = cast(GraphBlock, shape.shape), shape.numbers
    counted = (block.links, block.collectives, block.flows, block.uses, block.holders, block.claims)
    row = [address(block.cells), len(block.cells), address(block.times)]
    for one in counted:
        row += [address(one), len(one)]
    columns = numbers.fixed, numbers.work_hi, numbers.work_lo, numbers.limit, numbers.amount
    row += [address(block.owners), *map(address, columns)]
    return [*row, block.ops, name, NONE, 0, 0, 0]


def address(array: NDArray[Any]) -> int:
    """Address of a contiguous array."""
    if not array.flags.c_contiguous:
        raise AssertionError("an array of a prepared graph is not contiguous")
    return int(array.ctypes.data)


def table(rows: Sequence[Sequence[int]], columns: int) -> Array:
    """Table of integers, also if it has no row."""
    return np.array(rows, np.int64).reshape(len(rows), columns)
