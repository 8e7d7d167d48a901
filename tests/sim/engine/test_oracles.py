"""Closed-form results from the literature, compared with both engines."""

import random
from fractions import Fraction
from statistics import mean, stdev

import pytest
from by_day import only
from engine_scripts.script import Script
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_graph
from foretrace.sim.engine_api.interface import ONE
from foretrace.sim.reference.engine import ReferenceEngine

ENGINES = {"reference": ReferenceEngine, "core": CoreEngine}
SECOND = 10**12


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


def run(engine, graph, slots=(), rates=()):
    script = Script(
        (*slots, *[-1] * len(rates)),
        (*[-1] * len(slots), *rates),
        (),
    )
    m = engine(script.parts)
    m.submit(literal_graph("oracle", graph))
    m.run()
    return m.columns()


def op(after=(), slot=-1, **facts):
    return LiteralOp(((slot, tuple(after)),), **facts)


def test_a_chain_takes_the_sum(engine):
    times = [7, 0, 3, 11, 5]
    graph = [op([i - 1] if i else [], fixed=t) for i, t in enumerate(times)]
    assert run(engine, graph).end.tolist() == [7, 7, 10, 21, 26]


def test_a_fork_and_join_takes_the_longest_branch(engine):
    """The critical path method: Kelley and Walker 1959, doi:10.1145/1460299.1460318."""
    graph = [op(fixed=2), *[op([0], fixed=t) for t in (4, 9, 6)], op([1, 2, 3], fixed=1)]
    assert run(engine, graph).end[-1] == 2 + 9 + 1


@pytest.mark.parametrize("slots", [1, 2, 3, 6])
def test_equal_ops_on_slots_run_in_waves(engine, slots):
    found = run(engine, [op(slot=0, fixed=10)] * 6, slots=[slots])
    assert max(found.end.tolist()) == 10 * -(-6 // slots)


# Queues: customers are ops with release times on one slot.

BY_DAY = pytest.mark.parametrize("engine", only(["core"], [*ENGINES]), indirect=True)
CUSTOMERS, BATCHES, WARM = 21_000, 20, 1_000
LOAD = Fraction(1, 2)
MEAN_SERVICE = 10**6  # ticks


def arrivals(seed):
    r = random.Random(seed)
    at, found = 0.0, []
    for _ in range(CUSTOMERS):
        at += r.expovariate(float(LOAD) / MEAN_SERVICE)
        found.append(round(at))
    return found


def waits(engine, at, service):
    graph = [op(slot=0, release=a, fixed=s) for a, s in zip(at, service, strict=True)]
    found = run(engine, graph, slots=[1])
    assert found.ready.tolist() == at
    return (found.start - found.ready).tolist()


def lindley(at, service):
    """Waiting times in a single-server queue: Lindley 1952, doi:10.1017/S0305004100027638."""
    found = [0]
    for i in range(1, len(at)):
        found.append(max(0, found[-1] + service[i - 1] - (at[i] - at[i - 1])))
    return found


def agrees(sample, theory):
    """True if the mean is within 4 standard errors of the theory, and these are below 4 %."""
    size = (len(sample) - WARM) // BATCHES
    batches = [mean(sample[WARM + b * size : WARM + (b + 1) * size]) for b in range(BATCHES)]
    error = stdev(batches) / BATCHES**0.5
    assert error < 0.04 * theory
    assert abs(mean(batches) - theory) <= 4 * error


@BY_DAY
def test_mean_wait_of_m_m_1(engine):
    """rho / (mu - lambda): Kleinrock, Queueing Systems vol. 1, 1975, section 3.2."""
    at = arrivals(1)
    r = random.Random(2)
    service = [round(r.expovariate(1 / MEAN_SERVICE)) for _ in at]
    found = waits(engine, at, service)
    assert found == lindley(at, service)
    agrees(found, float(LOAD / (1 - LOAD)) * MEAN_SERVICE)


@BY_DAY
def test_mean_wait_of_m_d_1(engine):
    """rho / (2 mu (1 - rho)), Pollaczek and Khinchine: Kleinrock 1975, section 5.6."""
    at = arrivals(3)
    service = [MEAN_SERVICE] * len(at)
    found = waits(engine, at, service)
    assert found == lindley(at, service)
    agrees(found, float(LOAD / (2 * (1 - LOAD))) * MEAN_SERVICE)


def test_littles_law_holds_to_the_tick(engine):
    """Integral of queue length = sum of all waits: Little 1961, doi:10.1287/opre.9.3.383."""
    r = random.Random(4)
    m = engine(Script((2,), (-1,), ()).parts)
    graph = [op(slot=0, release=r.randint(0, 300), fixed=r.randint(0, 9)) for _ in range(120)]
    m.submit(literal_graph("line", graph))
    in_line, in_service = [], []

    def monitor():  # whoever is in line after the turns of a tick is so until the next
        while True:
            yield m.env.timeout(1)
            in_line.append(len(m.queue(0)))
            in_service.append(m.held(0))

    first = [0, 0]

    def at_zero():
        yield m.settled()
        first[:] = len(m.queue(0)), m.held(0)

    m.watchers |= {m.env.process(monitor()), m.env.process(at_zero())}
    m.run()
    found = m.columns()
    assert sum(in_line) + first[0] == int((found.start - found.ready).sum()) > 0
    assert sum(in_service) + first[1] == int((found.end - found.start).sum())


# Shared rates.


def flow(work, *links, weight=ONE, **facts):
    return op(work=work * SECOND, usage=tuple((c, weight) for c in links), **facts)


@pytest.mark.parametrize(("short", "long"), [(1, 1), (2, 6), (3, 100)])
def test_two_flows_on_one_link(engine, short, long):
    """Processor sharing: the short flow ends at 2 s / C, the long one at (s + l) / C."""
    found = run(engine, [flow(short * 10, 0), flow(long * 10, 0)], rates=[10])
    assert found.end.tolist() == [2 * short * SECOND, (short + long) * SECOND]


def test_a_long_flow_among_short_ones_gets_its_max_min_share(engine):
    """One flow over all links of a line and one more per link: every flow gets half of a link.

    Idea of Bertsekas and Gallager, Data Networks, 2nd ed. 1992, section 6.5.2, figure 6.22.
    """
    found = run(engine, [flow(5, 0, 1, 2), flow(5, 0), flow(5, 1), flow(5, 2)], rates=[10] * 3)
    assert found.end.tolist() == [SECOND] * 4


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ring_all_reduce_as_sends(engine, ranks):
    """2 (p - 1) (alpha + n / (p B)): Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002."""
    size, rate, latency = 64, 4, 10**9
    graph, before = [], []
    for _ in range(2 * (ranks - 1)):
        row = len(graph)
        for i in range(ranks):  # sends to i + 1 what it has and has just got
            after = [before[i], before[i - 1]] if before else []
            graph.append(
                flow(size // ranks, i, fixed=latency)._replace(places=((-1, tuple(after)),))
            )
        before = list(range(row, row + ranks))
    found = run(engine, graph, rates=[rate] * ranks)
    each = latency + size // ranks * SECOND // rate
    assert max(found.end.tolist()) == 2 * (ranks - 1) * each


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ring_all_reduce_as_one_activity(engine, ranks):
    """The same bytes on every link at once, each with weight 2 (p - 1) / p."""
    size, rate = 64 << 16, 4 << 16
    weight = 2 * (ranks - 1) * ONE // ranks
    found = run(engine, [flow(size, *range(ranks), weight=weight)], rates=[rate] * ranks)
    exact = Fraction(2 * (ranks - 1) * size * SECOND, ranks * rate)
    assert found.end[0] >= exact
    assert found.end[0] - exact <= 2 * exact / rate  # its rate, rate / weight, is a whole number


def test_a_ring_shared_with_a_flow_slows_both(engine):
    """All links have a rate of one half left, so the ring runs at the pace of the busy link."""
    graph = [flow(10, 0, 1, 2), flow(5, 1)]
    assert run(engine, graph, rates=[10] * 3).end.tolist() == [15 * SECOND // 10, SECOND]
