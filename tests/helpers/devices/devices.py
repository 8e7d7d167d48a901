"""Devices whose times are known: what drivers of tests measure."""

from dataclasses import replace
from itertools import count

import numpy as np
from foretrace.hil.driver import Driver
from foretrace.hil.sample import Sample
from foretrace.sim.facts.signature import parse_signature


class Wire(Driver):
    """A port of 1 GB/s: n transfers at once go at 1/n of it."""

    ops = ("send:send", "copy:h2h")
    clock = "wall"
    metric = "completion"
    name = "wire"

    def __init__(self, sharing="exclusive", latency_ns=0.0):
        self.sharing, self.latency, self.asked = sharing, latency_ns, []

    def _ns(self, request, n=1):
        self.asked.append(request.key)
        spent = self.latency + n * parse_signature(request.signature).operands[0].bytes
        return Sample(
            request.signature, np.full(request.n, spent), self.clock, self.metric, request.key[1]
        )

    def timing(self, requests):
        return [self._ns(r) for r in requests]

    def together(self, requests):
        return [self._ns(r, len(requests)) for r in requests]


class Queue(Wire):
    """A port that serves one after the other, as they came."""

    def together(self, requests):
        each = [self._ns(r) for r in requests]
        return [replace(s, ns=sum(e.ns for e in each[: i + 1])) for i, s in enumerate(each)]


class Noisy(Wire):
    """The same, never twice the same time."""

    def __init__(self, sharing="exclusive"):
        super().__init__(sharing)
        self._number = count()

    def _ns(self, request, n=1):
        found = super()._ns(request, n)
        return Sample(
            found.signature, found.ns * (1 + 0.01 * (next(self._number) % 7)), found.clock,
            found.metric, found.context,
        )  # fmt: skip
