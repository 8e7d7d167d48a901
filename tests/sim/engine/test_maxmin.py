"""Exact max-min rates compared with linear programs, and with the rule that defines them."""

import os
import random
from fractions import Fraction

import numpy as np
import pytest
from foretrace.sim.engine_api.interface import ONE, ComponentTable
from foretrace.sim.media.max_min.medium import join, settle
from foretrace.sim.media.max_min.medium import rate as rate_of
from foretrace.sim.media.max_min.medium_memory import MaxMinMemory
from foretrace.sim.reference.max_min import max_min_rates
from foretrace.sim.reference.medium import Flow, MaxMin
from scipy.optimize import linprog

NIGHTLY = pytest.mark.nightly
NETWORKS, BLOCKS = 2000, 16  # the first block is no nightly one
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
SOLVER = 1e-10  # the finest tolerance that HiGHS takes, on capacities of at most 1

TOLERANCES = "primal_feasibility_tolerance", "dual_feasibility_tolerance"


def network(seed, *, top, weights):
    """Random capacities, and the components that each flow uses, with weights."""
    r = random.Random(seed)
    components = r.randint(1, 6)
    capacity = {c: r.randint(top // 4, top) for c in range(components)}
    flows = {
        f: {c: r.choice(weights) for c in r.sample(range(components), r.randint(1, components))}
        for f in range(r.randint(1, 12))
    }
    return capacity, flows


class Program:
    """Lexicographic max-min fairness as a sequence of linear programs.

    The lowest rate is raised as far as possible. Flows that cannot exceed it (one linear program
    each) are frozen, and the others are raised further. It is independent of progressive filling
    over integers. Radunovic and Le Boudec, A unified framework for max-min and min-max fairness,
    IEEE/ACM ToN 15(5), 2007, doi:10.1109/TNET.2007.896231, section IV.
    """

    def __init__(self, capacity, flows):
        self.n = len(flows)
        top = max(capacity.values())
        self.uses = np.zeros((len(capacity), self.n))
        for f, uses in flows.items():
            for c, w in uses.items():
                self.uses[c, f] = w / ONE
        self.room = np.array([capacity[c] / top for c in range(len(capacity))])
        self.top = top

    def rates(self):
        frozen = {}
        while len(frozen) < self.n:
            level = self.best(frozen, goal=None, floor=0.0)
            free = [f for f in range(self.n) if f not in frozen]
            stuck = [f for f in free if self.best(frozen, f, level) <= level + 100 * SOLVER]
            frozen |= dict.fromkeys(stuck, level)
        return [frozen[f] * self.top for f in range(self.n)]

    def best(self, frozen, goal, floor):
        """Highest common rate of the free flows, or of one flow while all others keep theirs."""
        columns = self.n + 1  # the rates, and the common one
        cost = np.zeros(columns)
        cost[self.n if goal is None else goal] = -1
        above = np.zeros((self.n, columns))
        above[:, : self.n] = -np.eye(self.n)
        above[:, self.n] = [0 if f in frozen or goal is not None else 1 for f in range(self.n)]
        upper = np.hstack([self.uses, np.zeros((len(self.room), 1))])
        bounds = [(frozen[f],) * 2 if f in frozen else (floor, None) for f in range(self.n)]
        slack = self.room + SOLVER if frozen or floor else self.room
        found = linprog(
            cost,
            A_ub=np.vstack([upper, above]),
            b_ub=np.concatenate([slack, np.zeros(self.n)]),
            bounds=[*bounds, (0, None)],
            method="highs",
            options=dict.fromkeys(TOLERANCES, SOLVER),
        )
        assert found.status == 0, found.message
        return -found.fun


@pytest.mark.parametrize("block", [0, *(pytest.param(i, marks=NIGHTLY) for i in range(1, BLOCKS))])
def test_levels_agree_with_linear_programs(block):
    worst = 0.0
    for seed in range(block * NETWORKS // BLOCKS, (block + 1) * NETWORKS // BLOCKS):
        weights = [ONE] if seed % 2 else [ONE, ONE // 3, 2 * ONE, ONE // 2]
        capacity, flows = network(seed, top=10**12, weights=weights)
        exact = max_min_rates(capacity, flows)
        for f, rate in enumerate(Program(capacity, flows).rates()):
            worst = max(worst, abs(exact[f] - rate) / exact[f])
    assert worst <= 1e-9 + 100 * SOLVER  # what docs/semantics.md states, and what the solver leaves


def rational(capacity, flows):
    """Max-min rates as rational numbers, by textbook progressive filling."""
    rate, left = {}, {c: Fraction(v) for c, v in capacity.items()}
    while len(rate) < len(flows):
        rest = {f: uses for f, uses in flows.items() if f not in rate}
        weight = {c: sum(Fraction(u.get(c, 0), ONE) for u in rest.values()) for c in capacity}
        level = {c: left[c] / w for c, w in weight.items() if w}
        lowest = min(level.values())
        full = {c for c, v in level.items() if v == lowest}
        for f, uses in rest.items():
            if full & uses.keys():
                rate[f] = lowest
                for c, w in uses.items():
                    left[c] -= Fraction(w, ONE) * lowest
    return rate


def compiled(capacity, flows):
    """Rates from the compiled medium when all flows start together."""
    rates = np.array(list(capacity.values()), np.int64)
    names = tuple(f"c{c}" for c in capacity)
    sharing = MaxMinMemory(ComponentTable(names, np.full(len(rates), -1, np.int32), rates, rates))
    for uses in flows.values():
        sharing.append(1, uses)
    with np.errstate(over="ignore"):
        for f in flows:
            join(sharing.state, f, 0)
        settle(sharing.state, 0)
        return {f: int(rate_of(sharing.state, f)) for f in flows}


@pytest.mark.parametrize("networks", [200, pytest.param(1000, marks=NIGHTLY)])
@pytest.mark.parametrize("unit", [True, False])
def test_rounding_is_as_small_as_stated(unit, networks):
    """docs/semantics.md: 1e-9 from 100 kB/s with unit weights, 10 MB/s with 1/48 to 2, K = 16."""
    weights = [ONE] if unit else [ONE // 48, ONE // 3, ONE, 2 * ONE]
    least = (100_000 if unit else 10_000_000) << 16
    worst = 0.0
    for seed in range(networks):
        capacity, flows = network(seed, top=least * 40, weights=weights)
        exact = max_min_rates(capacity, flows)
        if not INTERPRETED or seed < 100:
            assert compiled(capacity, flows) == exact
        for f, want in rational(capacity, flows).items():
            if want >= least:
                worst = max(worst, abs(float(exact[f] - want)) / float(want))
    assert 0 < worst <= 1e-9


def level(c, capacity, flows, rate):
    """Level of one component by the rule of docs/semantics.md; None if it is not full."""
    on = [(rate[f], uses[c]) for f, uses in flows.items() if c in uses]
    below = -1
    for x in sorted({r for r, _ in on}):
        slower = sum(r * w for r, w in on if r <= below)
        rest = sum(w for r, w in on if r > below)
        found = max((capacity[c] * ONE - slower) // rest, below + 1)
        if found <= x:
            return found
        below = x
    return None


def test_every_flow_runs_at_the_lowest_level_it_meets():
    for seed in range(300):
        weights = [ONE] if seed % 2 else [ONE, ONE // 3, 2 * ONE, ONE // 48]
        capacity, flows = network(seed, top=7 if seed % 3 else 10**12, weights=weights)
        rate = max_min_rates(capacity, flows)
        levels = {c: level(c, capacity, flows, rate) for c in capacity}
        for f, uses in flows.items():
            assert rate[f] == min(levels[c] for c in uses if levels[c] is not None)
        for c, room in capacity.items():
            assert sum(uses.get(c, 0) * rate[f] for f, uses in flows.items()) <= room * ONE


def test_components_that_fill_together_freeze_together():
    assert max_min_rates({0: 3, 1: 3}, {0: {0: ONE, 1: ONE}, 1: {0: ONE}, 2: {1: ONE}}) == {
        0: 1,
        1: 1,
        2: 1,
    }


def test_a_medium_moves_exactly_the_work_it_was_given():
    medium = MaxMin([10, 7])
    medium.start([Flow(0, 100, {0: ONE}), Flow(1, 33, {0: ONE, 1: ONE}), Flow(2, 5, {1: ONE}, 1)])
    assert medium.next() == 5
    assert medium.rates() == {0: 5, 1: 5, 2: 1}
    assert medium.advance(5) == [2]
    assert (medium.next(), medium.taken(0), medium.users(1)) == (7, 10, 1)
    medium.change(1, 0)
    assert (medium.next(), medium.rates()) == (13, {0: 10, 1: 0})
    assert medium.stop(1) == 8
    assert medium.advance(13) == [0]
    assert medium.next() is None
