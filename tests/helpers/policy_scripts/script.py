"""A policy as plain data: what it does at its first event, its second, and so on."""

from __future__ import annotations

from typing import NamedTuple

GRAPHS = ("one", "two", "holding")
GRID = len(GRAPHS)  # number of the grid, which comes after the graphs
PARTS = ("node0.kv", "node0.pool", "wire", "node0.gpu1")
CAPACITIES = 2  # parts with a capacity, which come first
STORES = ("node0.cache", "node0.pages")  # come after the parts; the second has order numbers
KEYS = 5  # of entries; the size of one is 1 + key % 3
BOXES = ("b0", "b1", "b2")
METRICS = ("event", "seen", "said")
COUNTERS = ("hits", "drops")
SERIES = ("level", "depth")
TAGS = 4
ON_WAY = 10  # the last number of a submission is its key, plus this times 1 + its way

SUBMIT, AFTER, TAKE, ACQUIRE, RELEASE, SEND, RATE, SAY, COUNT, CANCEL = range(10)
WATCH, LOOK, SETTLE, RECORD = range(10, 14)
KEEP, LET_GO, DROP, TOUCH, ORDER, PREFIX = range(14, 20)
"""Verbs of an action; the kernel and the twin say below what the numbers mean."""

Action = tuple[int, int, int, int, int]  # verb and four numbers


class Step(NamedTuple):
    """What a policy does at one event.

    Parameters
    ----------
    actions : in order
    code : what the kernel returns
    rows : rows that an array of its state must have before
    """

    actions: tuple[Action, ...]
    code: int = 0
    rows: int = 0


class PolicyScript(NamedTuple):
    """A whole policy.

    Parameters
    ----------
    name : its name
    steps : one per event; at its last one it ends
    arrivals : ticks at which something arrives, and an integer of each
    inbox : the mailbox that it reads, "" for none
    """

    name: str
    steps: tuple[Step, ...]
    arrivals: tuple[tuple[int, int], ...] = ()
    inbox: str = ""
