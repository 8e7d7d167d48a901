"""A run as plain data, in engine units: it can be pasted into a test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_components
from foretrace.sim.engine_api.interface import ComponentTable
from foretrace.sim.engine_api.medium_api import Medium
from foretrace.sim.engine_api.queue_table import QueueTable
from foretrace.sim.facts.eviction.store import EVICTION_RULES

Step = tuple[Any, ...]  # (verb, arguments); see Player


class Script(NamedTuple):
    """A whole run as data.

    Parameters
    ----------
    slots, rates : of each component, -1 for none
    graphs : submitted before the run
    actors : steps of each process
    pauses : ticks at which ``run(until)`` stops and the machine is observed from outside
    units : what each component counts; () where all count the same
    capacity : of each component, -1 for none; () where none has one
    prepared : graphs that processes hand in again and again
    plugged : whether each component is in the medium beside max-min; () where none is
    medium : that medium
    rules : eviction rule of each component whose capacity is a store, "" for none; () where none is
    queues : (component, length, rule, components elsewhere) of each bounded queue
    """

    slots: tuple[int, ...]
    rates: tuple[int, ...]
    graphs: tuple[tuple[LiteralOp, ...], ...]
    actors: tuple[tuple[Step, ...], ...] = ()
    pauses: tuple[int, ...] = ()
    units: tuple[str, ...] = ()
    capacity: tuple[int, ...] = ()
    prepared: tuple[tuple[LiteralOp, ...], ...] = ()
    plugged: tuple[bool, ...] = ()
    medium: Medium | None = None
    rules: tuple[str, ...] = ()
    queues: tuple[tuple[int, int, str, tuple[int, ...]], ...] = ()

    @property
    def parts(self) -> ComponentTable:
        """The components as an engine reads them; rates may be raised as far as 2^58."""
        stores = {c: EVICTION_RULES[rule] for c, rule in enumerate(self.rules) if rule}
        parts = literal_components(self.slots, self.rates, self.units, self.capacity, stores)
        bounded = {c: (length, rule, others) for c, length, rule, others in self.queues}
        queues = QueueTable.of(bounded, len(parts)) if bounded else None
        plugged = np.array(self.plugged, np.bool_)
        return replace(parts, medium=self.medium, plugged=plugged, queues=queues)
