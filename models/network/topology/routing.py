"""Choice between equal-cost paths: hashed per flow (ECMP), weighted, or sprayed.

A switch with several next links hashes a flow's five-tuple to choose one (RFC 2992). One hash per
flow is used at every switch, but each switch uses its own digits of it. So all paths are equally
likely and the choices of switches are independent (no polarisation).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ....sim.facts.sampling import random_bits
from .next_links import Candidates, NextLinks, NoRouteError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

UDP, ROCE_PORT = 17, 4791
"""Protocol and destination port of RoCEv2; the source port is a flow's own (InfiniBand
Architecture 1.4, annex A17)."""
PAIRS = 1 << 17  # switches per batch, each with one row per path
CHOICES = ECMP, WEIGHTED, SPRAY = "ecmp", "weighted", "spray"


class CrossedLinks(NamedTuple):
    """Links that flows cross: one row per link of each flow.

    Parameters
    ----------
    flow, link : (n,) indices; the links of a flow are in the order of its path
    share : (n,) share of the flow's data
    """

    flow: Ints
    link: Ints
    share: Floats


class Routing(NamedTuple):
    """Rule that chooses paths among those of equal cost.

    Parameters
    ----------
    choice : ``ecmp`` (hash), ``weighted`` (hash, in proportion to link weights) or ``spray``
    paths : number of paths per flow under ``spray``; 0 for all, with an even split at each switch
    seed : seed of the hash
    """

    choice: str = SPRAY
    paths: int = 0
    seed: int = 0

    def check(self) -> None:
        """Raise an error for an invalid rule.

        Raises
        ------
        ValueError
            The rule is invalid; the message says what to write.
        """
        if self.choice not in CHOICES:
            raise ValueError(f"routing is {self.choice!r}; take one of: {', '.join(CHOICES)}")
        if self.paths < 0:
            raise ValueError(f"paths is {self.paths}; give 1 or more, or 0 for all there are")
        if self.paths and self.choice != SPRAY:
            raise ValueError(
                f"paths is {self.paths}, but routing '{self.choice}' uses one path per flow; "
                "write routing: spray, or leave paths out"
            )

    def crossed(
        self, links: NextLinks, at: Ints, to: Ints, source: ArrayLike, target: ArrayLike,
        label: ArrayLike = 0,
    ) -> CrossedLinks:  # fmt: skip
        """Links that flows cross between their first and last switch.

        A link that two paths of a flow share has one row for each path.

        Parameters
        ----------
        at, to : (flows,) first and last switch
        source, target : (flows,) addresses of the ends
        label : (flows,) source port, which distinguishes flows of one pair
        """
        if self.choice == SPRAY and not self.paths:
            flow = np.arange(len(at), dtype=np.int64)
            return split_over_all(links, flow, at, to, np.ones(len(at)))
        first, k = (
            np.broadcast_to(flow_hash(self.seed, source, target, label), len(at)),
            self.paths_per_flow,
        )
        if k == 1:
            flow, link = follow_hashed_path(links, at, to, first)
            return CrossedLinks(flow, link, np.ones(len(flow)))
        spread = (np.repeat(first, k) + np.tile(np.arange(k) / k, len(at))) % 1.0
        way, link = follow_hashed_path(links, np.repeat(at, k), np.repeat(to, k), spread)
        return CrossedLinks(way // k, link, np.full(len(way), 1 / k))

    @property
    def paths_per_flow(self) -> int:
        """Number of paths of each flow; 0 for all."""
        return self.paths if self.choice == SPRAY else 1

    def paths_of_flow(
        self, links: NextLinks, at: int, to: int, source: int, target: int
    ) -> dict[tuple[int, ...], float]:
        """Links of each path of one flow, with the path's share of the data."""
        if not self.paths_per_flow:
            return dict(all_paths(links, at, to))
        here, there = (np.full(self.paths_per_flow, x, np.int64) for x in (at, to))
        first = float(flow_hash(self.seed, source, target, 0)[0])
        spread = (first + np.arange(self.paths_per_flow) / self.paths_per_flow) % 1.0
        way, link = follow_hashed_path(links, here, there, spread)
        found: dict[tuple[int, ...], float] = {}
        for k in range(self.paths_per_flow):
            one = tuple(link[way == k].tolist())
            found[one] = found.get(one, 0.0) + 1 / self.paths_per_flow
        return found

    def highest_route_cost(
        self, links: NextLinks, at: Ints, to: Ints, source: Ints, target: Ints, cost: Floats
    ) -> Floats:
        """Largest sum of link costs along one path of each flow, shape (flows,)."""
        k = self.paths_per_flow
        if not k:
            switches = int(links.target.max(initial=0)) + 1
            pair, same = np.unique(at * switches + to, return_inverse=True)
            return longest_paths(links, *np.divmod(pair, switches), cost)[same]
        first = np.repeat(flow_hash(self.seed, source, target, 0), k)
        spread = (first + np.tile(np.arange(k) / k, len(at))) % 1.0
        way, link = follow_hashed_path(links, np.repeat(at, k), np.repeat(to, k), spread)
        of_ways = np.bincount(way, cost[link], k * len(at)).reshape(len(at), k)
        return np.asarray(of_ways.max(axis=1), np.float64)

    def link_loads(
        self, links: NextLinks, at: Ints, to: Ints, source: ArrayLike, target: ArrayLike,
        amount: Floats,
    ) -> Floats:  # fmt: skip
        """Total amount over each link for a set of flows, shape (links,)."""
        if self.choice == SPRAY and not self.paths:
            switches = int(links.target.max(initial=0)) + 1
            pair, whole = _sum_by_key(at * switches + to, amount, switches**2)
            return split_loads(links, *np.divmod(pair, switches), whole)
        if self.paths_per_flow == 1:  # all data of each flow: no share column needed
            digits = np.broadcast_to(flow_hash(self.seed, source, target, 0), len(at))
            hops = [(link, amount[flow]) for flow, link in _hops(links, at, to, digits)]
            link, much = map(np.concatenate, zip((at[:0], amount[:0]), *hops, strict=True))
            return np.bincount(link, much, len(links.target)).astype(np.float64)
        crossed = self.crossed(links, at, to, source, target)
        crossed = crossed._replace(share=crossed.share * amount[crossed.flow])
        return np.bincount(crossed.link, crossed.share, len(links.target)).astype(np.float64)

    def exchange_loads(
        self, links: NextLinks, switches: Ints, members: Ints, a: Ints, b: Ints
    ) -> Floats:
        """Messages over each link if every member sends one to every other, shape (links,).

        Requires even spraying over all paths. Destinations are processed in blocks.

        Parameters
        ----------
        switches : switches that have members, sorted
        members : (switches,) number of members at each
        a, b : (pairs,) indices into ``switches``; for each pair, one member at switch ``a`` sends
            nothing to one at switch ``b``
        """
        found, n = np.zeros(len(links.target)), len(switches)
        each = max(1, PAIRS // max(n, 1))  # no traffic if all members are in one machine
        order = np.argsort(b, kind="stable")
        a, b = a[order], b[order]
        for at in range(0, n, each):
            some = np.arange(at, min(at + each, n))
            pairs = np.outer(members[some], members).astype(np.float64)
            few = slice(*np.searchsorted(b, (at, at + each)))
            np.subtract.at(pairs, (b[few] - at, a[few]), 1.0)
            here, there = np.tile(switches, len(some)), np.repeat(switches[some], n)
            sent = pairs.ravel()
            far = (here != there) & (sent > 0)
            found += self.link_loads(links, here[far], there[far], 0, 0, sent[far])
        return found


def flow_hash(seed: int, source: ArrayLike, target: ArrayLike, label: ArrayLike) -> Floats:
    """Hash of five-tuples (addresses, protocol, ports), from 0 to below 1.

    >>> a, b = flow_hash(1, 0, [1, 1], [0, 1])
    >>> bool(a == b), bool(a == flow_hash(1, 0, 1, 0)[0])
    (False, True)
    """
    bits = random_bits(seed, UDP << 16 | ROCE_PORT, label, source, target)  # the longest last
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def follow_hashed_path(links: NextLinks, at: Ints, to: Ints, digits: Floats) -> tuple[Ints, Ints]:
    """Single path of each flow: flow and link indices, hop by hop.

    Parameters
    ----------
    digits : (flows,) hash from 0 to below 1; each switch uses its leading part to choose a link and
        leaves the rest to the next switches
    """
    hops = [*_hops(links, at, to, digits)] or [(np.zeros(0, np.int64),) * 2]
    flows, crossed = zip(*hops, strict=True)
    return np.concatenate(flows), np.concatenate(crossed)


def _hops(links: NextLinks, at: Ints, to: Ints, digits: Floats) -> Iterator[tuple[Ints, Ints]]:
    """Flows that have not arrived, and the next link of each, hop by hop."""
    for some in links.blocks(to):
        flow = np.arange(len(at), dtype=np.int64)[some]
        here, there, left = at[some], to[some], digits[some]
        while len(flow):
            moving = here != there
            if not moving.all():
                flow, here, there, left = (x[moving] for x in (flow, here, there, left))
                if not len(flow):
                    break
            first, count = _links_that_lead_on(links, here, there)
            left = left * count
            pick = left.astype(np.int64)
            left -= pick
            link = links.links[first + pick]
            yield flow, link
            here = links.target[link]


def all_paths(links: NextLinks, at: int, to: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """All paths between two switches, with their shares if every switch splits evenly."""
    if at == to:
        yield (), 1.0
        return
    first, count = (int(x[0]) for x in _links_that_lead_on(links, np.array([at]), np.array([to])))
    for link, many in Counter(links.links[first : first + count].tolist()).items():
        for rest, share in all_paths(links, int(links.target[link]), to):
            yield (link, *rest), share * many / count


def split_over_all(
    links: NextLinks, flow: Ints, at: Ints, to: Ints, amount: Floats
) -> CrossedLinks:
    """Links that data crosses if every switch splits it evenly over its next links.

    Rows of one flow that meet at a switch are merged. Rows with the same flow number may start at
    different switches.
    """
    none = np.zeros(0, np.int64)
    found = [CrossedLinks(none, none, np.zeros(0))]
    for some in links.blocks(to):
        found += _split_hops(links, flow[some], at[some], to[some], amount[some])
    return CrossedLinks(*map(np.concatenate, zip(*found, strict=True)))


def _split_hops(
    links: NextLinks, flow: Ints, at: Ints, to: Ints, amount: Floats
) -> Iterator[CrossedLinks]:
    switches = int(links.target.max(initial=0)) + 1
    while (moving := at != to).any():
        flow, at, to, amount = (x[moving] for x in (flow, at, to, amount))
        row, link = _all_links_that_lead_on(links, at, to)
        share = (amount / np.bincount(row, minlength=len(flow)))[row]
        yield CrossedLinks(flow[row], link, share)
        key = flow[row] * switches + links.target[link]
        met, one, where = np.unique(key, return_index=True, return_inverse=True)
        flow, at = np.divmod(met, switches)
        to, amount = to[row[one]], np.bincount(where, share).astype(np.float64)


def split_loads(links: NextLinks, at: Ints, to: Ints, amount: Floats) -> Floats:
    """Total over each link, shape (links,), if every switch splits data evenly over its next links.

    Data for the same destination that continues to the same switches is summed before it is split,
    for example from all leaves of a pod, which share their spines.
    """
    found = np.zeros(len(links.target))
    for some in links.blocks(to):
        here, there, much = at[some], to[some], amount[some]
        while (moving := here != there).any():
            here, there, much = (x[moving] for x in (here, there, much))
            first, count = _links_that_lead_on(links, here, there)
            begin, one, which = _distinct_keys(first)
            length, share = count[one], much / count
            owner, place = _rows_of(length)
            link = links.links[begin[owner] + place]
            found += np.bincount(link, np.bincount(which, share)[owner], len(found))
            heads = links.target[link]
            kind, kinds = _number_equal_slices(heads, length)
            key, _, where = _distinct_keys(there * len(kinds) + kind[which])
            there, kind = np.divmod(key, len(kinds))
            row, place = _rows_of(length[kinds][kind])
            ends = np.cumsum(length)
            here = heads[(ends - length)[kinds][kind][row] + place]
            there = there[row]
            much = np.bincount(where, share).astype(np.float64)[row]
    return found


def _rows_of(counts: Ints) -> tuple[Ints, Ints]:
    """Owner of each row, and the row's position among the owner's rows.

    ``counts`` is the number of rows of each owner, whose rows are consecutive.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def _number_equal_slices(heads: Ints, length: Ints) -> tuple[Ints, Ints]:
    """Number of each slice, equal for equal slices of ``heads``; and the first slice per number.

    >>> [x.tolist() for x in _number_equal_slices(np.array([4, 5, 6, 4, 5]), np.array([2, 1, 2]))]
    [[0, 1, 0], [0, 1]]
    """
    ends = np.cumsum(length)
    kind, kinds = np.empty(len(length), np.int64), list[int]()
    seen: dict[bytes, int] = {}
    for i, (begin, end) in enumerate(zip((ends - length).tolist(), ends.tolist(), strict=True)):
        kind[i] = seen.setdefault(heads[begin:end].tobytes(), len(kinds))
        if kind[i] == len(kinds):
            kinds.append(i)
    return kind, np.array(kinds, np.int64)


def count_paths(links: NextLinks, at: Ints, to: Ints) -> Floats:
    """Number of paths between switches, shape (pairs,); parallel links count separately."""
    found = np.zeros(len(at))
    for some in links.blocks(to):
        pair, here, there = np.arange(len(at))[some], at[some], to[some]
        ways = np.ones(len(pair))
        while len(pair):
            done = here == there
            np.add.at(found, pair[done], ways[done])
            row, link = _all_links_that_lead_on(links, here[~done], there[~done])
            pair, there, ways = (x[~done][row] for x in (pair, there, ways))
            key, one, where = np.unique(
                np.stack([pair, links.target[link]]), axis=1, return_index=True, return_inverse=True
            )
            (pair, here), there = key, there[one]
            ways = np.bincount(where.ravel(), ways, len(one)).astype(np.float64)
    return found


def longest_paths(links: NextLinks, at: Ints, to: Ints, cost: Floats) -> Floats:
    """Largest sum of link costs along any path between switches, shape (pairs,)."""
    found = np.zeros(len(at))
    for some in links.blocks(to):
        pair, here, there = np.arange(len(at))[some], at[some], to[some]
        spent = np.zeros(len(pair))
        while len(pair):
            done = here == there
            np.maximum.at(found, pair[done], spent[done])
            row, link = _all_links_that_lead_on(links, here[~done], there[~done])
            pair, there, spent = (x[~done][row] for x in (pair, there, spent))
            ends = np.stack([pair, links.target[link]])
            (pair, here), one, where = np.unique(
                ends, axis=1, return_index=True, return_inverse=True
            )
            there, spent = there[one], spent + cost[link]
            most = np.zeros(len(one))
            np.maximum.at(most, where.ravel(), spent)
            spent = most
    return found


def _all_links_that_lead_on(links: NextLinks, at: Ints, to: Ints) -> tuple[Ints, Ints]:
    """Pair index and next link, one row per next link of each pair."""
    first, count = _links_that_lead_on(links, at, to)
    row = np.repeat(np.arange(len(at)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return row, links.links[first[row] + within]


def _links_that_lead_on(links: NextLinks, at: Ints, to: Ints) -> Candidates:
    """Next links of each pair; raises NoRouteError if a pair has none."""
    found = links.candidates(at, to)
    if not found.length.all():
        stuck = int(np.argmin(found.length))
        raise NoRouteError(int(at[stuck]), int(to[stuck]))
    return found


def _sum_by_key(key: Ints, amount: Floats, most: int) -> tuple[Ints, Floats]:
    """Distinct keys below ``most``, with the sum of their amounts."""
    if most <= 4 * len(key):
        whole = np.bincount(key, amount).astype(np.float64)
        found = np.flatnonzero(whole)
        return found, whole[found]
    found, same = np.unique(key, return_inverse=True)
    return found, np.bincount(same, amount).astype(np.float64)


def _distinct_keys(key: Ints) -> tuple[Ints, Ints, Ints]:
    """Distinct keys in order, the first row of each, and the index of each row's key.

    Dense keys are counted in place of sorted, which is ten times faster.

    >>> [x.tolist() for x in _distinct_keys(np.array([7, 5, 7, 5, 8]))]
    [[5, 7, 8], [1, 0, 4], [1, 0, 1, 0, 2]]
    """
    least = key.min()
    if key.max() - least >= 4 * len(key):
        return np.unique(key, return_index=True, return_inverse=True)
    from_least = key - least
    first = np.full(int(from_least.max()) + 1, -1, np.int64)
    first[from_least[::-1]] = np.arange(len(key) - 1, -1, -1)  # the last of equal keys remains
    found = np.flatnonzero(first >= 0)
    place = np.empty(len(first), np.int64)
    place[found] = np.arange(len(found))
    return found + least, first[found], place[from_least]
