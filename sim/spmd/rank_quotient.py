"""Exact quotient of an SPMD graph: of ranks that do the same at the same ticks, one is kept.

Ranks are coloured by their program; a colour splits while two of its ranks meet different
colours in a group, send to different colours, or hear from different ones.  When nothing
splits, every rank of a colour sees the same colours everywhere, so all of them do the same at
the same ticks: one of each colour is enough (an equitable partition; Weisfeiler and Leman 1968;
for networks of flows see Godsil and Royle, Algebraic Graph Theory, 9.3).
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
    """SPMD graph with one rank of each colour.

    Parameters
    ----------
    template : its ranks are the colours
    colour : (ranks,) of every rank
    first : (colours,) the rank that stands for each
    flows : of its ranks, each with the weight of all that it stands for; None where none share
    """

    template: SpmdGraph
    colour: NDArray[np.int32]
    first: NDArray[np.int32]
    flows: TemplateFlows | None = None


def fold_identical_ranks(template: SpmdGraph) -> RankQuotient:
    """Quotient with one rank of each class of identical ranks.

    Programs say how long everything takes: ranks of one program are asked nothing more.  Groups
    keep their numbers of members in the durations of their collectives.

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
    """Quotient of a template whose ops share rates; None where no two ranks do the same.

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
    """Quotient of ranks by their colours."""
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
    """Coarsest colouring whose ranks of one colour meet equal colours, and one rank of each.

    With links, whose flows are coloured alike too; and the colours of the links.
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
            joint = [links.of_groups(f, flows) for f in range(len(families))]
            finer, one = number_pairs(finer, links.of_ranks(flows))
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
    """Groups of one family, with their members in order."""

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
        """(ranks,) class of the group of each rank.

        Groups are of one class if their members and their lead have the same colours.

        Parameters
        ----------
        flows : (groups,) hash of the flows of each, where its collectives share rates
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
    """Groups of the quotient, one for each class of groups, and their leads."""
    groups = np.empty((len(template.groups), len(first)), np.int32)
    leads = []
    for f, (of, lead) in enumerate(zip(template.groups, template.group_leaders, strict=True)):
        kinds, one = number_by_first_appearance(
            _GroupFamily.of(of, lead).group_classes(colour)[first]
        )
        groups[f] = kinds
        leads.append(colour[lead[of[first[one]]]].astype(np.int32))
    return groups, tuple(leads)
