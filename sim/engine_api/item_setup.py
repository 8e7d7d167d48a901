"""What an engine of a stream of items starts from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..facts.items.arrival_process import ArrivalTable
from ..facts.items.pool import ItemPool
from .queue_table import QueueTable


class ItemNames(NamedTuple):
    """Names of a stream and of what its policy knows by number."""

    stream: str
    pools: tuple[ItemPool, ...]
    classes: tuple[str, ...]
    counters: tuple[str, ...]


class ItemSetup(NamedTuple):
    """What an engine of items starts from.

    Parameters
    ----------
    step, state : policy, and its arrays
    servers : servers of each pool; None for a delay
    queues : lines of the pools
    arrivals : table of arrivals
    classes, counters : numbers of classes and counters
    key : keys of random numbers
    start : tick at which the stream starts
    per_second : ticks in a second
    most_inside : most items inside
    most_latencies : most latencies that are kept one by one
    """

    step: Callable[..., Any]
    state: Any
    servers: Sequence[int | None]
    queues: QueueTable
    arrivals: ArrivalTable
    classes: int
    counters: int
    key: tuple[int, ...]
    start: int
    per_second: int
    most_inside: int
    most_latencies: int
