"""All-to-all of unequal parts: closed form, one activity and sends, from the same steps."""

from dataclasses import replace

import numpy as np
import pytest
from foretrace.models.network.collective.algorithms import ALGORITHMS, closed_form
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.collective.expand import expand
from foretrace.models.network.collective.library import Buffers, Protocol, Sends
from foretrace.models.network.collective.messages import Messages
from foretrace.models.network.collective.steps import Algorithm, algorithm, check_algorithm, shift
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch, star
from foretrace.models.network.topology.topology import NodeSpec, cluster
from foretrace.sim.errors import BackendError, GraphError
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.place import place
from foretrace.sim.facts.splits import Splits, all_to_all_name
from foretrace.sim.run.simulation import Simulation
from hypothesis import given, settings
from hypothesis import strategies as st

ALPHA, RATE, SIZE = 1e-6, 1e9, 1e6
WAYS = ALGORITHMS["all-to-all"]
EQUAL, CROWDED = "all-to-all", "all-to-all receive=5,1,1,1"
ENGINES = ("reference", "core")
DIRECT = ("grouped", "pairwise")
FEW = settings.default.max_examples // 4  # programs on both engines


class Recorded(Backend):
    """Durations of the graph."""

    source = "test"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration)


def board(n):
    link = Link(bandwidth=RATE, latency=ALPHA)
    return star(n, link, Switch(bandwidth=RATE, latency=0.0, ports=n))


def machines(nodes, gpus=2):
    nic = Nic(bandwidth=RATE, latency=ALPHA)
    link = Link(bandwidth=4 * RATE, latency=ALPHA)
    return cluster(nodes, NodeSpec(gpus=gpus, nics=gpus, nic=nic, gpu_link=link))


def exchanges(name, n, order=(), beside=""):
    """An all-to-all among ranks in an order; another one at the same time where it is named."""
    build = Builder("exchanges")
    for stream, one in enumerate(filter(None, (name, beside))):
        members = [Member(r, 8 + stream) for r in order or range(n)]
        build.collective(members, bytes=SIZE, signature=f"collective:{one} fp32[1]")
    return build.graph()


def run(system, graph, engine="core", **library):
    backends = {"fabric": Fabric(**library), "node*.gpu*": Recorded()}
    return Simulation(system, backends, engine=engine).run(graph, keep="ops")


def makespan(system, graph, engine="core", **library):
    return run(system, graph, engine, **library).makespan


def shape(way, n, width):
    return (n, width) if way.nested else (n,)


def matrices(members):
    """Parts of so many members, not all of them 0."""
    row = st.lists(st.integers(0, 50), min_size=members, max_size=members)
    return st.lists(row, min_size=members, max_size=members).filter(lambda m: np.any(m))


# --- equal parts ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("n", "width"), [(2, 1), (4, 2), (6, 3), (12, 4)])
def test_equal_splits_make_the_steps_of_equal_parts(way, n, width):
    """Parts of any size, so long as they are equal: not only what is read as no splits at all."""
    split = way.split(Splits(np.full((n, n), 7)))
    for one, other in zip(way.steps(*shape(way, n, width)), split.steps(*shape(way, n, width)),
                          strict=True):  # fmt: skip
        assert one.source.tolist() == other.source.tolist()
        assert one.target.tolist() == other.target.tolist()
        assert (one.parts / one.of == other.parts / other.of).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fidelity", ["flow", "alpha-beta"])
def test_equal_splits_take_the_ticks_of_equal_parts(engine, fidelity):
    system, library = machines(3), {"fidelity": fidelity}
    plain = makespan(system, exchanges(EQUAL, 6), engine, **library)
    said = makespan(system, exchanges("all-to-all send=3,3,3,3,3,3", 6), engine, **library)
    assert said == plain
    sends = makespan(system, expand(exchanges(EQUAL, 6)), engine)
    assert makespan(system, expand(exchanges("all-to-all receive=2,2,2,2,2,2", 6)), engine) == sends


# --- bytes ------------------------------------------------------------------------------------


@given(matrices(6))
def test_what_members_have_for_others_is_what_is_sent(parts):
    """A byte straight to its receiver crosses once, whatever is sent when."""
    splits = Splits(np.array(parts))
    others = np.array(parts) * (1 - np.eye(6, dtype=int))
    for name in DIRECT:
        source, target, share = WAYS[name].split(splits).flows(6)
        sent = np.zeros((6, 6))
        sent[source, target] = share
        assert sent == pytest.approx(others * 6 / splits.total)
        assert share.all()  # nobody sends what is empty


@given(matrices(6))
def test_a_two_dimensional_exchange_brings_every_member_what_others_have_for_it(parts):
    """Within nodes all that is for members at a place, then between nodes to the one it is for."""
    matrix, width = np.array(parts), 2
    splits = Splits(matrix)
    source, target, share = WAYS["hierarchical"].split(splits).flows(6, width)
    sent = np.zeros((6, 6))
    sent[source, target] = share * splits.total / 6
    for j in range(6):
        far = [i for i in range(6) if i // width != j // width]
        between = sum(sent[i, j] for i in far if i % width == j % width)
        assert between == pytest.approx(matrix[far, j].sum())
    for i in range(6):
        mate = i ^ 1  # gets what is for it, and for those at its place in other nodes
        assert sent[i, mate] == pytest.approx(matrix[i, mate % width :: width].sum())


@given(matrices(4), st.sampled_from(["grouped", "pairwise", "hierarchical"]))
def test_sends_carry_as_many_bytes_as_the_activity(parts, name):
    way = WAYS[name].split(Splits(np.array(parts)))
    sent = Messages.of(way, *shape(way, 4, 2)).share.sum()
    assert sent == pytest.approx(way.flows(*shape(way, 4, 2)).share.sum())


# --- times ------------------------------------------------------------------------------------


@given(matrices(5))
@settings(max_examples=FEW)
def test_closed_form_activity_and_sends_take_as_long_as_the_busiest_member(parts):
    """On identical links all messages at once end with whoever sends or gets most."""
    matrix = np.array(parts)
    np.fill_diagonal(matrix, 3)
    others = matrix - 3 * np.eye(5, dtype=int)
    if not others.any():
        return
    name = all_to_all_name(pairs=matrix.tolist())
    grouped = WAYS["grouped"].split(Splits(matrix))
    busiest = max(others.sum(0).max(), others.sum(1).max()) * 5 * SIZE / matrix.sum()
    want = closed_form(grouped, 5, SIZE, ALPHA, RATE)
    assert want == pytest.approx(ALPHA + busiest / RATE)
    library = {"algorithms": "grouped"}
    for engine in ENGINES:
        graph = exchanges(name, 5)
        assert makespan(board(5), graph, engine, **library) == pytest.approx(want, abs=1e-10)
        # slower in sends where one that ends leaves its link to others that are held elsewhere
        assert makespan(board(5), expand(graph, "grouped"), engine) >= want - 1e-10


@given(matrices(6), st.permutations(range(6)),
       st.sampled_from(["grouped", "pairwise", "hierarchical"]), st.booleans())  # fmt: skip
@settings(max_examples=2 * FEW)
def test_both_engines_take_the_same_ticks(parts, order, way, written_out):
    system = machines(3)
    graph = exchanges(all_to_all_name(pairs=parts), 6, order, all_to_all_name(receive=parts[0]))
    if written_out:
        graph = expand(graph, way, [f"node{r // 2}" for r in range(6)])
    one, other = (run(system, graph, e, algorithms=way).frame() for e in ENGINES)
    for column in ("ready_us", "start_us", "end_us"):
        assert one[column].tolist() == other[column].tolist()


@given(st.lists(st.integers(1, 50), min_size=6, max_size=6), st.permutations(range(6)))
@settings(max_examples=FEW)
def test_the_order_of_members_is_only_their_names(receive, order):
    """A group in another order, with the splits in that order, sends the same bytes."""
    system, moved = machines(3), [receive[r] for r in order]
    graphs = (exchanges(all_to_all_name(receive=receive), 6),
              exchanges(all_to_all_name(receive=moved), 6, order))  # fmt: skip
    one, other = (busy(run(system, g, algorithms="grouped")) for g in graphs)
    assert one == other


def busy(result):
    """(component, seconds that it worked, to the nanosecond) in order."""
    return sorted((name, round(s, 9)) for name, s in result.busy.items())


# --- the mechanism ----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("written_out", [False, True])
def test_the_slowest_receiver_holds_all_up(engine, written_out):
    """It gets 5 of 8 parts of what three others send: 2.5 times its share of equal ones."""

    def took(name):
        graph = exchanges(name, 4)
        return makespan(board(4), expand(graph, "grouped") if written_out else graph, engine)

    assert took(EQUAL) == pytest.approx(ALPHA + 3 / 4 * SIZE / RATE, abs=1e-10)
    assert took(CROWDED) == pytest.approx(ALPHA + 2.5 * 3 / 4 * SIZE / RATE, abs=1e-10)


def test_the_port_of_the_slowest_receiver_is_to_blame():
    found = run(machines(4, gpus=1), exchanges(CROWDED, 4)).blame()
    assert next(iter(found.ticks)) == "node0.nic0.rx"


def test_a_wide_port_for_the_slowest_receiver_makes_it_the_slowest_no_more():
    """Ablation by the machine: what it gets 2.5 times of, as all others send what they did."""
    crowded = all_to_all_name(pairs=[[8, 8, 8, 8], [20, 8, 2, 2], [20, 2, 8, 2], [20, 2, 2, 8]])

    def wider(component):
        wide = component.name.startswith("node0.nic0.rx")
        return replace(component, rate=2.5 * component.rate) if wide else component

    system = machines(4, gpus=1)
    wide = replace(system, components=tuple(map(wider, system.components)))
    equal = makespan(system, exchanges(EQUAL, 4))
    assert makespan(system, exchanges(crowded, 4)) > 2.4 * equal
    assert makespan(wide, exchanges(crowded, 4)) == pytest.approx(equal, rel=1e-6)


def test_a_member_that_keeps_all_its_data_uses_no_link():
    kept = all_to_all_name(pairs=np.eye(4, dtype=int).tolist())
    for graph in (exchanges(kept, 4), expand(exchanges(kept, 4))):
        assert makespan(board(4), graph) == 0.0
    alone = makespan(
        board(4),
        exchanges(kept, 4),
        simple=Protocol(launch=1e-5),
        sends=Sends(launch=2e-5, piece=1e3),
    )
    assert alone == pytest.approx(2e-5)


def test_the_last_piece_is_that_of_the_slowest_receiver():
    """Buffers of a connection hold as much whoever fills them: the same piece at the end."""

    def ends(name):
        library = {"buffers": Buffers(copying=1.0), "sends": Sends(piece=4e3)}
        return makespan(board(4), exchanges(name, 4), **library) - makespan(
            board(4), exchanges(name, 4)
        )

    assert ends(CROWDED) == pytest.approx(ends(EQUAL), abs=1e-10)


# --- what cannot be ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("all-to-all receive=1,2", "fabric: all-to-all of 4 members: receive=1,2 has 2 numbers"),
        ("all-reduce send=1,1,1,2", "fabric: all-reduce of 4 members: only all-to-all has unequal"),
    ],
)
def test_splits_that_cannot_be_name_their_collective(name, said):
    with pytest.raises(BackendError, match=said):
        makespan(board(4), exchanges(name, 4))


def test_splits_that_cannot_be_name_the_op_that_is_written_out():
    with pytest.raises(GraphError, match=r"op 0 \(all-to-all of 4 members\): receive=1,2 has 2"):
        expand(exchanges("all-to-all receive=1,2", 4))


def test_an_algorithm_that_knows_equal_parts_alone_is_not_taken_for_others():
    @algorithm("all-to-all", "mine")
    def mine(n):
        yield shift(n, 1, of=n, times=n - 1)

    try:
        assert makespan(board(4), exchanges(EQUAL, 4), algorithms="mine") > 0
        with pytest.raises(
            BackendError, match="supports all-to-all with unequal splits for 4 members"
        ):
            makespan(board(4), exchanges(CROWDED, 4), algorithms="mine")
        with pytest.raises(GraphError, match=r"can expand it; add one of \['grouped', 'pairwise'"):
            expand(exchanges(CROWDED, 4), "mine")
    finally:
        WAYS.pop("mine")


def test_steps_that_forget_their_splits_are_named():
    def forgets(n, splits=None):
        yield shift(n, 1, parts=1 if splits is None else 2, of=n, times=n - 1)

    with pytest.raises(
        ValueError, match=r"2 members: with equal splits its flows differ from .*; use split_step"
    ):
        check_algorithm(Algorithm("all-to-all", "forgets", forgets, uneven=True))


def test_ranks_of_a_placed_group_keep_their_parts():
    """Rank 3 gets most wherever it lies."""
    system = machines(4, gpus=1)
    graph = exchanges("all-to-all receive=1,1,1,5", 4)
    for where, node in ((None, 3), ([f"node{3 - r}.gpu0" for r in range(4)], 0)):
        placed = graph if where is None else place(graph, system, where)
        found = run(system, placed).blame()
        assert next(iter(found.ticks)) == f"node{node}.nic0.rx"
