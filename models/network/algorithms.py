"""How collectives move data: for each algorithm its steps, and who sends how much to whom.

Everything else follows: the steps give the latency, the flows give the load on every link, and
the busiest link gives the bandwidth term.  For the ring that is ``2(n-1)(α + S/(nB))``.

References
----------
Thakur, Rabenseifner, Gropp 2005, doi:10.1177/1094342005051521 (ring, halving-doubling, pairwise).
Chan, Heimlich, Purkayastha, van de Geijn 2007, doi:10.1002/cpe.1206 (lower bounds, blocks).
Patarasu, Yuan 2009, doi:10.1016/j.jpdc.2008.09.002 (ring all-reduce is bandwidth optimal).
Sanders, Speck, Träff 2009, doi:10.1016/j.parco.2009.09.001 (two trees at full bandwidth).
Klenk et al. 2020, doi:10.1109/ISCA45697.2020.00085 (reduction and multicast in the switch).
Hensgen, Finkel, Manber 1988, doi:10.1007/BF01379320 (dissemination barrier).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...sim.units import ByteRate, Bytes, Seconds
from . import patterns as p
from .patterns import SWITCH, Flows, Path


@dataclass(frozen=True)
class Algorithm:
    """One way to do one collective of ``S`` bytes with ``n`` members.

    Parameters
    ----------
    collective, name : str
    flows : from n to Flows
    path : from n to Path
    usable : whether it works for n members
    in_switch : bool
        Needs a switch that reduces and multicasts.
    posts : messages that a member posts one after the other in a step
    nested : bool
        Between nodes only; ``flows`` and ``path`` also take the number of members in a node.
    symmetric : bool
        The order of the members changes nothing.
    received : from n to the share of S that a member takes in without sending meanwhile
        In a ring the last part of each lap: nobody waits for it further on.
    """

    collective: str
    name: str
    flows: Callable[..., Flows]
    path: Callable[..., Path]
    usable: Callable[[int], bool] = lambda n: n >= 2
    in_switch: bool = False
    posts: Callable[[int], int] = lambda n: 1
    nested: bool = False
    symmetric: bool = False
    received: Callable[[int], float] = lambda n: 0.0

    def steps(self, *n: int) -> int:
        """Latencies that add up.

        >>> ALGORITHMS["all-reduce"]["ring"].steps(8)
        14
        """
        return len(self.path(*n))

    def volume(self, *n: int) -> float:
        """What the busiest member sends or receives, as a multiple of S.

        >>> ALGORITHMS["all-reduce"]["ring"].volume(8)
        1.75
        """
        source, target, share = self.flows(*n)
        out = np.bincount(source[source != SWITCH], share[source != SWITCH], n[0])
        into = np.bincount(target[target != SWITCH], share[target != SWITCH], n[0])
        return float(max(out.max(), into.max()))


def closed_form(
    algorithm: Algorithm, n: int, size: Bytes, alpha: Seconds, rate: ByteRate
) -> Seconds:
    """Time on identical links: steps x α + volume x S / B.

    Examples
    --------
    >>> ring = ALGORITHMS["all-reduce"]["ring"]
    >>> closed_form(ring, 4, 1e9, 1.0, 1e9) == 2 * 3 * (1.0 + 1e9 / (4 * 1e9))
    True
    """
    return algorithm.steps(n) * alpha + algorithm.volume(n) * size / rate


def bus_factor(collective: str, n: int) -> float:
    """Bus bandwidth is algorithm bandwidth (S / time) times this, the convention of nccl-tests.

    It makes the number comparable with the rate of one link, whatever n
    (nccl-tests, doc/PERFORMANCE.md).

    Examples
    --------
    >>> [bus_factor(c, 8) for c in ("all-reduce", "all-gather", "broadcast")]
    [1.75, 0.875, 1.0]
    """
    if collective == "all-reduce":
        return 2 * (n - 1) / n
    split = ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")
    return (n - 1) / n if collective in split else 1.0


def last_part(n: int) -> float:
    """One part in n: what a ring brings a member last.

    >>> last_part(4)
    0.25
    """
    return 1 / n


def power_of_two(n: int) -> bool:
    """Whether n is 2, 4, 8, ….

    >>> [power_of_two(n) for n in (1, 2, 6, 8)]
    [False, True, False, True]
    """
    return n >= 2 and n & (n - 1) == 0


ALL = (
    Algorithm(
        "all-reduce",
        "ring",
        p.ring(lambda n: 2 * (n - 1) / n),
        p.rounds(2),
        received=last_part,
    ),
    Algorithm("all-reduce", "tree", p.trees, p.climb),
    Algorithm("all-reduce", "chain-tree", p.chained_trees, p.chained_climb, nested=True),
    Algorithm("all-reduce", "halving-doubling", p.doubling(2), p.distances(2), power_of_two),
    Algorithm(
        "all-reduce",
        "two-shot",
        p.pairs(lambda n: 2 / n),
        p.direct(2),
        posts=p.others,
        symmetric=True,
    ),
    Algorithm(
        "all-reduce",
        "one-shot",
        p.pairs(lambda n: 1.0),
        p.direct(1),
        posts=p.others,
        symmetric=True,
    ),
    Algorithm("all-reduce", "in-switch", p.switched, p.direct(2), lambda n: n >= 3, in_switch=True),
    Algorithm(
        "all-gather",
        "ring",
        p.ring(lambda n: (n - 1) / n),
        p.rounds(1),
        received=last_part,
    ),
    Algorithm("all-gather", "doubling", p.doubling(1), p.distances(1), power_of_two),
    Algorithm(
        "all-gather",
        "direct",
        p.pairs(lambda n: 1 / n),
        p.direct(1),
        posts=p.others,
        symmetric=True,
    ),
    Algorithm(
        "reduce-scatter",
        "ring",
        p.ring(lambda n: (n - 1) / n),
        p.rounds(1),
        received=last_part,
    ),
    Algorithm("reduce-scatter", "halving", p.doubling(1), p.distances(1), power_of_two),
    Algorithm(
        "reduce-scatter",
        "direct",
        p.pairs(lambda n: 1 / n),
        p.direct(1),
        posts=p.others,
        symmetric=True,
    ),
    Algorithm(
        "all-to-all",
        "grouped",
        p.pairs(lambda n: 1 / n),
        p.direct(1),
        posts=p.others,
        symmetric=True,
    ),
    Algorithm("all-to-all", "pairwise", p.pairs(lambda n: 1 / n), p.rounds(1), symmetric=True),
    Algorithm("broadcast", "chain", p.chain(into=False), p.rounds(1)),
    Algorithm("broadcast", "tree", p.rooted(into=False), p.from_root),
    Algorithm("reduce", "chain", p.chain(into=True), p.back),
    Algorithm("reduce", "tree", p.rooted(into=True), p.to_root),
    Algorithm("gather", "linear", p.star(into=True), p.direct(1)),
    Algorithm("scatter", "linear", p.star(into=False), p.direct(1), posts=p.others),
    Algorithm("barrier", "dissemination", p.nothing, p.distances(1)),
)

ALGORITHMS: dict[str, dict[str, Algorithm]] = {}
for _a in ALL:
    ALGORITHMS.setdefault(_a.collective, {})[_a.name] = _a
