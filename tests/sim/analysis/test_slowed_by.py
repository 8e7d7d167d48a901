"""``slowed_by`` compared with running both jobs alone: its parts and a rest give the difference.

The rest is computed independently: the time that a job loses against its own pace (from the exact
rates of all flows, and of its own flows alone), minus the rates that other jobs used on the
saturated link. It is 0 if the same link is saturated when the job runs alone, and negative if
another one is.
"""

import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from foretrace.sim.facts.backend import Backend, Timing, Usage
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.job import Job
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.run.workload import Workload

PAIRS = [120, pytest.param(500, marks=pytest.mark.nightly)]
GPUS = ("a.gpu", "b.gpu", "shared.gpu")
LINKS = ("wire0", "wire1", "wire2")
SLOT = len(GPUS)  # as a way: no link, but a slot of the GPU that both jobs have


class Ways(Backend):
    """Backend that sends an op's bytes over the route whose number is its flop, up to a limit."""

    source = "test"

    def __init__(self, ways):
        self.ways = ways

    def timing(self, ops, now=0.0):
        used = [self.ways[int(k)] for k in ops.flop.tolist()]
        usage = Usage.of([{len(GPUS) + link: 1.0 for link in links} for links, _ in used])
        limit = np.array([most or np.inf for _, most in used])
        return Timing.of(np.full(len(ops), 1e-6), ops.bytes, usage, limit)


class Takes(Backend):
    """GPU backend with one nanosecond per byte of the op."""

    source = "test"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.bytes * 1e-9)


class Steps(Workload):
    """Workload of bursts of equal flows in sequence; some steps are an op on a GPU."""

    def __init__(self, steps):
        self.steps = steps

    def start(self, job):
        build, last = Builder("steps"), ()
        for way, size, count in self.steps:
            if way < 0:  # on rank 1, which is the GPU that both jobs have
                last = (build.op(Kind.COMPUTE, rank=1, bytes=size, after=last),)
                continue
            last = tuple(
                build.op(Kind.SEND, rank=0, peer=1, stream=5 + k, bytes=size, flop=way, after=last)
                for k in range(count)
            )
        return build.graph()


def random_pair(seed):
    """Random link rates, routes with limits, and the steps of two jobs."""
    pick = random.Random(seed)
    rates = [pick.choice([1e9, 2e9, 3e9, 5e9]) for _ in LINKS]
    ways = []
    for _ in range(4):
        links = sorted(pick.sample(range(len(LINKS)), pick.choice([1, 1, 2])))
        ways.append((links, pick.choice([None, None, 0.53e9, 1.61e9])))
    jobs = []
    for most in (3, pick.choice([1, 3, 8])):  # the second is the hot tenant
        steps = []
        for _ in range(pick.randint(1, 5)):
            way = pick.choice([-1, *range(len(ways))])
            steps.append((way, pick.randint(1, 10) * 1e5, pick.randint(1, most)))
        jobs.append(steps)
    return rates, ways, jobs


def levels(rates, flows):
    """Exact max-min rates of flows, each given as (links, limit), by progressive filling."""
    found, left = {}, dict(flows)
    room = [Fraction(r) for r in rates]
    while left:
        users = [
            [i for i, (links, _) in left.items() if link in links] for link in range(len(room))
        ]
        level = {k: room[k] / len(own) for k, own in enumerate(users) if own}
        lowest = min([*level.values(), *(Fraction(m) for _, m in left.values() if m)])
        full = [k for k, x in level.items() if x == lowest]
        done = [i for i, (links, m) in left.items() if m == lowest or set(links) & set(full)]
        for i in done:
            found[i] = lowest
            for link in left.pop(i)[0]:
                room[link] -= lowest
    return found


def full_link(rates, flows, mine):
    """First saturated link of a flow; None if its own limit applies."""
    level = levels(rates, flows)
    for link in flows[mine][0]:
        own = [i for i, (links, _) in flows.items() if link in links]
        fullest = max(level[i] for i in own) == level[mine]
        if sum(level[i] for i in own) == Fraction(rates[link]) and fullest:
            return link, level
    return None, level


def rest_of(job, result, rates, ways, jobs):
    """Ticks that a job loses on its critical path beyond the link rates used by other jobs."""
    number = ["a", "b"].index(job)
    flying = []  # job, way, first and last tick
    for k, name in enumerate(("a", "b")):
        own, row = result.of(name), 0
        starts, ends = own.columns.start.tolist(), own.columns.end.tolist()
        for way, _, count in jobs[k]:
            for _ in range(1 if way < 0 else count):
                if way >= 0:
                    flying.append((k, way, starts[row] + 10**6, ends[row]))
                row += 1
    cuts = sorted({t for _, _, a, b in flying for t in (a, b)})
    rest = Fraction(0)
    for a, b in pairwise(cuts):
        here = {i: f for i, f in enumerate(flying) if f[2] <= a and f[3] >= b}
        mine = [i for i, f in here.items() if f[0] == number]
        if not mine:
            continue
        flows = {i: ways[f[1]] for i, f in here.items()}
        link, level = full_link(rates, flows, mine[0])
        pace = levels(rates, {i: flows[i] for i in mine})[mine[0]]
        lost = 1 - level[mine[0]] / pace
        theirs = Fraction(0)
        if link is not None:
            users = [i for i in flows if link in flows[i][0]]
            theirs = sum(level[i] for i in users if i not in mine) / Fraction(rates[link])
        rest += (b - a) * (lost - theirs)
    return rest


def run(rates, ways, jobs, names, engine):
    parts = [Component(name, "gpu", slots=1) for name in GPUS]
    parts += [Component(name, "link", rate=r) for name, r in zip(LINKS, rates, strict=True)]
    system = System((*parts, Component("fabric", "fabric")), GPUS, fabric="fabric")
    simulation = Simulation(system, {"fabric": Ways(ways), "*.gpu": Takes()}, engine=engine)
    given = [Job(name, Steps(jobs[["a", "b"].index(name)]),
                 {"gpu": (f"{name}.gpu", "shared.gpu")}) for name in names]  # fmt: skip
    return simulation.run(given, keep="ops")


def check(seed, engine="core"):
    """Slowdown parts of each job, and the unexplained difference, in ticks."""
    rates, ways, jobs = random_pair(seed)
    both, found = run(rates, ways, jobs, ("a", "b"), engine), {}
    for name in ("a", "b"):
        alone = run(rates, ways, jobs, (name,), engine)
        blame = both.of(name).blame()
        parts = sum(blame.slowed_at.values())
        rest = rest_of(name, both, rates, ways, jobs)
        whole = both.of(name).makespan_ticks - alone.makespan_ticks
        found[name] = blame, parts, rest, whole
    return found


@pytest.mark.parametrize("pairs", PAIRS)
def test_slowdown_parts_and_rest_sum_to_the_difference_from_running_alone(pairs):
    rounding, slowed, rested, slots = 200, 0, 0, 0  # a tick or two for each change of rates
    for seed in range(pairs):
        for name, (blame, parts, rest, whole) in check(seed).items():
            assert abs(parts + rest - whole) <= rounding, (seed, name, parts, float(rest), whole)
            assert sum(blame.slowed_by.values()) == parts
            assert {job for job, _ in blame.slowed_at} <= {"a", "b"} - {name}
            slowed += parts > 0
            rested += abs(rest) > 10**6
            slots += ("b" if name == "a" else "a", "shared.gpu") in blame.slowed_at
    assert slowed > pairs / 2  # it says something
    assert rested > pairs / 10
    assert slots > pairs / 20


@pytest.mark.parametrize("seed", range(20))
def test_both_engines_report_the_same_slowdown_parts(seed):
    core, reference = (
        {name: dict(told[0].slowed_at) for name, told in check(seed, engine).items()}
        for engine in ("core", "reference")
    )
    assert core == reference


def test_a_job_that_saturates_a_link_is_named_with_it():
    """One flow against three on 1 GB/s gets a quarter: three quarters of its time are theirs."""
    rates, ways = [1e9, 5e9, 5e9], [([0], None), ([1], None)]
    both = run(rates, ways, [[(0, 1e6, 1)], [(0, 1e6, 3), (1, 1e6, 1)]], ("a", "b"), "core")
    assert both.of("a").blame().slowed_at == {("b", "wire0"): 3 * 10**9}
    assert both.of("b").blame().slowed_at == {("a", "wire0"): 10**9}
