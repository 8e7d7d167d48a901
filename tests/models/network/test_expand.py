"""Collectives written out as sends, against the closed form and the one activity."""

import pytest
from foretrace.models.network.collective.algorithms import ALGORITHMS, closed_form
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.collective.expand import expand
from foretrace.models.network.collective.library import InSwitch
from foretrace.models.network.collective.load import compute_load, hop_latency
from foretrace.models.network.collective.messages import Messages
from foretrace.models.network.collective.steps import SEGMENTS
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch, star
from foretrace.models.network.topology.topology import NodeSpec, cluster
from foretrace.sim.errors import BackendError, GraphError
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.place import place
from foretrace.sim.run.simulation import Simulation

ALPHA, RATE, SIZE = 1e-6, 1e9, 1e6
EVERY = [a for named in ALGORITHMS.values() for a in named.values()]
WRITTEN_OUT = [a for a in EVERY if not (a.nested or a.in_switch)]
EARLY = ("reduce", "binomial", 5)  # member 4 waits for nobody and sends at once
PIPELINED = [a for a in WRITTEN_OUT if a.pipelined]


class Recorded(Backend):
    """Durations of the graph."""

    source = "test"

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration)


def board(n, alpha=ALPHA):
    link = Link(bandwidth=RATE, latency=alpha)
    return star(n, link, Switch(bandwidth=RATE, latency=0.0, ports=n))


def one(name, n):
    build = Builder("one")
    build.collective(
        [Member(r, 9) for r in range(n)], bytes=SIZE, signature=f"collective:{name} fp32[1]"
    )
    return build.graph()


def makespan(system, graph):
    backends = {"fabric": Fabric(), "node0.gpu*": Recorded()}
    return Simulation(system, backends, engine="reference").run(graph).makespan


@pytest.mark.parametrize(
    ("collective", "name", "n"),
    [
        (a.collective, a.name, n)
        for a in WRITTEN_OUT
        for n in (2, 4, 5, 8)
        if a.usable(n) and not a.pipelined and (a.collective, a.name, n) != EARLY
    ],
)
def test_sends_take_the_closed_form(collective, name, n):
    """Thakur 2005, Chan 2007: on identical links steps x α + volume x S / B."""
    sends = expand(one(collective, n), name)
    want = closed_form(ALGORITHMS[collective][name], n, SIZE, ALPHA, RATE)
    assert makespan(board(n), sends) == pytest.approx(want, abs=1e-10)


def test_who_waits_for_nobody_sends_at_once_in_a_tree_that_is_not_full():
    found = makespan(board(5), expand(one("reduce", 5), "binomial"))
    assert found == pytest.approx(2 * ALPHA + 2.5 * SIZE / RATE, rel=0.2)
    assert found < closed_form(ALGORITHMS["reduce"]["binomial"], 5, SIZE, ALPHA, RATE)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_a_chain_of_segments_is_a_pipeline(collective):
    """(n - 2 + k) (α + S / (k B)) for k segments: Chan 2007, section on pipelined broadcast."""
    n = 5
    sends = expand(one(collective, n), "chain")
    want = (n - 2 + SEGMENTS) * (ALPHA + SIZE / (SEGMENTS * RATE))
    assert makespan(board(n), sends) == pytest.approx(want, abs=1e-10)


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("algorithm", WRITTEN_OUT, ids=lambda a: f"{a.collective}-{a.name}")
def test_closed_form_activity_and_sends_agree_on_an_idle_fabric(algorithm, n):
    """All three from the same steps; a pipeline of K segments takes (steps - 1) / K longer."""
    whole = one(algorithm.collective, n)
    fabric = {"fabric": Fabric(algorithms=algorithm.name)}
    activity = Simulation(board(n), fabric, engine="reference").run(whole).makespan
    want = closed_form(algorithm, n, SIZE, ALPHA, RATE)
    assert activity == pytest.approx(want, abs=1e-10)
    sends = makespan(board(n), expand(whole, algorithm.name))
    if not algorithm.pipelined:
        assert sends == pytest.approx(want, abs=1e-10)
    else:
        filling = (algorithm.latencies(n) + SEGMENTS) / SEGMENTS
        assert want <= sends + 1e-10
        assert sends <= want * filling + (algorithm.latencies(n) + SEGMENTS) * ALPHA


@pytest.mark.parametrize(
    ("collective", "name"), [(a.collective, a.name) for a in EVERY if a.nested]
)
def test_what_knows_nodes_is_written_out_node_by_node(collective, name):
    """Members that alternate between two nodes; each sends within its own, or to its like."""
    algorithm, n, nodes = ALGORITHMS[collective][name], 8, "abababab"
    sends = expand(one(collective, n), name, nodes)
    want = algorithm.latencies(n, 4) * ALPHA + algorithm.volume(n, 4) * SIZE / RATE
    found = makespan(board(n), sends)
    if algorithm.pipelined:
        steps = algorithm.latencies(n, 4)
        assert want <= found + 1e-10
        assert found <= (want + SIZE / RATE) * (steps + SEGMENTS) / SEGMENTS + SEGMENTS * ALPHA
    else:
        assert found == pytest.approx(want, abs=1e-10)
    crossing = {(s, p) for s, p in pairs(sends) if nodes[s] != nodes[p]}
    assert len(crossing) <= n * (n - 1) // 2 if name == "chain-tree" else len(crossing) == n


def pairs(graph):
    block = graph.explicit
    sends = block.ops.kind == Kind.SEND
    return set(
        zip(block.rank[: len(block)][sends].tolist(), block.peer[sends].tolist(), strict=True)
    )


@pytest.mark.parametrize("n", [3, 4, 8])
def test_reduction_in_the_switch_is_written_out_as_halves_of_sends(n):
    """S to the switch and S back from it, and 1/n more each way; no route is crossed whole."""
    algorithm, whole = ALGORITHMS["all-reduce"]["in-switch"], one("all-reduce", n)
    sends = expand(whole, "in-switch")
    fabric = {"fabric": Fabric(algorithms="in-switch", in_switch=InSwitch(efficiency=1.0))}
    want = closed_form(algorithm, n, SIZE, ALPHA, RATE)
    assert Simulation(board(n), fabric, engine="reference").run(whole).makespan == pytest.approx(
        want, abs=1e-10
    )
    found = Simulation(board(n), fabric, engine="reference").run(sends).makespan
    filling = (algorithm.latencies(n) + SEGMENTS) / SEGMENTS
    assert want <= found + 1e-10
    assert found <= want * filling + (algorithm.latencies(n) + SEGMENTS) * ALPHA


def test_two_gpus_have_no_switch_whose_side_could_be_told():
    build = Builder("two")
    build.op(Kind.SEND, rank=0, peer=1, bytes=1e6, signature="send:all-reduce to-switch")
    with pytest.raises(BackendError, match="no switch joins three GPUs there"):
        makespan(board(2), build.graph())


def on_two_nodes(members=4):
    nic = Nic(bandwidth=RATE, latency=5e-6)
    return cluster(2, NodeSpec(gpus=members // 2, gpu_link=Link(bandwidth=RATE, latency=ALPHA),
                           nics=members // 2, nic=nic))  # fmt: skip


def test_a_pairwise_all_to_all_crosses_the_wires_that_it_sends_over():
    """Of its three rounds among 2 + 2 members all cross the NICs; neighbours alone would not."""
    pairwise = ALGORITHMS["all-to-all"]["pairwise"]
    system = on_two_nodes()
    found = compute_load(pairwise, system.numbers, system)
    steps = [(0, 1), (0, 2), (0, 3)]
    assert found.latency == pytest.approx(sum(hop_latency(*(system.numbers[m] for m in s), system)
                                              for s in steps))  # fmt: skip
    assert found.latency == pytest.approx(2 * ALPHA + 2 * 10e-6)


@pytest.mark.parametrize("algorithm", PIPELINED, ids=lambda a: f"{a.collective}-{a.name}")
def test_segments_of_a_pipeline_carry_all_of_it(algorithm):
    sent = {}
    _, *columns = Messages.of(algorithm, 5)
    for a, b, share in zip(*columns, strict=True):
        sent[a, b] = sent.get((a, b), 0.0) + share
    source, target, share = algorithm.flows(5)
    want = dict(zip(zip(source.tolist(), target.tolist(), strict=True), share, strict=True))
    assert sent == pytest.approx(want)


def test_the_number_of_sends_is_steps_times_members():
    assert len(expand(one("all-reduce", 8))) == 14 * 8 + 1


def test_what_waited_for_the_collective_waits_for_its_last_message():
    build = Builder("around")
    before = [build.op(Kind.COMPUTE, rank=r, duration=(r + 1) * 1e-3) for r in range(3)]
    both = build.collective(
        [Member(r, 9, (before[r],)) for r in range(3)],
        bytes=SIZE,
        signature="collective:all-reduce fp32[1]",
    )
    for rank in range(3):
        build.op(Kind.COMPUTE, rank=rank, duration=1e-3, after=[both], name="after")
    ring = 4 * (ALPHA + SIZE / (3 * RATE))
    assert makespan(board(3), expand(build.graph())) == pytest.approx(3e-3 + ring + 1e-3, abs=1e-10)


def test_members_that_are_early_start_the_ring_before_the_last():
    """The reason to expand: rank 2 is late, but what 0 sends to 1 is already there."""
    build = Builder("straggler")
    late = build.op(Kind.COMPUTE, rank=2, duration=1e-3)
    build.collective(
        [Member(0, 9), Member(1, 9), Member(2, 9, (late,))],
        bytes=SIZE,
        signature="collective:all-gather fp32[1]",
    )
    sends = expand(build.graph())
    ends = Simulation(
        board(3), {"fabric": Fabric(), "node0.gpu*": Recorded()}, engine="reference"
    ).run(sends)
    assert ends.makespan == pytest.approx(1e-3 + 2 * (ALPHA + SIZE / (3 * RATE)), abs=1e-10)
    first = ends.frame()[lambda f: f["kind"] == "send"]["start_us"].min()
    assert first == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: expand(place(one("all-reduce", 2), board(2))), "expand it before place"),
        (lambda: expand(one("all-reduce", 3), "halving-doubling"), r"none of \['halving-doubling'"),
        (lambda: expand(one("all-reduce", 4), "direct"), r"add one of \['ring', 'tree', 'halving-"),
        (
            lambda: expand(one("all-reduce", 2), "in-switch"),
            r"none of \['in-switch'\] can expand it",
        ),
        (lambda: expand(one("all-reduce", 4), "chain-tree"), r"none of \['chain-tree'\] can"),
        (
            lambda: expand(one("all-reduce", 3), "hierarchical", "aab"),
            "none of .'hierarchical'. can",
        ),
        (
            lambda: expand(one("all-reduce", 4), "rng"),
            r"no algorithm 'rng' .* write some of \['bin",
        ),
    ],
)
def test_what_cannot_be_written_out_is_refused(make, message):
    with pytest.raises(GraphError, match=message):
        make()


def test_ops_that_wait_for_each_other_are_named():
    build = Builder("ring of waits")
    build.op(Kind.COMPUTE, stream=0, after=[2])
    build.op(Kind.COMPUTE, stream=1, after=[0])
    build.op(Kind.COMPUTE, stream=2, after=[1])
    build.op(Kind.COMPUTE, stream=3, after=[2])
    with pytest.raises(GraphError, match=r"(op \d -> ){3}op \d; remove") as refused:
        expand(build.graph())
    assert set(refused.value.ops) == {0, 1, 2}
