"""Tables of the holders and claims of one graph, built when the graph joins a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...engine_api.interface import Claims
from . import state_layout as lay
from .state_layout import NONE, Array

Ops = NDArray[np.int32]


def holder_rows(claims: Claims) -> Ops:
    """Rows of ops that hold amounts, or until whose end other ops hold them, ascending.

    >>> row = np.array([1, 1, 4], np.int32)
    >>> holder_rows(Claims(row, row, row, np.array([-1, 2, 1], np.int32))).tolist()
    [1, 2, 4]
    """
    return np.union1d(claims.op, claims.until[claims.until >= 0]).astype(np.int32)


def collectives_and_holders(
    wide: Ops, at: Array, places: Array, ops: Ops
) -> tuple[Ops, Array, Array]:
    """Merge collectives and ops that hold capacities into one table of rows.

    Returns for each op its row, its first further participant, and the number of those. For an op
    with a single participant the number is 0 and the first is its own row.
    """
    every = np.union1d(wide, ops)
    first, count = every.astype(np.int64), np.zeros(len(every), np.int64)
    known = np.searchsorted(every, wide)
    first[known], count[known] = at, places
    return every.astype(np.int32), first, count


def holder_and_claim_tables(
    claims: Claims, ops: Ops, places: Array, base: int, first: int
) -> tuple[Array, Array]:
    """Tables of holders and claims: one row per holder, and one row per claim.

    Parameters
    ----------
    ops : rows of the ops that are holders
    places : number of participants of each holder
    base : number of the graph's first cell
    first : number of the graph's first claim
    """
    holding = np.full((len(ops), lay.HOLDER), NONE, np.int64)
    begin, end = (np.searchsorted(claims.op, ops, side) for side in ("left", "right"))
    holding[:, lay.FIRST_CLAIM], holding[:, lay.CLAIM_COUNT] = first + begin, end - begin
    holding[:, lay.UNREADY] = places
    held = np.full((len(claims), lay.CLAIM), NONE, np.int64)
    held[:, lay.OF], held[:, lay.AMOUNT], held[:, lay.STANDS] = (
        claims.component,
        claims.amount,
        lay.OUT,
    )
    held[:, lay.HELD_BY] = claims.op.astype(np.int64) + base
    until = np.flatnonzero(claims.until >= 0)
    held[until, lay.UNTIL] = claims.until[until].astype(np.int64) + base
    lets = np.searchsorted(ops, claims.until[until])
    for k, let in zip(until.tolist(), lets.tolist(), strict=True):
        held[k, lay.ALSO], holding[let, lay.LETTING] = holding[let, lay.LETTING], first + k
    return holding, held
