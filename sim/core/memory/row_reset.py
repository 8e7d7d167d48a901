"""Initialisation of the cells of a new graph in one pass."""

from __future__ import annotations

import numpy as np

from ...kernel.jit import Int, jit_without_refcounts
from .state_layout import ARRIVED, END, FURTHER, NONE, START, Array, Links, Rows


@jit_without_refcounts
def reset_graph_rows(
    rows: Rows, times: Array, links: Links, fixed: Array, base: Int, edges: Int
) -> None:
    """Initialise the rows of a new graph at the end of the tables, and count unmet dependencies.

    Parameters
    ----------
    fixed : (n,) fixed time of each op in ticks
    base : row of the graph's first cell; the last row of the tables is an end mark
    edges : index in ``links`` of the graph's first link; the field ``first`` counts from it
    """
    for c in range(base, len(rows) - 1):
        rows[c]["next"] = NONE
        rows[c]["link"] = NONE
        rows[c]["unmet"] = 0
        rows[c]["state"] = 0
        rows[c]["at"] = 0
        rows[c]["flags"] = 0
        times[c, ARRIVED] = NONE
        times[c, START] = NONE
        times[c, END] = NONE
        i = c - base
        if i < len(fixed):
            rows[c]["left"] = fixed[i]
            rows[c]["first"] += edges
        else:
            rows[c]["flags"] = FURTHER
            rows[c]["left"] = 0
            rows[c]["first"] = len(links)
    rows[len(rows) - 1]["first"] = len(links)
    rows[len(rows) - 1]["flags"] = 0
    for e in range(edges, len(links)):
        rows[np.int64(links[e])]["unmet"] += 1
