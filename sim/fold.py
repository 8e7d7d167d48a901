"""Identical ranks folded into one: colour refinement, and a quotient that is exact.

Ranks are coloured by their program; a colour splits while two of its ranks meet different
colours in a group, send to different colours, or hear from different ones.  When nothing
splits, every rank of a colour sees the same colours everywhere, so all of them do the same at
the same ticks: one of each colour is enough (an equitable partition; Weisfeiler and Leman 1968;
for networks of flows see Godsil and Royle, Algebraic Graph Theory, 9.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .template import Template


@dataclass(frozen=True)
class Folded:
    """One rank of each colour, and the colour of every rank."""

    template: Template
    colour: NDArray[np.int32]


def fold(template: Template) -> Folded:
    """Keep one rank of each class of identical ranks.

    Groups keep their numbers of members in the ops' durations, which were asked before.

    Examples
    --------
    >>> from foretrace.sim.ops import Kind, Ops
    >>> from foretrace.sim.template import Program
    >>> work = Ops.of(kind=[Kind.COMPUTE, Kind.COLLECTIVE], duration=[1.0, 0.5])
    >>> programs = tuple(Program.chain(work, family=[-1, 0]) for _ in range(2))
    >>> straggler = np.array([0, 0, 0, 1, 0, 0, 0, 0])
    >>> pairs = np.array([[0, 0, 1, 1, 2, 2, 3, 3]])
    >>> fold(Template(programs, straggler, pairs)).colour.tolist()
    [0, 0, 1, 2, 0, 0, 0, 0]
    """
    colour = _refine(template)
    _, first = np.unique(colour, return_index=True)
    groups = np.array(
        [_numbers(_signatures(colour, of)[of][first]) for of in template.groups], np.int32
    ).reshape(len(template.groups), len(first))
    peers = np.array(
        [np.where(to >= 0, colour[to], -1)[first] for to in template.peers], np.int32
    ).reshape(len(template.peers), len(first))
    quotient = replace(
        template,
        program=template.program[first],
        groups=groups,
        peers=peers,
    )
    return Folded(quotient, colour)


def _refine(template: Template) -> NDArray[np.int32]:
    """The coarsest colouring in which ranks of one colour meet the same colours."""
    colour = _numbers(template.program)
    senders = template.senders
    while True:
        finer = colour
        for of in template.groups:
            finer = _numbers(_pair(finer, _signatures(colour, of)[of]))
        for ends in (*template.peers, *senders):
            finer = _numbers(_pair(finer, np.where(ends >= 0, colour[ends], -1)))
        if finer.max(initial=0) == colour.max(initial=0):
            return colour
        colour = finer


def _pair(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """One number for each pair; ``b`` is at least -1."""
    return np.asarray(a.astype(np.int64) * (int(b.max(initial=0)) + 2) + b + 1)


def _signatures(colour: NDArray[np.int32], group: NDArray[np.int32]) -> NDArray[np.int64]:
    """(groups,) One number for groups whose members have the same colours, counted."""
    order = np.lexsort((colour, group))
    size = np.bincount(group)
    start = np.cumsum(size) - size
    found = np.full(len(size), -1, np.int64)
    used = 0
    for s in np.unique(size[size > 0]).tolist():
        those = np.flatnonzero(size == s)
        members = colour[order[start[those][:, None] + np.arange(s)]]
        kinds, number = np.unique(members, axis=0, return_inverse=True)
        found[those] = number.ravel() + used
        used += len(kinds)
    return found


def _numbers(values: NDArray[Any]) -> NDArray[np.int32]:
    """The same classes, numbered by first appearance."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.ravel()]
