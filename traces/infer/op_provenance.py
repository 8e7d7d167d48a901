"""Where a rank's events come from: module, line of the user's code, operator that launched them."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ..column_table import Integers
from ..event_columns import Event
from .call_tree import CallTree
from .launches import Launches
from .rank_trace import RankTrace

MODULE = re.compile(r"nn\.Module: ")
LIBRARY = re.compile(r"(.*/)?(torch|importlib|contextlib|threading)[./]|<|nn\.Module")


class OpProvenance(NamedTuple):
    """Columns over the events of a view; -1 for none.

    Parameters
    ----------
    module, source : (rows,) text numbers: innermost module, innermost line of the user's own code
    operator : (rows,) row of the operator that launched a piece of GPU work
    sole : (rows,) whether it launched nothing else
    """

    module: Integers
    source: Integers
    operator: Integers
    sole: Integers


def op_provenance(view: RankTrace, tree: CallTree, work: Launches) -> OpProvenance:
    """Find modules, source lines and launching operators."""
    n = len(view.rows)
    python = view.kind[tree.row] == Event.PYTHON
    text = view.name[tree.row]
    module = _inherited(tree, np.where(python & view.named(MODULE)[tree.row], text, -1))
    own = python & ~view.named(LIBRARY)[tree.row]
    source = _inherited(tree, np.where(own, text, -1))
    at_operator = np.where(view.kind[tree.row] == Event.OP, tree.row, -1)
    operator = _inherited(tree, at_operator)
    found = OpProvenance(*(np.full(n, -1, np.int64) for _ in range(4)))
    for column, values in zip(found, (module, source, operator), strict=False):
        column[tree.row] = values
    for column, texts in ((found.module, "module"), (found.source, "stack")):
        recorded = view.events[texts]
        column[:] = np.where(recorded >= 0, recorded, column)
    _hand_down(found, work)
    return found


def _inherited(tree: CallTree, values: Integers) -> Integers:
    """Values, or those of the nearest event around that has one."""
    found = values.astype(np.int64)
    if not (found >= 0).any():
        return found
    for level in tree.levels():
        level = level[found[level] < 0]
        found[level] = found[tree.parent[level]]
    return found


def _hand_down(found: OpProvenance, work: Launches) -> None:
    """Launched work is of the operator, module and line of its call."""
    k = np.flatnonzero(work.call >= 0)
    row, call = work.row[k], work.call[k]
    operator = found.operator[call]
    found.operator[row] = operator
    for column in (found.module, found.source):
        of_operator = np.where(operator >= 0, column[operator], -1)
        column[row] = np.where(of_operator >= 0, of_operator, column[call])
    has = operator >= 0
    count = np.bincount(operator[has], minlength=len(found.operator))
    found.sole[row[has]] = count[operator[has]] == 1
