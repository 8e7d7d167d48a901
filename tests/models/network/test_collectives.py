"""The fabric: what it picks, what it asks of links, and what two at once do to each other."""

import numpy as np
import pytest
from foretrace.models.network.collective import nccl
from foretrace.models.network.collective.algorithms import ALGORITHMS, closed_form
from foretrace.models.network.collective.collectives import Fabric
from foretrace.models.network.collective.library import (
    Buffers,
    CoreCosts,
    DirectWrites,
    InSwitch,
    LowLatencySends,
    NetworkMessages,
    NetworkSteps,
    Protocol,
    Sends,
)
from foretrace.models.network.collective.load import compute_load
from foretrace.models.network.collective.protocols import SwitchRounds
from foretrace.models.network.collective.steps import SEGMENTS
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch, star
from foretrace.models.network.topology.topology import NodeSpec, cluster
from foretrace.plugins.gloo.fabric import Gloo
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.csr import Csr
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.rerun.sensitivity import scale_components
from foretrace.sim.run.session import Session
from foretrace.sim.run.simulation import Simulation

ALPHA, RATE = 1e-6, 1e9
ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
FIDELITIES = pytest.mark.parametrize("fidelity", ["flow", "alpha-beta"])


def board(n):
    link = Link(bandwidth=RATE, latency=ALPHA)
    return star(n, link, Switch(bandwidth=RATE, latency=0.0, ports=n))


def graph(*collectives, ranks=None):
    """Independent collectives: (name, ranks, bytes)."""
    build = Builder("collectives")
    for name, members, size in collectives:
        build.collective(
            [Member(r, 9) for r in members], bytes=size, signature=f"collective:{name} fp32[1]"
        )
    return build.graph()


def makespan(system, fabric, made, engine="reference"):
    return Simulation(system, {"fabric": fabric}, engine=engine).run(made).makespan


def asked(system, name, members, *sizes):
    ops = Ops.of(
        kind=Kind.COLLECTIVE,
        bytes=np.array(sizes, float),
        signature=0,
        signatures=(f"collective:{name} fp32[1]",),
    )
    fabric = system.number("fabric")
    return ops.with_placement(system, fabric, Csr.of([members] * len(sizes)))


@ENGINES
@FIDELITIES
@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_a_ring_alone_takes_its_closed_form(engine, fidelity, n):
    """2 (n - 1) (α + S / (n B)): Thakur 2005, Patarasu and Yuan 2009."""
    fabric = Fabric(fidelity=fidelity, algorithms="ring")
    want = 2 * (n - 1) * (ALPHA + 1e6 / (n * RATE))
    found = makespan(board(n), fabric, graph(("all-reduce", range(n), 1e6)), engine)
    assert found == pytest.approx(want, abs=2e-12)


@pytest.mark.parametrize(
    "name", [a.name for a in ALGORITHMS["all-reduce"].values() if not a.nested]
)
@FIDELITIES
def test_every_all_reduce_alone_takes_its_closed_form(name, fidelity):
    fabric = Fabric(fidelity=fidelity, algorithms=name, in_switch=InSwitch(efficiency=1.0))
    want = closed_form(ALGORITHMS["all-reduce"][name], 8, 1e6, ALPHA, RATE)
    found = makespan(board(8), fabric, graph(("all-reduce", range(8), 1e6)))
    assert found == pytest.approx(want, abs=2e-12)


@ENGINES
def test_two_rings_over_the_same_links_share_them_evenly(engine):
    fabric = Fabric(algorithms="ring")
    alone = makespan(board(4), fabric, graph(("all-reduce", range(4), 1e6)), engine)
    both = makespan(
        board(4),
        fabric,
        graph(("all-reduce", range(4), 1e6), ("all-reduce", range(4), 1e6)),
        engine,
    )
    latency = 6 * ALPHA
    assert both - latency == pytest.approx(2 * (alone - latency), abs=4e-12)


def test_two_rings_as_if_alone_do_not_share():
    fabric = Fabric(fidelity="alpha-beta", algorithms="ring")
    one = graph(("all-reduce", range(4), 1e6))
    two = graph(("all-reduce", range(4), 1e6), ("all-reduce", range(4), 1e6))
    assert makespan(board(4), fabric, two) == makespan(board(4), fabric, one)


def test_rings_of_disjoint_groups_do_not_meet():
    fabric = Fabric(algorithms="ring")
    one = graph(("all-reduce", (0, 1), 1e6))
    two = graph(("all-reduce", (0, 1), 1e6), ("all-reduce", (2, 3), 1e6))
    assert makespan(board(4), fabric, two) == makespan(board(4), fabric, one)


@ENGINES
def test_a_send_takes_latency_and_its_bytes(engine):
    build = Builder("send")
    build.op(Kind.SEND, rank=0, peer=1, bytes=1e6)
    found = makespan(board(2), Fabric(), build.graph(), engine)
    assert found == pytest.approx(ALPHA + 1e6 / RATE, abs=2e-12)


@ENGINES
def test_sends_into_one_port_share_it_and_others_do_not(engine):
    build = Builder("incast")
    for sender in (1, 2, 3):
        build.op(Kind.SEND, rank=sender, peer=0, bytes=1e6)
    build.op(Kind.SEND, rank=0, peer=1, bytes=1e6)
    found = makespan(board(4), Fabric(), build.graph(), engine)
    assert found == pytest.approx(ALPHA + 3e6 / RATE, abs=4e-12)


def test_small_ones_take_few_steps_and_large_ones_little_volume():
    system = board(8)
    fabric = Fabric(algorithms="ring, one-shot")
    timing = fabric.timing(asked(system, "all-reduce", range(8), 8, 1e9))
    assert timing.fixed.tolist() == pytest.approx([ALPHA, 14 * ALPHA])
    assert "1 all-reduce one-shot/simple" in timing.source[0]
    assert "1 all-reduce ring/simple" in timing.source[0]


def test_protocols_trade_latency_for_bandwidth():
    """NCCL's: a flag on every 4 bytes starts quickest and moves least."""
    system = board(4)
    fabric = Fabric(
        algorithms="ring",
        simple=Protocol(launch=2e-5, efficiency=0.8),
        ll128=Protocol(launch=1e-5),
        ll=Protocol(launch=5e-6),
    )
    timing = fabric.timing(asked(system, "all-reduce", range(4), 8, 2e4, 1e8))
    for protocol in ("simple", "ll128", "ll"):
        assert f"1 all-reduce ring/{protocol}" in timing.source[0]
    alone = timing.fixed + timing.work * [1.5 / (0.8 * s * RATE) for s in (0.5, 120 / 128, 1.0)]
    assert np.all(np.diff(alone) > 0)
    assert timing.usage.weight.reshape(3, -1)[:, 0] == pytest.approx(
        [1.5 / (0.8 * s) for s in (0.5, 120 / 128, 1.0)]
    )


def test_the_switch_reduces_only_where_it_can():
    system = board(8)
    timing = Fabric(in_switch=InSwitch(efficiency=1.0)).timing(
        asked(system, "all-reduce", range(8), 1e9)
    )
    assert "in-switch" in timing.source[0]
    assert "in-switch" not in Fabric().timing(asked(system, "all-reduce", range(8), 1e9)).source


def test_the_switch_does_not_reduce_between_nodes():
    system = nodes(2, 4)
    timing = Fabric(in_switch=InSwitch(efficiency=1.0)).timing(asked_gpus(system, 8, 1e9))
    assert "in-switch" not in timing.source[0]


def nodes(count, gpus, nics=None):
    nic = Nic(bandwidth=RATE / 10, latency=ALPHA, mtu=1e9, header=0.0)
    link = Link(bandwidth=RATE, latency=ALPHA)
    return cluster(count, NodeSpec(gpus=gpus, gpu_link=link, nics=nics or gpus, nic=nic))


def asked_gpus(system, n, *sizes):
    return asked(system, "all-reduce", [system.number(g) for g in system.gpus[:n]], *sizes)


def test_between_nodes_a_ring_uses_every_nic_evenly():
    """One channel a GPU, so that 4 NICs of B carry what one of 4 B would."""
    system = nodes(2, 4)
    timing = Fabric(algorithms="ring").timing(asked_gpus(system, 8, 1e9))
    load = dict(zip(timing.usage.component.tolist(), timing.usage.weight.tolist(), strict=True))
    nics = [w for c, w in load.items() if system.components[c].kind == "nic"]
    assert len(nics) == 2 * 4 * 2
    assert nics == pytest.approx([1.75 / 4] * 16)


def test_links_and_network_are_reached_to_shares_of_their_own():
    system = nodes(2, 4)
    fabric = Fabric(
        algorithms="ring", simple=Protocol(efficiency=0.5, network=NetworkSteps(efficiency=0.8))
    )
    timing = fabric.timing(asked_gpus(system, 8, 1e9))
    load = dict(zip(timing.usage.component.tolist(), timing.usage.weight.tolist(), strict=True))
    plain = Fabric(algorithms="ring").timing(asked_gpus(system, 8, 1e9))
    for c, weight in zip(plain.usage.component.tolist(), plain.usage.weight.tolist(), strict=True):
        share = 0.8 if system.components[c].kind == "nic" else 0.5
        assert load[c] == pytest.approx(weight / share)


def test_one_nic_for_all_gpus_carries_all_channels():
    system = nodes(2, 4, nics=1)
    timing = Fabric(algorithms="ring").timing(asked_gpus(system, 8, 1e9))
    load = dict(zip(timing.usage.component.tolist(), timing.usage.weight.tolist(), strict=True))
    assert load[system.number("node0.nic0.tx")] == pytest.approx(1.75)


def test_trees_between_nodes_climb_chains_within_them():
    """Hu et al. 2025, arXiv:2507.04786: NCCL's tree is a chain inside a node."""
    steps = ALGORITHMS["all-reduce"]["chain-tree"].latencies(32, 8)
    assert steps == 2 * (7 + 2)  # seven hops down the chain, two levels of four nodes
    system = nodes(4, 2)
    timing = Fabric(algorithms="chain-tree").timing(asked_gpus(system, 8, 0.0))
    chain, across = 2 * ALPHA, 2 * ALPHA  # two crossings each: tx and rx of link or NIC
    assert timing.fixed[0] == pytest.approx(2 * (chain + 2 * across))


def test_a_collective_of_one_costs_nothing():
    timing = Fabric(simple=Protocol(launch=1e-3)).timing(asked(board(2), "all-reduce", [0], 1e9))
    assert timing.fixed.tolist() == [0.0]
    assert timing.work.tolist() == [0.0]


def test_a_barrier_has_messages_and_no_bytes():
    ops = asked(board(8), "barrier", range(8), np.nan)
    assert Fabric().timing(ops).fixed.tolist() == pytest.approx([3 * ALPHA])


def test_posting_many_messages_costs_the_nic_each_time():
    link = Link(bandwidth=RATE, latency=ALPHA, overhead=5e-7)
    system = star(8, link, Switch(bandwidth=RATE, latency=0.0, ports=8))
    timing = Fabric(algorithms="grouped").timing(asked(system, "all-to-all", range(8), 0.0))
    assert timing.fixed.tolist() == pytest.approx([ALPHA + 7 * 5e-7])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fabric(algorithms="rings"), r"algorithm 'rings' is unknown; take one of \['ring'"),
        (lambda: Fabric(fidelity="packet"), r"fidelity 'packet' is unknown"),
        (
            lambda: Fabric().timing(asked(board(2), "allreduce", [0, 1], 1.0)),
            r"collective 'allreduce' is unknown; take one of \['all-reduce'",
        ),
        (
            lambda: Fabric(algorithms="halving-doubling").timing(
                asked(board(3), "all-reduce", range(3), 1.0)
            ),
            r"no algorithm of \['halving-doubling'\] supports all-reduce for 3 members; add one of",
        ),
        (
            lambda: Fabric().timing(asked(board(2), "all-reduce", [0, 1], np.nan)),
            r"op 0 \(collective:all-reduce fp32\[1\]\): bytes are unknown",
        ),
        (lambda: Fabric().timing(Ops.of(kind=Kind.SEND, bytes=1.0)), "not placed on a machine"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_cure(make, message):
    with pytest.raises(BackendError, match=message):
        make()


def test_gpus_that_are_not_joined_are_named():
    gpus = [Component(f"node{i}.gpu0", "gpu", slots=1) for i in range(2)]
    system = System((*gpus, Component("fabric", "fabric")), tuple(g.name for g in gpus))
    with pytest.raises(BackendError, match=r"node0.gpu0: no route to node1.gpu0; give the cluster"):
        Fabric().timing(asked(system, "all-reduce", [0, 1], 1.0))


def test_a_member_of_a_ring_does_not_send_while_it_copies_its_last_part():
    """n - 1 parts sent and one copied, each at the rate of one that is sent."""
    want = 6 * ALPHA + (3 + 3 + 1) / 4 * 1e6 / RATE
    fabric = Fabric(fidelity="alpha-beta", algorithms="ring", buffers=Buffers(copying=1.0))
    timing = fabric.timing(asked(board(4), "all-reduce", range(4), 1e6))
    assert timing.fixed.tolist() == pytest.approx([want])


def test_a_copy_costs_nothing_where_a_network_is_slower():
    system = cluster(2, NodeSpec(gpus=1, nics=1, nic=Nic(bandwidth=RATE, latency=0.0)))
    plain, copied = (
        Fabric(fidelity="alpha-beta", algorithms="ring", buffers=Buffers(copying=c)).timing(
            asked(system, "all-gather", [system.number(g) for g in system.gpus], 1e6)
        )
        for c in (0.0, 1.0)
    )
    assert copied.fixed.tolist() == plain.fixed.tolist()


@FIDELITIES
def test_a_host_that_is_waited_for_delays_collectives(fidelity):
    system = board(2)
    plain, called = (Fabric(fidelity=fidelity, cores=CoreCosts(dispatch=d)) for d in (0.0, 2e-5))
    late = makespan(system, called, graph(("all-reduce", range(2), 1e6)))
    assert late - makespan(system, plain, graph(("all-reduce", range(2), 1e6))) == pytest.approx(
        2e-5
    )


def answered(session, made):
    """What a machine says of a graph: fixed times and work."""
    timing = session.time_graph(made).answers.timing
    return timing.fixed.tolist(), timing.work.tolist()


@pytest.mark.parametrize("fabric", [Fabric(), Gloo(message=1e-6)])
def test_altered_machines_that_run_side_by_side_are_answered_each_for_itself(fabric):
    """What a fabric keeps of one machine is no answer for another that was opened with it."""
    whole, system = graph(("all-reduce", range(4), 1e6)), board(4)
    simulation, every = Simulation(system, {"fabric": fabric}), range(len(system.components))
    quick = [scale_components(simulation, every, by) for by in (1.1, 2.0)]
    alone = [answered(Session(one, None), whole) for one in quick]
    assert alone[0] != alone[1]
    under_way = [Session(one, None) for one in quick]  # both are opened before either is asked
    assert [answered(session, whole) for session in under_way] == alone


@pytest.mark.parametrize("kind", [Fabric, Gloo])
def test_a_fabric_that_another_run_opens_in_the_middle_of_a_question_answers_it(kind):
    """Runs of one machine share a fabric: what it kept may be gone as soon as it is kept."""

    class Gone(dict):
        """Keeps nothing."""

        def __setitem__(self, key, value):
            pass

    class Opened(kind):
        """Opened by others all the time."""

        def open(self, system):
            super().open(system)
            self._ways = self._played = Gone()

    whole, given = graph(("all-reduce", range(4), 1e6)), {"message": 1e-6} if kind is Gloo else {}
    assert makespan(board(4), Opened(**given), whole) == makespan(board(4), kind(**given), whole)


def test_the_switch_is_fed_in_whole_rounds():
    """Chunks of 16 KiB on 2 channels of 8 members: a round is 256 KiB, and one more fills."""
    fabric = Fabric(
        algorithms="in-switch",
        in_switch=InSwitch(efficiency=1.0, channels=2, round=1e-6, launch=5e-6),
    )
    kib, system = 2.0**10, board(8)
    sizes = np.array([1, 255, 256, 257]) * kib
    found = fabric.seconds("all-reduce", tuple(range(8)), sizes, system)
    each = 1e-6 + 256 * kib * 9 / 8 / RATE
    assert found == pytest.approx(5e-6 + 2 * ALPHA + np.array([2, 2, 2, 3]) * each)


def test_chunks_to_the_switch_grow_with_the_size():
    """The largest size of each chunk: NVIDIA/nccl, src/enqueue.cc, 128 slots."""
    mib = 2.0**20
    sizes = np.array([8 * mib - 1, 8 * mib, 64 * mib - 1, 64 * mib, 1024 * mib - 1, 1024 * mib])
    found = SwitchRounds(128, 0.0).chunk(sizes) / 2**10
    assert found.tolist() == [16, 32, 32, 64, 64, 128]


def test_a_step_between_machines_has_a_cost_of_its_own():
    """A ring of 2 x 2: of its six steps two cross, as the first message does at step 2 and 4."""
    system = nodes(2, 2)
    plain, costly = (
        Fabric(algorithms="ring", simple=Protocol(step=1e-6, network=NetworkSteps(step=s)))
        for s in (None, 1e-4)
    )
    (a,), (b,) = (f.timing(asked_gpus(system, 4, 8)).fixed for f in (plain, costly))
    crossing = compute_load(ALGORITHMS["all-reduce"]["ring"], system.numbers, system).network_steps
    assert crossing in (2, 3)
    assert b - a == pytest.approx(crossing * 99e-6)


def test_more_machines_cost_more_steps_between_them():
    """How it grows is the ring's: no factor by machines."""
    steps = [
        compute_load(
            ALGORITHMS["all-reduce"]["ring"], nodes(n, 2).numbers, nodes(n, 2)
        ).network_steps
        for n in (2, 4, 8)
    ]
    assert steps == pytest.approx([2 * (n - 1) for n in (2, 4, 8)], abs=1)


@pytest.mark.parametrize("name", ["all-reduce", "all-to-all"])
def test_a_nic_fetches_bytes_by_itself_whatever_threads_reach_between_gpus(name):
    """What kernels reach of the links between GPUs was taken of PCIe below a NIC, too."""
    nic, pcie = Nic(bandwidth=RATE, latency=0.0, header=0), Link(bandwidth=1.2 * RATE, latency=0.0)
    system = cluster(2, NodeSpec(gpus=1, nics=1, nic=nic, nic_link=pcie))
    fabric = Fabric(
        algorithms="ring, grouped",
        simple=Protocol(efficiency=0.5, network=NetworkSteps(efficiency=1.0)),
    )
    took = makespan(system, fabric, graph((name, range(2), 2e6)))
    assert took == pytest.approx((2e6 if name == "all-reduce" else 1e6) / RATE)


def test_flags_cost_the_network_their_share_unless_it_has_its_own():
    system = nodes(2, 1)
    for own, want in ((None, 0.45), (0.1, 0.1)):
        fabric = Fabric(
            algorithms="ring",
            algorithm="ring/ll",
            ll=Protocol(launch=0.0, network=NetworkSteps(efficiency=own)),
            simple=Protocol(network=NetworkSteps(efficiency=0.9)),
        )
        (way,) = fabric.candidate_plans("all-reduce", system.numbers, system)
        assert way.step_costs.network_efficiency == pytest.approx(want)


@ENGINES
@FIDELITIES
def test_a_member_of_sends_copies_its_own_part_meanwhile(engine, fidelity):
    """A fourth of what each member of four has is its own, beside three that it sends."""
    fabric = Fabric(algorithms="grouped", fidelity=fidelity, sends=Sends(launch=0.0, own_part=0.6))
    alone = makespan(board(4), fabric, graph(("all-to-all", range(4), 4e6)), engine)
    assert alone == pytest.approx(ALPHA + (3 + 0.6) * 1e6 / RATE)


@ENGINES
@FIDELITIES
def test_a_low_latency_exchange_is_a_start_and_the_bytes_of_the_nics(engine, fidelity):
    """Two of four parts cross a NIC of their own, and nothing is copied, late or stepped for."""
    nic, link = Nic(bandwidth=RATE, latency=0.0, header=0), Link(bandwidth=100 * RATE, latency=0.0)
    system = cluster(2, NodeSpec(gpus=2, nics=2, nic=nic, gpu_link=link))
    fabric = Fabric(
        algorithms="ring",
        algorithm="ring",
        fidelity=fidelity,
        simple=Protocol(launch=1.0, network=NetworkSteps(step=1.0)),
        sends=Sends(
            lateness=1.0,
            own_part=1.0,
            piece=1e9,
            copying=1.0,
            low_latency=DirectWrites(launch=1e-5, efficiency=0.8),
        ),
        choice="nccl",
    )
    alone = graph(("all-to-all kernel=low-latency", range(4), 4e6))
    assert makespan(system, fabric, alone, engine) == pytest.approx(1e-5 + 2e6 / (0.8 * RATE))
    uneven = graph(("all-to-all kernel=low-latency receive=1,1,2,0", range(4), 4e6))
    assert makespan(system, fabric, uneven, engine) == pytest.approx(1e-5 + 4e6 / (0.8 * RATE))


def test_a_low_latency_exchange_is_refused_where_the_library_has_none():
    alone = graph(("all-to-all kernel=low-latency", range(4), 4e6))
    with pytest.raises(
        BackendError, match=r"no low-latency all-to-all; write workload\.execution\."
    ):
        makespan(board(4), Fabric(), alone)


def test_the_own_part_of_unequal_ones_is_the_largest():
    fabric = Fabric(algorithms="grouped", sends=Sends(launch=0.0, own_part=0.5))
    uneven = graph(("all-to-all splits=4,2/1,1", range(2), 4e6))  # two members, parts of 1 MB
    assert makespan(board(2), fabric, uneven) == pytest.approx(ALPHA + (2 + 0.5 * 4) * 1e6 / RATE)


@ENGINES
@FIDELITIES
def test_pairs_of_ll_have_few_threads_whatever_the_link_carries(engine, fidelity):
    fabric = Fabric(
        algorithms="grouped",
        fidelity=fidelity,
        algorithm="grouped/ll",
        sends=Sends(launch=1.0, ll=LowLatencySends(launch=1e-5, rate=1e8)),
        ll=Protocol(launch=0.0),
    )
    alone = makespan(board(4), fabric, graph(("all-to-all", range(4), 4e6)), engine)
    assert alone == pytest.approx(1e-5 + ALPHA + 1e6 / 1e8)


def test_sends_begin_when_the_last_of_their_members_does():
    fabric = Fabric(algorithms="grouped", sends=Sends(launch=0.0, lateness=1e-3))
    late = {n: makespan(board(n), fabric, graph(("all-to-all", range(n), 0))) for n in (2, 4)}
    assert late[2] == pytest.approx(1.5e-3 + ALPHA)
    assert late[4] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) * 1e-3 + ALPHA)


def test_what_is_written_as_sends_has_a_start_of_its_own_and_a_last_piece_to_copy():
    system, mib = board(4), 2.0**20
    fabric = Fabric(
        algorithms="grouped, ring",
        simple=Protocol(launch=1.0),
        sends=Sends(launch=1e-5, efficiency=0.5, piece=4 * mib),
        buffers=Buffers(copying=0.4),
    )
    sizes = np.array([mib, 4 * mib, 64 * mib])
    found = fabric.seconds("all-to-all", tuple(range(4)), sizes, system)
    beta = 0.75 / (0.5 * RATE)
    copied = 0.4 * np.minimum(sizes, 4 * mib)
    assert found == pytest.approx(1e-5 + ALPHA + (sizes + copied) * beta)


def test_long_messages_between_machines_are_fetched_by_their_receivers():
    """Half of S crosses in each of two trees, there and back; flags of ll double it."""
    nic, link = Nic(bandwidth=RATE, latency=ALPHA), Link(bandwidth=RATE, latency=0.0)
    system = cluster(2, NodeSpec(gpus=2, gpu_link=link, nics=2, nic=nic))
    sizes = np.array([2048.0, 4096.0])
    plain, fetching = (
        Fabric(
            algorithm="chain-tree/ll",
            ll=Protocol(launch=0.0),
            network=NetworkMessages(eager_limit=eager, rendezvous=1e-3),
        )
        for eager in (None, 2048.0)
    )
    more = [f.seconds("all-reduce", system.numbers, sizes, system) for f in (plain, fetching)]
    assert more[1] - more[0] == pytest.approx([0.0, 2e-3])
    within = tuple(system.numbers[:2])
    ring = Fabric(network=NetworkMessages(eager_limit=1.0, rendezvous=1.0))
    assert ring.seconds("all-reduce", within, sizes, system).max() < 1.0


def test_a_ring_over_machines_takes_as_long_as_its_steps_or_as_its_bytes():
    """Steps of 1 ms, of 1 us for each kB up to 4 KiB that the host copies; bytes move meanwhile."""
    nic, link = Nic(bandwidth=RATE, latency=ALPHA), Link(bandwidth=RATE, latency=0.0)
    system = cluster(2, NodeSpec(gpus=2, gpu_link=link, nics=2, nic=nic))
    (beta,) = {
        w.beta
        for w in Fabric(algorithm="ring/simple").candidate_plans(
            "all-reduce", system.numbers, system
        )
    }
    pace = NetworkMessages(pace=1e-3, copied=4096.0, copy_rate=1e6)
    protocols = {"simple": Protocol(launch=1e-2), "ll": Protocol(launch=0.0)}
    plain, paced = (
        Fabric(algorithm="ring", network=network, **protocols)
        for network in (NetworkMessages(), pace)
    )
    sizes = 4 * np.array([512.0, 4096.0, 8192.0, 1e12])

    def told(fabric, members, way):
        found = fabric.plan_choices("all-reduce", members, sizes, system)
        return next(s for plan, s, _ in found if plan.name == f"ring/{way}")

    bytes_alone = np.array([0, 0, 0, 4e12 * beta])
    steps = 6 * np.array([1e-3, 4.096e-3, 1e-3, 0])
    found = told(paced, system.numbers, "simple")
    assert found == pytest.approx(1e-2 + steps + bytes_alone)
    assert told(plain, system.numbers, "simple")[-1] > found[-1]  # there latencies add to them
    assert np.array_equal(*(told(f, system.numbers, "ll") for f in (plain, paced)))
    within = tuple(system.numbers[:2])
    assert np.array_equal(*(told(f, within, "simple") for f in (plain, paced)))


def test_copying_needs_a_size_and_a_rate():
    with pytest.raises(BackendError, match=r"network\.copied needs"):
        Fabric(network=NetworkMessages(copied=4096.0))
    with pytest.raises(BackendError, match=r"network\.copy_rate needs"):
        Fabric(network=NetworkMessages(copy_rate=1e9))


def test_a_pipeline_of_segments_waits_for_one_of_them_at_every_step():
    system, mib = board(4), 2.0**20
    chain, whole = ALGORITHMS["broadcast"]["chain"], 64 * mib
    small, large = (Fabric(algorithms="chain", buffers=Buffers(segment=s * mib)) for s in (1, 1000))
    for fabric, segment in ((small, mib), (large, whole / SEGMENTS)):
        (found,) = fabric.seconds("broadcast", tuple(range(4)), np.array([whole]), system)
        want = closed_form(chain, 4, whole, ALPHA, RATE) + 2 * segment / RATE
        assert found == pytest.approx(want)


@pytest.mark.parametrize(
    ("pin", "collective", "want"),
    [
        ("ring", "all-reduce", {"ring/simple", "ring/ll"}),
        ("tree/ll", "all-reduce", {"tree/ll"}),
        ("all-reduce=tree, all-gather=ring/simple", "all-gather", {"ring/simple"}),
        ("all-reduce=tree", "all-to-all", {"grouped/simple", "grouped/ll", "pairwise/simple",
                                           "pairwise/ll"}),
    ],
)  # fmt: skip
def test_a_pinned_algorithm_is_the_only_way(pin, collective, want):
    system = board(4)
    fabric = Fabric(algorithm=pin, ll=Protocol(launch=0.0))
    assert {w.name for w in fabric.candidate_plans(collective, tuple(range(4)), system)} == want


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        ("rng", "algorithm 'rng' is unknown; take one of"),
        ("ring/LL", r"protocol 'LL' is unknown; take one of \['simple', 'll128', 'll'\]"),
        ("reduce-all=ring", "collective 'reduce-all' is unknown"),
        ("all-gather=tree", "algorithm 'tree' is unknown"),
    ],
)
def test_a_pin_that_names_nothing_is_refused(pin, message):
    with pytest.raises(BackendError, match=message):
        Fabric(algorithm=pin)


@pytest.mark.parametrize("pin", ["halving-doubling", "all-reduce=chain-tree", "ring/ll"])
def test_a_pinned_algorithm_that_a_group_cannot_run_is_named(pin):
    with pytest.raises(BackendError, match=r"does not support all-reduce for 3 members"):
        Fabric(algorithm=pin).candidate_plans("all-reduce", (0, 1, 2), board(3))


def grace(count):
    """Machines of four GPUs on NVLink 4, with a NIC of 200 Gb/s each."""
    nic = Nic(bandwidth=25e9, latency=1.5e-6)
    return cluster(count, NodeSpec(gpus=4, gpu_link=Link(bandwidth=450e9, latency=0.0), nics=4,
                                   nic=nic))  # fmt: skip


@pytest.mark.parametrize("count", [2, 4])
def test_nccl_stays_with_flags_up_to_1_mib_between_machines(count):
    """Measured on Alps: at 2 MiB times of 8 and 16 GPUs drop to a seventh (fit_fabrics.py)."""
    fabric = Fabric(
        algorithms="ring, chain-tree",
        choice="nccl",
        simple=Protocol(launch=5e-6, network=NetworkSteps(efficiency=0.9)),
        ll=Protocol(launch=5e-6, network=NetworkSteps(efficiency=0.015)),
    )
    system, mib = grace(count), 2.0**20
    ways = fabric.candidate_plans("all-reduce", system.numbers, system)
    told = nccl.estimates(ways, np.array([mib / 16, mib, 2 * mib, 256 * mib]))
    taken = [ways[k].name for k in np.argmin(told, axis=0)]
    assert [name.partition("/")[2] for name in taken] == ["ll", "ll", "simple", "simple"]
    assert taken[-1] == ("chain-tree/simple" if count == 2 else "ring/simple")
    slow, quick = fabric.seconds("all-reduce", system.numbers, np.array([mib, 2 * mib]), system)
    assert slow > 3 * quick


def test_nccl_expects_what_its_source_says_of_nics_and_of_trees_through_one_gpu():
    """16 GPUs: NICs of 25 GB/s count as 24; trees reach 0.85, but for what their size takes."""
    fabric, system = Fabric(algorithms="ring, chain-tree", ll=Protocol(launch=5e-6)), grace(4)
    ways = fabric.candidate_plans("all-reduce", system.numbers, system)
    size = np.array([2.0**20, 2.0**24])
    found = dict(zip((w.name for w in ways), nccl.estimates(ways, size) * 1e6, strict=True))
    ring = 1.4 * (8.4 + 24 * 3.4 + 6 * 14.0) + size / (96e3 * 16 / 30)
    tree = 8.4 + 2 * (3 * 4.0 + 2 * 14.0) + size / (96e3 * 0.92 * 0.85 / 2 * np.array([0.5, 0.7]))
    flags = 6.6 + 24 * 1.0 + 6 * 2.7 + size / (20.4e3 * 16 / 30)
    told = (found[name] for name in ("ring/simple", "chain-tree/simple", "ring/ll"))
    for one, want in zip(told, (ring, tree, flags), strict=True):
        assert one == pytest.approx(want)


def test_nccl_takes_the_quickest_where_it_has_no_table():
    fabric, system = Fabric(algorithms="dissemination", choice="nccl"), board(4)
    assert fabric.timing(asked(system, "barrier", range(4), 0)).fixed[0] == pytest.approx(2 * ALPHA)
