"""Flows of all ranks on shared links, for colour refinement of SPMD graphs.

Flows and links are coloured together with ranks. A flow's colour depends on its rank, its work and
the colours of its links; a link's colour on its rate and the colours of its flows. Ranks and
groups are coloured by their flows. When nothing splits any more, every link of a colour carries
equally many flows of each colour, so max-min fairness gives all flows of a colour the same rate.
One flow of each colour is then enough, with the weight of all others added to its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine_api.interface import MOST_WEIGHT, ComponentTable, Flows
from ..facts.ops import Kind
from ..facts.sampling import random_bits
from ..facts.spmd.spmd_graph import SpmdGraph
from ..kernel.factorize import (
    equal_multisets,
    number_by_first_appearance,
    number_pairs,
    number_rows,
)
from .bottlenecks import flows_over_bottlenecks
from .shared_rates import TemplateFlows

Numbers = NDArray[np.int64]
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class SharedLinks:
    """Flows of the ranks of an SPMD graph, and the links that they use.

    Parameters
    ----------
    template : SPMD graph that the flows belong to
    template_flows : flows, reduced to the components that can limit them
    family : (flows,) group family of a collective's flow; -1 for flows of other ops
    facts : (flows,) class number of each flow; flows of one class have equal work and limit
    flow, link, weight : (uses,) index of the flow, index of the link, and the flow's weight on it
    component, rate : (links,) component index and rate of each link
    """

    template: SpmdGraph
    template_flows: TemplateFlows
    family: Numbers
    facts: Numbers
    flow: Numbers
    link: Numbers
    weight: Numbers
    component: NDArray[np.int32]
    rate: Numbers

    @classmethod
    def of(
        cls, template: SpmdGraph, template_flows: TemplateFlows, parts: ComponentTable
    ) -> SharedLinks:
        """Collect the flows of an SPMD graph and the links that can limit them.

        Each collective counts as a thread of its own, whichever rank leads it. So components are
        left out in the same way for identical ranks.
        """
        family = _families(template, template_flows)
        thread = number_pairs(template_flows.thread, family)[0]
        flows = flows_over_bottlenecks(template_flows.flows, thread, parts)
        link, first = number_by_first_appearance(flows.component)
        facts = np.column_stack([flows.work_hi, flows.work_lo.view(np.int64), flows.limit])
        component = flows.component[first]
        return cls(
            template,
            replace(template_flows, flows=flows),
            family,
            number_rows(facts)[0],
            np.repeat(np.arange(len(flows)), np.diff(flows.indptr)),
            link,
            flows.weight,
            component,
            parts.rate[component],
        )

    def flow_hashes(self, colour: Numbers, link_colour: Numbers) -> Hashes:
        """(flows,) hash of each flow, from the colours of its rank and its links."""
        over = _sums(random_bits(link_colour[self.link], self.weight), self.flow, len(self.facts))
        return random_bits(
            colour[self.template_flows.rank], self.template_flows.pair, self.facts, over
        )

    def rank_hashes(self, hashes: Hashes) -> Numbers:
        """(ranks,) sum of the hashes of each rank's non-collective flows."""
        own = self.family < 0
        return _sums(hashes[own], self.template_flows.rank[own], self.template.ranks)

    def group_hashes(self, family: int, hashes: Hashes) -> Numbers:
        """(groups,) sum of the hashes of the collective flows of each group of a family."""
        theirs, group = self.family == family, self.template.groups[family]
        return _sums(hashes[theirs], group[self.template_flows.rank[theirs]], int(group.max()) + 1)

    def refine_link_colours(self, link_colour: Numbers, hashes: Hashes) -> tuple[Numbers, Numbers]:
        """(links,) link colours, refined by flow hashes; and one link of each colour."""
        on = _sums(random_bits(hashes[self.flow], self.weight), self.link, len(self.rate))
        return number_pairs(link_colour, on)

    def fold(
        self, quotient: SpmdGraph, colour: Numbers, link_colour: Numbers
    ) -> TemplateFlows | None:
        """Flows of the folded graph, from the final colours of ranks and links.

        None after a hash collision, or if a weight exceeds its integer range.
        """
        which, first = number_pairs(colour[self.template_flows.rank], self.template_flows.pair)
        one = number_by_first_appearance(link_colour)[1]
        if not self._is_equitable(colour, link_colour, which, first, one):
            return None
        flows = self._representative_flows(link_colour, which, first, one)
        if flows is None:
            return None
        return self.template_flows.of_representatives(quotient, colour, first, flows)

    def _is_equitable(
        self, colour: Numbers, link_colour: Numbers, which: Numbers, first: Numbers, one: Numbers
    ) -> bool:
        """True if flows of a class, and links of a colour, agree in all that decides rates.

        Parameters
        ----------
        which, first : (flows,) class of each flow; (classes,) one flow of each class
        one : one link of each colour
        """
        ranks = np.bincount(colour)
        led = [
            np.bincount(colour[leads[leads >= 0]], minlength=len(ranks))
            for leads in self.template.group_leaders
        ]
        asking = np.stack([*led, ranks])[
            self.family, colour[self.template_flows.rank]
        ]  # -1 is the last
        of_flow = number_pairs(link_colour[self.link], self.weight)[0]
        of_link = number_pairs(which[self.flow], self.weight)[0]
        begins = np.concatenate(
            [[0], np.cumsum(np.bincount(self.link, minlength=len(link_colour)))]
        )
        each = np.arange(len(which))
        return bool(
            np.array_equal(np.bincount(which)[which], asking)
            and np.array_equal(self.facts, self.facts[first][which])
            and np.array_equal(self.rate, self.rate[one][link_colour])
            and equal_multisets(
                np.arange(len(self.flow)),
                self.template_flows.flows.indptr,
                of_flow,
                each,
                first[which],
            )
            and equal_multisets(
                np.argsort(self.link, kind="stable"), begins, of_link, np.arange(len(link_colour)),
                one[link_colour],
            )
        )  # fmt: skip

    def _representative_flows(
        self, link_colour: Numbers, which: Numbers, first: Numbers, one: Numbers
    ) -> Flows | None:
        """One flow of each class on one link per colour, with the weight of the class."""
        seen = np.zeros(len(link_colour), bool)
        seen[one] = True
        at = np.flatnonzero(seen[self.link])
        key, use = np.unique(
            which[self.flow[at]] * len(one) + link_colour[self.link[at]], return_inverse=True
        )
        if np.any(np.bincount(use, self.weight[at]) >= 0.99 * MOST_WEIGHT):
            return None
        weight = np.zeros(len(key), np.int64)
        np.add.at(weight, use, self.weight[at])
        counts = np.bincount(key // len(one), minlength=len(first))
        flows = self.template_flows.flows
        return Flows(
            np.arange(len(first), dtype=np.int32),
            flows.work_hi[first],
            flows.work_lo[first],
            flows.limit[first],
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            self.component[one][key % len(one)],
            weight,
        )


def _families(template: SpmdGraph, template_flows: TemplateFlows) -> Numbers:
    """(flows,) group family of each collective's flow; -1 for flows of other ops."""
    of = [
        p.family[p.encoded.first][t.pairs.question].astype(np.int64)
        for p, t in zip(template.programs, template_flows.threads, strict=True)
    ]
    begins = np.cumsum([0, *map(len, of)])
    found = np.concatenate(of)[begins[template.program[template_flows.rank]] + template_flows.pair]
    return np.where(template_flows.kind == Kind.COLLECTIVE, found, -1)


def _sums(hashes: Hashes, at: NDArray[Any], n: int) -> Numbers:
    """(n,) sum of the hashes at each index; the order does not matter."""
    found = np.zeros(n, np.uint64)
    np.add.at(found, at, hashes)
    return found.view(np.int64)
