"""Results of a stream, in seconds: its table, and its metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine_api.item_setup import ItemNames
from ..facts.items.layout import ItemSums
from ..record.item_table import ItemTable
from ..run.process import Running
from ..units import ticks_per_second
from .item_sums import RELATIVE_ERROR, bucket_middles

QUANTILES = 4096  # samples in place of latencies that were too many to keep


def item_table(engine: Any, names: ItemNames, sim: Running) -> ItemTable:
    """Table of a stream, from its engine."""
    sums: ItemSums = engine.sums()
    per_second = ticks_per_second(sim.tick)

    def seconds(ticks: Any) -> NDArray[np.float64]:
        return np.asarray(ticks, np.float64) / per_second

    return ItemTable(
        name=names.stream,
        job=sim.job.name,
        classes=names.classes,
        pools=tuple(pool.name for pool in names.pools),
        delays=np.array([pool.servers is None for pool in names.pools]),
        arrived=np.array(sums.came),
        ended=np.array(sums.left),
        dropped=np.array(sums.lost),
        inside=sums.inside,
        served=np.array(sums.served),
        waiting=seconds(sums.waited),
        working=seconds(sums.worked),
        drops=np.array(sums.drops),
        latency=seconds(sums.latency),
        longest=seconds(sums.longest),
        counts=dict(zip(names.counters, sums.counts, strict=True)),
        samples=tuple(map(seconds, _samples(sums))),
        error=0.0 if sums.histogram is None else RELATIVE_ERROR,
    )


def _samples(sums: ItemSums) -> Iterator[NDArray[np.float64]]:
    """Latencies of each class, and then of all, in ticks, ascending."""
    if sums.histogram is not None:
        counts = np.array(sums.histogram)
        yield from map(_quantiles, (*counts, counts.sum(axis=0)))
        return
    known = [np.sort(np.array(one, np.float64)) for one in sums.latencies or ()]
    yield from (*known, np.sort(np.concatenate(known)))


def _quantiles(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Latencies at evenly spaced ranks, from the number in each bucket."""
    ends = np.cumsum(counts)
    ranks = (np.arange(QUANTILES) + 0.5) / QUANTILES * ends[-1]
    chosen = np.searchsorted(ends, ranks, side="right")
    return bucket_middles()[chosen] if ends[-1] else np.empty(0)


def record_table(table: ItemTable, names: ItemNames, sim: Running) -> None:
    """Add a table to the results of the run, and emit its metrics."""
    sim.add_items(table)
    sim.emit_many("latency", table.samples[-1], "s")
    if len(table.classes) > 1:
        for k, of in enumerate(table.classes):
            sim.emit_many(f"{of}.latency", table.samples[k], "s")
            sim.count(f"{of}.drops", int(table.dropped[k]))
    totals = {"arrived": table.arrived, "ended": table.ended, "drops": table.dropped}
    for name, counts in totals.items():
        sim.count(name, int(counts.sum()))
    for k, pool in enumerate(names.pools):
        if pool.queue is not None:
            sim.count(f"{pool.name}.drops", int(table.drops[:, k].sum()))
        served = int(table.served[:, k].sum())
        if served and pool.servers is not None:
            sim.emit(f"{pool.name}.wait", float(table.waiting[:, k].sum()) / served, "s")
    for name, total in table.counts.items():
        sim.count(name, total)
