"""Random scripts detect wrong engines, and backends are checked against their contract."""

import doctest
from collections.abc import Callable

import engine_scripts.comparison
import engine_scripts.random_scripts
import numpy as np
import pytest
from engine_scripts.comparison import compare
from engine_scripts.player import play
from engine_scripts.random_scripts import KINDS, random_script
from engine_scripts.script import Script
from foretrace.sim.engine_api.engine_literal import LiteralOp
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.ops import Ops
from foretrace.sim.reference import event_loop
from foretrace.sim.reference.engine import ReferenceEngine
from foretrace.sim.reference.medium import MaxMin
from foretrace.sim.reference.op_state import HELD
from foretrace.sim.testing import check_backend

ENOUGH = 40  # scripts of each kind, in which every wrong engine must be caught


class ByNumber(ReferenceEngine):
    """Wrong engine: serves queues by op id, not by the round in which an op became ready."""

    def _queue(self, row, place):
        self.round, kept = 0, self.round
        super()._queue(row, place)
        self.round = kept


class Forgetful(ReferenceEngine):
    """Wrong engine: a failure ignores ops that hold slots but have not started."""

    def _fail(self, component):
        spared = [self.rows[op] for op in self._holding(component)]
        kept = [(row, list(row.at)) for row in spared]
        for row in spared:
            row.at = ["" for _ in row.at]
        super()._fail(component)
        for row, at in kept:
            row.at = at

    def _holding(self, component):
        return [
            row.id
            for row in self.rows
            if row.state == 0
            and any(s == component and a == HELD for s, a in zip(row.slots, row.at, strict=True))
        ]


class Careless(ReferenceEngine):
    """Wrong engine: starts ops on failed components."""

    def _uses_failed_component(self, row):
        return False


class Queuejumper(ReferenceEngine):
    """Wrong engine: a resumed op returns to its old position in the queue."""

    def _queue(self, row, place):
        tick, self.tick = self.tick, row.arrived[place]
        super()._queue(row, place)
        self.tick = tick


class ThresholdsFirst(ReferenceEngine):
    """Wrong engine: reports thresholds before op ends."""

    def _wake(self):
        news, self.news = self.news, []
        super()._wake()
        for event, value in news:
            event_loop.wake(self.env, event, value)


class Partial(ReferenceEngine):
    """Wrong engine: cancelling an op does not cancel its dependents."""

    def _cancel(self, rows):
        kept = [(row, row.dependents) for row in self.rows]
        for row in self.rows:
            row.dependents = []
        super()._cancel(rows)
        for row, dependents in kept:
            row.dependents = dependents


class Early(ReferenceEngine):
    """Wrong engine: ends a flow in the tick in which its work is nearly done."""

    class Medium(MaxMin):
        def next(self):
            soonest = super().next()
            ends = [self.now + self.left[op] // r for op, r in self.rate.items() if r]
            return None if soonest is None else max(self.now + 1, min(ends))

        def advance(self, to):
            over = super().advance(to)
            late = [op for op, left in self.left.items() if left < self.rate[op]]
            for op in late:
                self.stop(op)
            return sorted(over + late)

    def __init__(self, parts, env=None, per_second=10**12):
        super().__init__(parts, env, per_second)
        self.medium = self.Medium(part.rate for part in self.at)


class Greedy(ReferenceEngine):
    """Wrong engine: gives the rate left over by rounding to one of the flows."""

    class Medium(MaxMin):
        def _compute_rates(self):
            super()._compute_rates()
            for op, flow in sorted(self.flows.items()):
                uses = {c: w for c, w in flow.usage.items() if w}
                room = [(self.capacity[c] - self.taken(c)) << 40 for c in uses]
                more = min((r // w for r, w in zip(room, uses.values(), strict=True)), default=0)
                if flow.limit < 0 and 0 < more < 3:
                    self.rate[op] += more
                    break

    def __init__(self, parts, env=None, per_second=10**12):
        super().__init__(parts, env, per_second)
        self.medium = self.Medium(part.rate for part in self.at)


WRONG: list[Callable[..., ReferenceEngine]] = [
    ByNumber,
    Forgetful,
    Careless,
    Queuejumper,
    ThresholdsFirst,
    Partial,
    Early,
    Greedy,
]


def caught(wrong):
    """First random script that detects a wrong engine."""
    for seed in range(ENOUGH):
        for kind in KINDS:
            script = random_script(kind, seed)
            try:
                seen = play(wrong, script)
            except Exception as crash:
                return kind, seed, repr(crash)
            what = compare(play(ReferenceEngine, script), seen)
            if what:
                return kind, seed, what
    return None


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_engine_is_caught(wrong):
    assert caught(wrong) is not None


def test_scripts_are_reproducible_and_differ():
    made = [random_script(kind, seed) for kind in KINDS for seed in range(20)]
    assert made == [random_script(kind, seed) for kind in KINDS for seed in range(20)]
    assert len({repr(script) for script in made}) > 110


def test_a_script_can_be_pasted_into_a_test():
    script = random_script("verbs", 3)
    assert eval(repr(script), {"Script": Script, "LiteralOp": LiteralOp}) == script


class Good(Backend):
    source = "a test"

    def timing(self, ops, now=0.0):
        return Timing.of(1e-6 + ops.bytes / 1e9)


class NoSource(Good):
    source = ""


class OfTheTable(Good):
    """Wrong backend: the timing of a row depends on the row before it."""

    def timing(self, ops, now=0.0):
        return Timing.of(np.cumsum(ops.bytes) / 1e9)


class Moody(Good):
    """Wrong backend: returns another timing the second time."""

    asked = 0

    def timing(self, ops, now=0.0):
        self.asked += 1
        return Timing.of(np.full(len(ops), float(self.asked)))


class NotANumber(Good):
    def timing(self, ops, now=0.0):
        return Timing.of(np.full(len(ops), np.nan))


class Opens(Good):
    def __init__(self):
        open(__file__).close()


OPS = Ops.of(bytes=[1e3, 2e3, 5e3, 1e3])


def test_a_good_backend_passes():
    check_backend(Good, OPS)


@pytest.mark.parametrize(
    ("backend", "what"),
    [
        (NoSource, "source is empty"),
        (OfTheTable, "reversed"),
        (Moody, "called twice"),
        (NotANumber, "fixed of op 0"),
        (Opens, "its constructor opened"),
    ],
)
def test_a_bad_backend_gets_an_error_that_names_the_broken_rule(backend, what):
    with pytest.raises((AssertionError, BackendError), match=what):
        check_backend(backend, OPS)


@pytest.mark.parametrize("module", [engine_scripts.comparison, engine_scripts.random_scripts])
def test_example_scripts_behave_as_described(module):
    assert doctest.testmod(module).failed == 0
