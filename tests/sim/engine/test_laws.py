"""Laws that every schedule obeys, on graphs that hypothesis makes and shrinks."""

from fractions import Fraction

import pytest
from engine_scripts.script import Script
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.engine_api.engine_literal import LiteralOp, literal_graph
from foretrace.sim.engine_api.interface import NO_LIMIT, ONE
from foretrace.sim.reference.engine import ReferenceEngine
from hypothesis import given
from hypothesis import strategies as st

UNIT = 1 << 20  # so that no share of a rate rounds to 0
SLOTS, RATES = (1, 2, -1, -1, -1), (-1, -1, 4 * UNIT, 6 * UNIT, 7 * UNIT)
ENGINES = {"reference": ReferenceEngine, "core": CoreEngine}


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


@st.composite
def cases(draw):
    """Up to 12 ops on two slot components and three shared rates, none of which is 0."""
    found = []
    for i in range(draw(st.integers(1, 12))):
        after = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        usage = draw(
            st.dictionaries(st.sampled_from([2, 3, 4]), st.sampled_from([ONE, 2 * ONE, ONE // 2]))
        )
        limit = draw(st.sampled_from([NO_LIMIT, NO_LIMIT, UNIT, 2 * UNIT])) if usage else NO_LIMIT
        found.append(
            LiteralOp(
                ((draw(st.sampled_from([-1, 0, 1])), tuple(sorted(after))),),
                draw(st.integers(0, 3)),
                draw(st.integers(0, 40)) * UNIT if usage else 0,
                tuple(usage.items()),
                limit,
                draw(st.sampled_from([0, 0, 0, 2, 5])),
            )
        )
    return found


def run(engine, graph):
    """Start and end of every op, and what was taken of every rate at every tick."""
    m = engine(Script(SLOTS, RATES, ()).parts)
    m.submit(literal_graph("laws", graph))
    taken = []

    def monitor():
        while True:
            yield m.env.timeout(1)
            taken.append([m.held(c) for c in range(len(SLOTS))])

    m.watchers.add(m.env.process(monitor()))
    m.run()
    found = m.columns()
    return found, taken


@given(cases())
def test_no_op_starts_before_its_dependencies_and_its_release(engine, graph):
    found, _ = run(engine, graph)
    for i, case in enumerate(graph):
        ends = [int(found.end[d]) for d in case.places[0][1]]
        assert found.ready[i] == max([case.release, *ends])
        assert found.ready[i] <= found.start[i]
        assert found.start[i] + case.fixed <= found.end[i]


@given(cases())
def test_no_component_holds_more_than_its_slots(engine, graph):
    found, taken = run(engine, graph)
    for c, slots in enumerate(SLOTS[:2]):
        spans = [
            (int(found.start[i]), int(found.end[i]))
            for i, case in enumerate(graph)
            if case.places[0][0] == c
        ]
        for at, _ in spans:
            assert sum(start <= at < end for start, end in spans) <= slots
        assert max((row[c] for row in taken), default=0) <= slots


@given(cases())
def test_no_shared_rate_is_exceeded(engine, graph):
    _, taken = run(engine, graph)
    for c, rate in enumerate(RATES):
        if rate >= 0:
            assert max((row[c] for row in taken), default=0) <= rate


def shortest(case):
    """The least time that one op can take."""
    bounds = [Fraction(RATES[c] * ONE, w) for c, w in case.usage]
    bounds += [] if case.limit == NO_LIMIT else [Fraction(case.limit)]
    return case.fixed + (Fraction(case.work) / min(bounds) if case.work else 0)


@given(cases())
def test_the_makespan_is_at_least_the_critical_path(engine, graph):
    found, _ = run(engine, graph)
    path = []
    for case in graph:
        before = [path[d] for d in case.places[0][1]]
        path.append(max([Fraction(case.release), *before]) + shortest(case))
    assert max(path) <= max(found.end.tolist())


@given(cases())
def test_the_makespan_is_at_least_work_over_capacity(engine, graph):
    found, _ = run(engine, graph)
    span = max(found.end.tolist())
    for c in (2, 3, 4):
        asked = sum(case.work * w for case in graph for used, w in case.usage if used == c)
        assert Fraction(asked, ONE) <= RATES[c] * span
    for c in (0, 1):
        asked = sum(shortest(case) for case in graph if case.places[0][0] == c)
        assert asked <= SLOTS[c] * span


@given(cases())
def test_the_same_graph_gives_the_same_run(engine, graph):
    first, second = run(engine, graph)[0], run(engine, graph)[0]
    assert first.end.tolist() == second.end.tolist()
