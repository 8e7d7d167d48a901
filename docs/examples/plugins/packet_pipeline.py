"""Example of a stream of items: packets through a parser, a flow table and a slow path.

A packet whose flow is in the table takes the fast path. Another one enters its flow, and goes to
the slow path, whose line drops what it cannot hold.
"""

from typing import NamedTuple

import foretrace as ft
import numpy as np
from foretrace.sim.facts.items.arrival_process import Poisson
from foretrace.sim.items import item_policy as items
from foretrace.sim.items.item_stream import ITEM_METRICS
from foretrace.sim.units import Seconds

PARSE, TABLE, SLOW = range(3)  # pools
NEW, HIT, MISS = range(3)  # classes
FLOW = items.A  # column of an item
FIRST, SERVICE = range(2)  # purposes of random numbers


class Flows(NamedTuple):
    popularity: np.ndarray  # of flows, by Zipf's law
    entries: np.ndarray  # flow in each entry of the table
    times: np.ndarray  # ticks in each pool; in the slow path the mean


@ft.item_kernel
def forward(state, item, turn):
    kind, pool = items.kind(turn), items.pool(turn)
    if kind == items.ARRIVES:
        item[FLOW] = items.zipf(turn, item, FIRST, state.popularity)
        return PARSE
    if kind == items.STARTS:
        if pool == TABLE:
            entry = item[FLOW] % len(state.entries)
            item[items.CLASS] = HIT if state.entries[entry] == item[FLOW] else MISS
            state.entries[entry] = item[FLOW]
            items.count(turn, item[items.CLASS] - HIT, 1)
        if pool == SLOW:
            return items.exponential(turn, item, SERVICE, float(state.times[SLOW]))
        return state.times[pool]
    if pool == PARSE:
        return TABLE
    return SLOW if pool == TABLE and item[items.CLASS] == MISS else items.LEAVE


@ft.workload("packet-pipeline")
class PacketPipeline(ft.Workload):
    """Packets through three pools.

    Parameters
    ----------
    rate : float
        Packets per second.
    packets, flows, entries : int
        Number of packets, of their flows, and of entries of the table.
    cores : int
        Cores of the slow path.
    line : int
        Packets that may wait for the slow path.
    parse, lookup, slow : Seconds
        Time of a packet in each pool; in the slow path the mean.
    load : Seconds
        Time to load the program, before the first packet.
    """

    metrics = (
        *ITEM_METRICS,
        ft.Metric("hits", "1", "Packets whose flow was in the table.", ()),
        ft.Metric("misses", "1", "Packets whose flow was not in the table.", ()),
    )
    headline = "latency.p99"
    needs = ft.Needs({"host": ft.Need("host", 1)})

    def __init__(
        self,
        *,
        rate: float,
        packets: int,
        flows: int = 100_000,
        entries: int = 16_384,
        cores: int = 4,
        line: int = 16,
        parse: Seconds = 40e-9,
        lookup: Seconds = 60e-9,
        slow: Seconds = 800e-9,
        load: Seconds = 20e-6,
    ):
        self.arrivals, self.times = Poisson(rate, count=packets), (parse, lookup, slow)
        self.flows, self.entries, self.cores, self.line = flows, entries, cores, line
        self.load = load

    def start(self, job):
        pools = [ft.ItemPool("parser", 1), ft.ItemPool("table", 1)]
        pools.append(ft.ItemPool("slow-path", self.cores, ft.Queue(self.line, "drop")))
        ticks = np.rint(np.array(self.times) * 1e12).astype(np.int64)
        state = Flows(items.zipf_table(self.flows, 1.0), np.full(self.entries, -1), ticks)
        stream = ft.ItemStream(
            forward,
            state,
            pools=pools,
            arrivals=self.arrivals,
            classes=["new", "hit", "miss"],
            counters=["hits", "misses"],
            name="packets",
        )
        build = ft.Builder("load")
        build.op(ft.Kind.DELAY, duration=self.load)

        def forwarding(sim):
            yield sim.submit(build.graph()).done
            yield stream.start(sim).done

        return forwarding
