"""Exact folding of an SPMD graph: of ranks that do the same at the same ticks, one is simulated.

Ranks are first coloured by their program. A colour splits if two of its ranks meet different
colours in a group, send to different colours, or receive from different colours. When nothing
splits any more, all ranks of a colour do the same at the same ticks, so one rank of each colour is
enough (an equitable partition; Weisfeiler and Leman 1968; for networks of flows see Godsil and
Royle, Algebraic Graph Theory, 9.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import ComponentTable
from ..facts.sampling import random_bits
from ..facts.spmd.spmd_graph import SpmdGraph
from ..kernel.factorize import equal_multisets, number_by_first_appearance, number_pairs
from .shared_links import SharedLinks
from .shared_rates import TemplateFlows

Numbers = NDArray[np.int64]
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class RankQuotient:
    """Folded SPMD graph, with one rank for each class (colour) of identical ranks.

    Parameters
    ----------
    template : SPMD graph whose ranks are the colours
    colour : (ranks,) colour of every original rank
    first : (colours,) original rank that represents each colour
    flows : flows of the representatives, weighted by all flows of their class; None if no op shares
        a rate
    """

    template: SpmdGraph
    colour: NDArray[np.int32]
    first: NDArray[np.int32]
    flows: TemplateFlows | None = None


def fold_identical_ranks(template: SpmdGraph) -> RankQuotient:
    """Fold an SPMD graph without shared rates to one rank of each class of identical ranks.

    Ranks with the same program have equal op timings. The durations of collectives already reflect
    the original group sizes.

    Examples
    --------
    >>> from foretrace.sim.facts.ops import Kind, Ops
    >>> from foretrace.sim.facts.spmd.spmd_graph import RankProgram
    >>> work = Ops.of(kind=[Kind.COMPUTE, Kind.COLLECTIVE], duration=[1.0, 0.5])
    >>> programs = tuple(RankProgram.chain(work, family=[-1, 0]) for _ in range(2))
    >>> straggler = np.array([0, 0, 0, 1, 0, 0, 0, 0])
    >>> pairs = np.array([[0, 0, 1, 1, 2, 2, 3, 3]])
    >>> fold_identical_ranks(SpmdGraph(programs, straggler, pairs)).colour.tolist()
    [0, 0, 1, 2, 0, 0, 0, 0]
    """
    colour, first, _ = _refine_colours(template, None)
    return _quotient(template, colour, first)


def fold_ranks_that_share(
    template: SpmdGraph, template_flows: TemplateFlows, parts: ComponentTable
) -> RankQuotient | None:
    """Fold an SPMD graph whose ops share rates; None if no two ranks are identical.

    Parameters
    ----------
    template_flows : flows of all ranks
    """
    links = SharedLinks.of(template, template_flows, parts)
    colour, first, link_colour = _refine_colours(template, links)
    if len(first) == template.ranks:
        return None
    found = _quotient(template, colour, first)
    flows = links.fold(found.template, colour, link_colour)
    return None if flows is None else replace(found, flows=flows)


def _quotient(template: SpmdGraph, colour: Numbers, first: Numbers) -> RankQuotient:
    """Build the folded graph from the colours of the ranks."""
    groups, leads = _quotient_groups(template, colour, first)
    peers = np.array(
        [np.where(to >= 0, colour[to], -1)[first] for to in template.peers], np.int32
    ).reshape(len(template.peers), len(first))
    quotient = replace(
        template,
        program=template.program[first],
        groups=groups,
        peers=peers,
        lead=leads,
    )
    return RankQuotient(quotient, colour.astype(np.int32), first.astype(np.int32))


def _refine_colours(
    template: SpmdGraph, links: SharedLinks | None
) -> tuple[Numbers, Numbers, Numbers]:
    """Refine the colours of ranks until none splits; returns colours and one rank of each.

    With links, flows and links are coloured too, and the colours of links are also returned.
    """
    colour, first = number_by_first_appearance(template.program)
    link_colour, link = number_by_first_appearance(_NONE if links is None else links.rate)
    families = [
        _GroupFamily.of(of, lead)
        for of, lead in zip(template.groups, template.group_leaders, strict=True)
    ]
    joint: list[Numbers | None] = [None] * len(families)
    while True:
        finer, one, seen = colour, first, len(link)
        if links is not None:
            flows = links.flow_hashes(colour, link_colour)
            joint = [links.group_hashes(f, flows) for f in range(len(families))]
            finer, one = number_pairs(finer, links.rank_hashes(flows))
            link_colour, link = links.refine_link_colours(link_colour, flows)
        for family, theirs in zip(families, joint, strict=True):
            finer, one = number_pairs(finer, family.group_classes(colour, theirs))
        for ends in (*template.peers, *template.senders):
            finer, one = number_pairs(finer, np.where(ends >= 0, colour[ends], -1))
        if len(one) == len(first) and len(link) == seen:
            return colour, first, link_colour
        colour, first = finer, one


@dataclass(frozen=True)
class _GroupFamily:
    """Communication groups of one family, with their members in order."""

    group: Numbers
    lead: Numbers
    order: Numbers
    begins: Numbers
    filled: Numbers  # groups with members

    @classmethod
    def of(cls, group: NDArray[np.int32], lead: NDArray[np.int32]) -> _GroupFamily:
        size = np.bincount(group)
        begins = np.concatenate([[0], np.cumsum(size)])
        order = np.argsort(group, kind="stable")
        return cls(
            group.astype(np.int64), lead.astype(np.int64), order, begins, np.flatnonzero(size)
        )

    def group_classes(self, colour: Numbers, flows: Numbers | None = None) -> Numbers:
        """Class of the group of each rank, shape (ranks,).

        Two groups are of one class if their members and their lead rank have the same colours.

        Parameters
        ----------
        flows : (groups,) hash of each group's flows, if its collectives share rates
        """
        hashes = np.add.reduceat(random_bits(colour)[self.order], self.begins[self.filled])
        kind, first = number_pairs(
            number_by_first_appearance(hashes)[0], colour[self.lead[self.filled]]
        )
        like = self.filled[first[kind]]
        if not equal_multisets(self.order, self.begins, colour, self.filled, like):
            kind = np.arange(len(self.filled))  # two hashes are one: fold no groups
        if flows is not None:
            kind, _ = number_pairs(kind, flows[self.filled])
        found = np.zeros(len(self.lead), np.int64)
        found[self.filled] = kind
        return found[self.group]


def _quotient_groups(
    template: SpmdGraph, colour: Numbers, first: Numbers
) -> tuple[NDArray[np.int32], tuple[NDArray[np.int32], ...]]:
    """Groups of the folded graph, one for each class of groups, and their lead ranks."""
    groups = np.empty((len(template.groups), len(first)), np.int32)
    leads = []
    for f, (of, lead) in enumerate(zip(template.groups, template.group_leaders, strict=True)):
        kinds, one = number_by_first_appearance(
            _GroupFamily.of(of, lead).group_classes(colour)[first]
        )
        groups[f] = kinds
        leads.append(colour[lead[of[first[one]]]].astype(np.int32))
    return groups, tuple(leads)
