"""Ticks at which the items of a stream arrive, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import numpy as np

from ..engine_api.item_setup import ItemSetup
from ..facts.items.arrival_process import ON_OFF, PACED, TABLE, ArrivalTable, unit_exponential
from ..facts.items.layout import NONE
from ..facts.sampling import random_bits


def arrival_ticks(setup: ItemSetup) -> Iterator[int]:
    """Ticks of all arrivals, in order."""
    arrivals, start = setup.arrivals, setup.start
    for tick in islice(_ticks_after_start(arrivals, setup.key), arrivals.most):
        if tick > arrivals.last:
            return
        yield start + tick


def _ticks_after_start(arrivals: ArrivalTable, key: tuple[int, ...]) -> Iterator[int]:
    if arrivals.kind == TABLE:
        yield from arrivals.at.tolist()
    elif arrivals.kind == PACED:
        for k in count():
            yield int(np.rint(k * arrivals.gap))
    else:
        tick = 0
        for gap in _gaps(arrivals, key):
            tick += int(np.rint(gap))
            yield tick


def _gaps(arrivals: ArrivalTable, key: tuple[int, ...]) -> Iterator[float]:
    """Gaps between arrivals in ticks; with on and off periods, what passes in both."""
    draws = (unit_exponential(random_bits(*key, NONE, k).item()) for k in count(1))
    if arrivals.kind != ON_OFF:
        for draw in draws:
            yield draw * arrivals.gap
    left = unit_exponential(random_bits(*key, NONE, 0).item()) * arrivals.on
    while True:
        gap, passed = next(draws) * arrivals.gap, 0.0
        while gap >= left:
            gap -= left
            passed += left + next(draws) * arrivals.off
            left = next(draws) * arrivals.on
        left -= gap
        yield passed + gap
