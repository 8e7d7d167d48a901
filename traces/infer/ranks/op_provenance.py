"""Origin of a rank's events: module, line of user code, and launching operator."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ...column_table import Ints
from ...event_columns import Event
from ..events.call_tree import CallTree
from ..events.rank_trace import RankTrace
from ..waits.launches import Launches

MODULE = re.compile(r"nn\.Module: ")
LIBRARY = re.compile(r"(.*/)?(torch|importlib|contextlib|threading)[./]|<|nn\.Module")


class OpProvenance(NamedTuple):
    """Origin of each event of a rank, as columns; -1 if unknown.

    Parameters
    ----------
    module, source : index of the text of the innermost module, and of the innermost line of user
        code, shape (events,)
    operator : row of the operator around an event; for GPU work, of the operator that launched it,
        shape (events,)
    sole : 1 where ``operator`` launched no other work, shape (events,)
    outer : row of the operator around an operator, shape (events,)
    """

    module: Ints
    source: Ints
    operator: Ints
    sole: Ints
    outer: Ints


def op_provenance(events: RankTrace, tree: CallTree, work: Launches) -> OpProvenance:
    """Find the module, line of user code and operator of every event of a rank."""
    n = len(events.rows)
    python = events.kind[tree.row] == Event.PYTHON
    text = events.name[tree.row]
    module = _inherit_from_ancestors(
        tree, np.where(python & events.name_matches(MODULE)[tree.row], text, -1)
    )
    own = python & ~events.name_matches(LIBRARY)[tree.row]
    source = _inherit_from_ancestors(tree, np.where(own, text, -1))
    at_operator = np.where(events.kind[tree.row] == Event.OP, tree.row, -1)
    operator = _inherit_from_ancestors(tree, at_operator)
    provenance = OpProvenance(*(np.full(n, -1, np.int64) for _ in range(5)))
    for column, values in zip(provenance, (module, source, operator), strict=False):
        column[tree.row] = values
    around = np.where(tree.parent >= 0, operator[tree.parent], -1)
    provenance.outer[tree.row] = around
    for column, texts in ((provenance.module, "module"), (provenance.source, "stack")):
        recorded = events.table[texts]
        column[:] = np.where(recorded >= 0, recorded, column)
    _assign_to_work(provenance, work)
    return provenance


def _inherit_from_ancestors(tree: CallTree, values: Ints) -> Ints:
    """Fill missing values (-1) with the value of the innermost enclosing event that has one."""
    inherited = values.astype(np.int64)
    if not (inherited >= 0).any():
        return inherited
    for level in tree.positions_by_depth():
        level = level[inherited[level] < 0]
        inherited[level] = inherited[tree.parent[level]]
    return inherited


def _assign_to_work(provenance: OpProvenance, work: Launches) -> None:
    """Give launched work the operator, module and line of user code of its launching call."""
    k = np.flatnonzero(work.call >= 0)
    row, call = work.row[k], work.call[k]
    operator = provenance.operator[call]
    provenance.operator[row] = operator
    for column in (provenance.module, provenance.source):
        of_operator = np.where(operator >= 0, column[operator], -1)
        column[row] = np.where(of_operator >= 0, of_operator, column[call])
    has = operator >= 0
    count = np.bincount(operator[has], minlength=len(provenance.operator))
    provenance.sole[row[has]] = count[operator[has]] == 1
