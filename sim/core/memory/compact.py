"""Compaction of a run's memory: finished graphs are removed, the others move up in order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...kernel.jit import Int, jit_without_refcounts
from . import state_layout as lay
from .state_layout import NONE, Array, Links, Rows


@jit_without_refcounts
def mark_newly_ended(rows: Rows, fresh: NDArray[np.uint8]) -> None:
    """Mark the ops that ended since the last call."""
    for c in range(len(fresh)):
        flags = rows[c]["flags"]
        if rows[c]["state"] == lay.ENDED and not flags & (lay.COUNTED | lay.FURTHER):
            rows[c]["flags"] = flags | lay.COUNTED
            fresh[c] = 1


@jit_without_refcounts
def compact(
    rows: Rows,
    times: Array,
    links: Links,
    world: Array,
    graphs: Array,
    slot_components: Array,
    new_number: Links,
) -> None:
    """Move the cells, links and collectives of the remaining graphs to the start of memory.

    Parameters
    ----------
    graphs : (g, 8) for each remaining graph: old first cell, link and collective, new first cell,
        link and collective, number of cells, number of collectives
    slot_components : components with slots, whose queues contain cell numbers
    new_number : (cells + 1,) output: new number of each cell, NONE for removed cells
    """
    for c in range(len(new_number)):
        new_number[c] = NONE
    last = len(new_number) - 1
    for g in range(len(graphs)):
        cell, new = graphs[g, 0], graphs[g, 3]
        for i in range(graphs[g, 6]):
            new_number[cell + i] = new + i
    for b in range(lay.BUCKETS, lay.BUCKETS + 64):
        renumber_list(rows, world[b], new_number)
    renumber_list(rows, world[lay.BARRIER], new_number)
    for k in slot_components:
        renumber_list(rows, world[world[lay.PARTS] + k * lay.PART + lay.HEAD], new_number)
    for g in range(len(graphs)):
        cell, link, collective = graphs[g, 0], graphs[g, 1], graphs[g, 2]
        new, new_link, new_collective = graphs[g, 3], graphs[g, 4], graphs[g, 5]
        links_end = rows[cell + graphs[g, 6]]["first"]  # read before anything is written there
        for i in range(graphs[g, 6]):
            c, n = cell + i, new + i
            rows[n] = rows[c]
            rows[n]["first"] += new_link - link
            if rows[n]["flags"] & lay.FURTHER:
                rows[n]["link"] += new - cell
            elif rows[n]["flags"] & lay.WIDE:
                rows[n]["link"] += new_collective - collective
            following = rows[n]["next"]
            if following != NONE:
                rows[n]["next"] = new_number[following] if following < last else NONE
            for k in range(3):
                times[n, k] = times[c, k]
        for e in range(link, links_end):
            links[e + new_link - link] = links[e] + (new - cell)
        for k in range(graphs[g, 7]):
            old_row = world[lay.COLLECTIVES] + (collective + k) * lay.COLLECTIVE
            row = world[lay.COLLECTIVES] + (new_collective + k) * lay.COLLECTIVE
            for j in range(lay.COLLECTIVE):
                world[row + j] = world[old_row + j]
            world[row + lay.FURTHER_CELL] += new - cell
    for b in range(lay.BUCKETS, lay.BUCKETS + 64):
        renumber_cell(world, b, new_number)
    renumber_cell(world, lay.BARRIER, new_number)
    for k in slot_components:
        renumber_cell(world, world[lay.PARTS] + k * lay.PART + lay.HEAD, new_number)
        renumber_cell(world, world[lay.PARTS] + k * lay.PART + lay.TAIL, new_number)


@jit_without_refcounts
def renumber_cell(world: Array, at: Int, new_number: Links) -> None:
    """Replace the cell number stored at ``world[at]`` by its number after compaction."""
    c = world[at]
    if c != NONE:
        world[at] = new_number[c] if c < len(new_number) else NONE


@jit_without_refcounts
def renumber_list(rows: Rows, c: Int, new_number: Links) -> None:
    """Renumber the back links of a list of cells."""
    before: Int = NONE
    while c != NONE:
        rows[c]["unmet"] = before
        before = np.int64(new_number[c])
        c = rows[c]["next"]


@jit_without_refcounts
def renumber_claims(world: Array, claims: Int, count: Int, new_number: Links) -> None:
    """Update the op numbers in the claims after compaction.

    A claim stores the op that holds it and the op until whose end it lasts.
    """
    for claim in range(claims, claims + count * lay.CLAIM, lay.CLAIM):
        renumber_cell(world, claim + lay.HELD_BY, new_number)
        renumber_cell(world, claim + lay.UNTIL, new_number)


@jit_without_refcounts
def renumber_owners(world: Array, owners: Int, count: Int, new_number: Links) -> None:
    """Update the op that owns each flow after compaction; NONE if the op was removed."""
    for f in range(owners, owners + count):
        renumber_cell(world, f, new_number)
