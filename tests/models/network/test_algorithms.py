"""Collectives against their published closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from foretrace.models.network.collective.algorithms import (
    ALGORITHMS,
    bus_factor,
    closed_form,
    pairwise_exchange,
)
from foretrace.models.network.collective.patterns import depth, tree_parent
from foretrace.models.network.collective.steps import (
    SWITCH,
    Algorithm,
    Exchange,
    Step,
    algorithm,
    check_algorithm,
    shift,
)

GROUPS = (2, 3, 4, 5, 6, 7, 8, 9, 16, 31, 64)
ALPHA, RATE, SIZE = 2e-6, 25e9, 1e8
ALL = [a for named in ALGORITHMS.values() for a in named.values()]


@pytest.mark.parametrize("n", GROUPS)
def test_ring_all_reduce_is_2_n_minus_1_times_alpha_plus_a_part(n):
    """Thakur 2005, section 4; Patarasu and Yuan 2009."""
    want = 2 * (n - 1) * (ALPHA + SIZE / (n * RATE))
    assert closed_form(ALGORITHMS["all-reduce"]["ring"], n, SIZE, ALPHA, RATE) == pytest.approx(
        want, rel=1e-12
    )


@pytest.mark.parametrize("n", [2, 4, 8, 64])
def test_halving_doubling_has_the_volume_of_the_ring_in_2_log_n_steps(n):
    """Thakur 2005, section 4.2 (Rabenseifner's algorithm)."""
    want = 2 * np.log2(n) * ALPHA + 2 * (n - 1) / n * SIZE / RATE
    algorithm = ALGORITHMS["all-reduce"]["halving-doubling"]
    assert closed_form(algorithm, n, SIZE, ALPHA, RATE) == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("n", [4, 8, 16, 64])
def test_two_trees_move_2_s_and_climb_twice_the_depth(n):
    """Sanders, Speck, Träff 2009: full bandwidth, logarithmic latency."""
    algorithm = ALGORITHMS["all-reduce"]["tree"]
    assert algorithm.volume(n) == pytest.approx(2.0)
    assert algorithm.latencies(n) == 2 * depth(n)


@pytest.mark.parametrize(
    ("name", "n"),
    [
        (a.name, n)
        for a in ALL
        for n in GROUPS
        if a.collective == "all-reduce" and a.usable(n) and not (a.in_switch or a.nested)
    ],
)
def test_no_all_reduce_without_a_switch_beats_the_lower_bound(name, n):
    """2 (n - 1) / n S leaves or reaches some member: Patarasu and Yuan 2009, theorem 1."""
    assert ALGORITHMS["all-reduce"][name].volume(n) >= 2 * (n - 1) / n - 1e-12


@pytest.mark.parametrize("n", [3, 4, 8, 72])
def test_reduction_in_the_switch_moves_less_than_any_ring(n):
    """Klenk et al. 2020: every member sends and receives about S once, not twice."""
    volume = ALGORITHMS["all-reduce"]["in-switch"].volume(n)
    assert volume == pytest.approx(1 + 1 / n)
    assert volume < ALGORITHMS["all-reduce"]["ring"].volume(n) + 1e-12


@pytest.mark.parametrize("n", GROUPS)
@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-to-all"])
def test_what_is_split_moves_all_but_the_own_part(collective, n):
    for one in ALGORITHMS[collective].values():
        if one.usable(n) and not one.nested:
            assert one.volume(n) == pytest.approx((n - 1) / n)


@pytest.mark.parametrize(("nodes", "width"), [(2, 2), (2, 8), (4, 4), (16, 8), (3, 1)])
def test_hierarchies_send_between_nodes_only_what_has_to_cross(nodes, width):
    """Of S, 1/n to each of the members elsewhere, or twice that where a sum comes back."""
    n = nodes * width
    for collective, laps in (("all-gather", 1), ("reduce-scatter", 1), ("all-reduce", 2)):
        source, target, share = ALGORITHMS[collective]["hierarchical"].flows(n, width)
        crossing = source // width != target // width
        assert share[crossing].sum() == pytest.approx(laps * (nodes - 1))
        assert np.all(source[crossing] % width == target[crossing] % width)


@pytest.mark.parametrize(("nodes", "width"), [(2, 2), (4, 8), (16, 4), (3, 1)])
def test_a_two_dimensional_all_to_all_sends_few_large_messages_between_nodes(nodes, width):
    """Hwang et al. 2023, section 3.3: nodes - 1 messages of width / n in place of n - width."""
    n = nodes * width
    source, target, share = ALGORITHMS["all-to-all"]["hierarchical"].flows(n, width)
    crossing = source // width != target // width
    assert crossing.sum() == n * (nodes - 1)
    assert share[crossing] == pytest.approx(np.full(crossing.sum(), width / n))
    assert share[crossing].sum() / n == pytest.approx((n - width) / n)


@pytest.mark.parametrize("n", GROUPS)
def test_a_binomial_tree_takes_as_many_steps_as_it_is_deep(n):
    """Thakur 2005, section 4.1."""
    for collective in ("broadcast", "reduce"):
        assert ALGORITHMS[collective]["binomial"].latencies(n) == depth(n)


@pytest.mark.parametrize("n", GROUPS)
def test_everybody_gets_a_whole_broadcast(n):
    for one in ALGORITHMS["broadcast"].values():
        _, target, share = one.flows(n)
        got = np.bincount(target, share, n)
        assert got[0] == 0
        assert got[1:] == pytest.approx(np.ones(n - 1))


@pytest.mark.parametrize("n", [n for n in GROUPS if n % 2 == 0])
def test_a_member_is_inner_in_at_most_one_of_the_two_trees(n):
    """Sanders, Speck, Träff 2009, lemma 2; what gives the two trees full bandwidth."""
    inner = {tree_parent(i, n) - 1 for i in range(1, n + 1)} - {-1}
    assert not inner & {n - 1 - i for i in inner}


@pytest.mark.parametrize("algorithm", ALL, ids=lambda a: f"{a.collective}-{a.name}")
def test_flows_and_paths_stay_within_the_group(algorithm):
    for n in GROUPS:
        shape = (n * 4, 4) if algorithm.nested else (n,)
        if not algorithm.usable(shape[0]):
            continue
        source, target, share = algorithm.flows(*shape)
        for ends in (source, target):
            assert ends.min() >= (SWITCH if algorithm.in_switch else 0)
            assert ends.max() < shape[0]
        assert np.all(source != target)
        assert np.all(share >= 0)
        assert all(
            0 <= a < shape[0] and 0 <= b < shape[0] for a, b in algorithm.latency_path(*shape)
        )


@pytest.mark.parametrize("one", ALL, ids=lambda a: f"{a.collective}-{a.name}")
def test_everybody_gets_what_is_theirs(one):
    check_algorithm(one, GROUPS)


@pytest.mark.parametrize("one", ALL, ids=lambda a: f"{a.collective}-{a.name}")
@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_steps_that_are_no_pipeline_keep_the_busiest_member_busy(one, n):
    """What the closed form rests on: step after step takes no longer than all the bytes at once."""
    if one.pipelined or one.nested or not one.usable(n):
        return
    alone = [Algorithm(one.collective, one.name, lambda n, s=s: [s]) for s in one.steps(n)]
    assert sum(a.volume(n) for a in alone) == pytest.approx(one.volume(n))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (lambda n: [], "there are no steps; yield a Step"),
        (lambda n: [shift(n, 0)], "a member sends to itself"),
        (lambda n: [shift(n, 1)._replace(parts=-1)], "parts, of or times is out of range"),
        (lambda n: [Step(np.array([0]), np.array([n]), 1)], r"members are 0 to 2, a message has"),
        (lambda n: [Step(np.array([0]), np.array([-1]), 1)], r"members are 0 to 2, a message has"),
        (lambda n: [shift(n, 1)], "member 0 never gets the data of member 1; add steps"),
    ],
)
def test_steps_that_do_not_do_the_collective_are_refused(steps, message):
    with pytest.raises(ValueError, match=f"all-reduce wrong, 3 members.*{message}"):
        check_algorithm(Algorithm("all-reduce", "wrong", steps), [3])


@pytest.mark.parametrize(
    "steps",
    [
        lambda n: [shift(n, k, of=n) for k in range(1, n)],
        lambda n: [pairwise_exchange(n, of=1)],
        lambda n: [pairwise_exchange(n, of=n, times=2)],
    ],
    ids=["rounds", "all of S", "twice"],
)
def test_steps_that_are_no_exchange_of_parts_may_not_say_so(steps):
    with pytest.raises(ValueError, match="3 members: its steps are not the exchange that it"):
        check_algorithm(Algorithm("all-gather", "wrong", steps, exchange=Exchange()), [3])


@pytest.mark.parametrize("one", [a for a in ALL if a.exchange], ids=lambda a: a.name)
def test_an_exchange_knows_without_its_messages_what_follows_from_them(one):
    listed = replace(one, exchange=None)
    for n in (2, 3, 8):
        assert one.latency_path(n) == listed.latency_path(n)
        assert one.max_sends_per_step(n) == listed.max_sends_per_step(n)
        assert one.is_symmetric(n) == listed.is_symmetric(n)


def test_a_collective_has_one_algorithm_of_a_name():
    with pytest.raises(ValueError, match="two algorithms of all-reduce are named 'ring'"):
        algorithm("all-reduce", "ring")(lambda n: [shift(n, 1)])


def test_bus_bandwidth_of_a_large_ring_is_the_link_rate():
    """The point of busbw (nccl-tests, doc/PERFORMANCE.md)."""
    for collective in ("all-reduce", "all-gather", "reduce-scatter"):
        seconds = closed_form(ALGORITHMS[collective]["ring"], 8, 1e12, 0.0, RATE)
        assert 1e12 / seconds * bus_factor(collective, 8) == pytest.approx(RATE)


def test_a_ring_of_many_is_no_table_of_all_pairs() -> None:
    """200,000 members: pairs would take 300 GB, and searching each hop a minute."""
    ring = ALGORITHMS["all-reduce"]["ring"]
    source, target, share = ring.flows(200_000)
    assert (len(source), int(target[-1])) == (200_000, 0)
    assert share[0] == 2 * 199_999 / 200_000
    assert ring.latency_path(200_000)[-2:] == [(199_996, 199_997), (199_997, 199_998)]
