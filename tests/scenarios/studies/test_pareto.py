"""The front against its definition."""

from foretrace.scenarios.studies.sweep.pareto import pareto_front
from hypothesis import given
from hypothesis import strategies as st

POINTS = st.lists(st.tuples(*[st.integers(0, 6).map(float)] * 3), max_size=30)


def beats(one, other):
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


@given(POINTS)
def test_a_point_is_on_the_front_when_no_other_beats_it(points):
    wanted = [i for i, p in enumerate(points) if not any(beats(q, p) for q in points)]
    assert pareto_front(points) == wanted
