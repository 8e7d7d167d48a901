"""Links that the data of one op crossed, and the fraction of its duration each link was busy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..engine_api.interface import NEVER, ONE
from ..facts.ops import Kind
from ..record.run_record import RunRecord


class LinkUse(NamedTuple):
    """Usage of one shared component by one op.

    Parameters
    ----------
    amount : amount that crossed the component, in its unit (B), including headers and the losses of
        the communication library
    share : fraction of the op's duration that this amount needs at the component's full rate
    """

    component: str
    amount: float
    share: float


def link_uses(record: RunRecord, op: int) -> list[LinkUse]:
    """Shared components that an op used, the busiest first.

    Empty for an op timed by a closed formula, which shares nothing, and for one that was rerouted.

    Parameters
    ----------
    op : id of the op, which is its row in the result

    Examples
    --------
    >>> from foretrace.models.network.collective.collectives import Fabric
    >>> from foretrace.models.network.part.link import Link
    >>> from foretrace.models.network.part.switch import Switch, star
    >>> from foretrace.sim.facts.graph import Builder, Member
    >>> from foretrace.sim.run.simulation import Simulation
    >>> system = star(2, Link(bandwidth=1e9, latency=0), Switch(bandwidth=1e9, latency=0, ports=2))
    >>> build = Builder("pair")
    >>> _ = build.collective([Member(0, 9), Member(1, 9)], bytes=4e6,
    ...     signature="collective:all-to-all receive=3,1")
    >>> done = Simulation(system, {"fabric": Fabric()}).run(build.graph(), keep="ops")
    >>> [(u.component, round(u.amount), round(u.share, 3)) for u in link_uses(done, 0)]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('node0.gpu1.tx', 3000000, 1.0), ('node0.switch.port0', 3000000, 1.0),
     ('node0.gpu0.tx', 1000000, 0.333), ('node0.switch.port1', 1000000, 0.333)]
    """
    columns = record.columns
    run = next(r for r in record.runs if r.first <= op < r.first + len(r.graph.explicit))
    flows, ticks = run.lowered.flows, int(columns.end[op] - columns.start[op])
    row = int(np.searchsorted(flows.op, op - run.first))
    told = row < len(flows) and int(flows.op[row]) == op - run.first
    if not told or columns.end[op] == NEVER or ticks <= 0 or columns.attempts[op] != 1:
        return []
    found = []
    for c, weight in flows.usage(row).items():
        rate, part = int(record.parts.rate[c]), record.system.components[c]
        busy = weight * flows.work(row) / (ONE * rate) if rate > 0 else 0.0
        amount = busy * record.tick * (part.rate or 0.0)
        found.append(LinkUse(part.name, amount, busy / ticks))
    return sorted(found, key=lambda use: (-use.share, use.component))


def longest_collective(record: RunRecord) -> int:
    """Id of the longest collective that shares rates; -1 if there is none."""
    columns, longest, most = record.columns, -1, 0
    for run in record.runs:
        flows = run.lowered.flows
        rows = flows.op[run.graph.explicit.ops.kind[flows.op] == Kind.COLLECTIVE]
        ids = rows.astype(np.int64) + run.first
        ids = ids[(columns.end[ids] != NEVER) & (columns.attempts[ids] == 1)]
        took = columns.end[ids] - columns.start[ids]
        if len(ids) and int(took.max()) > most:
            most, longest = int(took.max()), int(ids[np.argmax(took)])
    return longest
