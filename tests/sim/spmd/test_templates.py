"""SPMD graphs: runs without expansion equal runs of the expanded graph, folded or not."""

import logging
import re
from dataclasses import replace

import numpy as np
import pytest
from foretrace.sim.analysis.activity import activity, exposed_communication_seconds
from foretrace.sim.analysis.metrics import measure
from foretrace.sim.core.programs import program_executor
from foretrace.sim.core.programs.running_breakdown import MOST
from foretrace.sim.errors import GraphError, NotKeptError, SimulationError
from foretrace.sim.facts.backend import Backend, Spread, Timing
from foretrace.sim.facts.coded import Coded
from foretrace.sim.facts.csr import Csr
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.op_rules import OpFilter, OpRule, apply_op_rules
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.spmd.program_encoding import chains_to_next, is_gate, next_op_position
from foretrace.sim.facts.spmd.spmd_graph import RankProgram, SpmdGraph
from foretrace.sim.facts.system import Component, System
from foretrace.sim.rerun.sensitivity import scale_components
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.spmd.rank_quotient import fold_identical_ranks
from hypothesis import given
from hypothesis import strategies as st

TICK = 1e-12
FEW = [0, 0, 1, 2, 3, 3, 7]  # ticks: so few values that everything ties
SEEDS = st.integers(0, 2**32 - 1)


class Given(Backend):
    """Backend with recorded durations times a factor; messages and collectives by members."""

    uniform = True

    def __init__(self, factor=1, spread=None):
        self.factor, self.spread, self.source = factor, spread, f"given x {factor}"

    def timing(self, ops, now=0.0):
        members = ops.at.members
        far = np.bincount(members.owner, members.values % 3, len(ops))
        alone = np.nan_to_num(ops.duration) * self.factor
        return Timing.of(alone + far * TICK, spread=self.spread)


class Same(Given):
    """Backend whose messages and collectives are equally long for all members: few rank classes."""

    def timing(self, ops, now=0.0):
        return Timing.of(np.nan_to_num(ops.duration) * self.factor, spread=self.spread)


def random_program(
    rng, streams: int, families: list[int], calls: list[int], peers: str
) -> RankProgram:
    """Random ops in dependency order, with as many collectives as their groups need."""
    kinds, family = [], []
    todo = [(Kind.COLLECTIVE, f) for f, n in zip(families, calls, strict=True) for _ in range(n)]
    todo += [(Kind.SEND if letter == "s" else Kind.RECV, 0) for letter in peers]
    own = (Kind.COMPUTE, Kind.COMPUTE, Kind.HOST, Kind.COPY, Kind.DELAY)
    local = [(own[k], -1) for k in rng.integers(0, len(own), int(rng.integers(1, 6)))]
    steps = int(rng.integers(1, 4))
    order = todo[:]
    for item in local:
        order.insert(int(rng.integers(0, len(order) + 1)), item)
    for kind, f in order:
        kinds.append(int(kind))
        family.append(f)
    n = len(kinds)
    pairs = {(i, i + 1) for i in range(n - 1) if rng.random() < 0.8}
    pairs |= {tuple(sorted((int(a), int(b)))) for a, b in rng.integers(0, n, (n // 2, 2)) if a != b}
    pairs = sorted(pairs)
    successors = Csr.from_pairs([a for a, _ in pairs], [b for _, b in pairs], n)
    ops = Ops.of(kind=np.array(kinds), stream=rng.integers(0, streams, n),
                 period=np.sort(rng.integers(0, steps, n)),
                 duration=rng.choice(FEW, n) * TICK)  # fmt: skip
    return RankProgram(ops, successors, np.array(family, np.int16))


def random_template(seed: int) -> SpmdGraph:
    """Random grid of ranks: pairs along one axis, complete columns along the other."""
    rng = np.random.default_rng(seed)
    width, height = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    ranks = width * height
    r = np.arange(ranks)
    groups = np.array([r // width, r % width], np.int32)
    calls = rng.integers(0, 4, 2).tolist()
    chain = bool(rng.integers(0, 2))
    peers = np.array([np.where(r % width < width - 1, r + 1, -1)], np.int32)
    kinds = int(rng.integers(1, 3)) if not chain else width
    # The order of a rank's collectives is that of all others: families never cross.
    made = []
    for k in range(kinds):
        letters = ""
        if chain:
            letters = ("" if k == 0 else "r") + ("" if k == width - 1 else "s")
        made.append(random_program(rng, 2, [0, 1], calls, letters))
    program = (r % width) % kinds if chain else rng.integers(0, kinds, ranks)
    return SpmdGraph(tuple(made), program.astype(np.int32), groups, peers)


def machine(
    ranks: int, slots: int | None, slow: int | None = None, spread=None, given=Given
) -> Simulation:
    """One GPU per rank, one host per two ranks; one GPU may be slower."""
    parts, components = {}, []
    for r in range(ranks):
        parts[f"gpu{r}"] = {"host": f"host{r // 2}", "dma": f"dma{r}"}
        components += [Component(f"gpu{r}", "gpu", slots=slots), Component(f"dma{r}", "dma")]
    components += [Component(f"host{k}", "host", slots=slots and 2 * slots)
                   for k in range((ranks + 1) // 2)]  # fmt: skip
    gpus = tuple(f"gpu{r}" for r in range(ranks))
    system = System((*components, Component("net", "fabric")), gpus, parts, fabric="net")
    backends = {"*": given(spread=spread)}
    if slow is not None:
        backends[f"gpu{slow}"] = given(3, spread)
    return Simulation(system, backends, seed=7)


def graph_of(template: SpmdGraph, streams=None) -> Graph:
    return Graph("t", (template,), streams=streams or {})


def outcome(simulation: Simulation, graph: Graph, **how):
    try:
        return simulation.run(graph, **how)
    except SimulationError as error:
        return error.kind, error.ops, error.open_ops


def same_numbers(a, b) -> None:
    """Assert that all aggregates of two results are equal, to the tick."""
    assert a.makespan_ticks == b.makespan_ticks
    for name in ("steps", "start", "end", "busy"):
        np.testing.assert_array_equal(getattr(a.kept, name), getattr(b.kept, name), err_msg=name)
    assert a.kept.edges.tolist() == b.kept.edges.tolist()
    assert a.sources == b.sources
    assert a.busy_by_kind == pytest.approx(b.busy_by_kind, rel=1e-12)  # work: sums of floats
    known = a.utilization(), b.utilization()  # of several streams, only where rows or windows are
    for name in known[0].keys() & known[1].keys():
        assert known[0][name] == pytest.approx(known[1][name])
    assert all(abs(difference.change) < 1e-12 for difference in a.compare(b).values())
    assert exposed_communication_seconds(a).tolist() == exposed_communication_seconds(b).tolist()
    if b.keep != "none":
        found, want = activity(b), activity(a)
        assert {k: v.tolist() for k, v in found.items()} == {k: v.tolist() for k, v in want.items()}


@given(SEEDS, st.sampled_from([None, None, 1, 2, 5]), st.sampled_from(["ranks", "none"]),
       st.booleans(), st.booleans())  # fmt: skip
def test_a_template_equals_its_expansion(seed, slots, keep, straggles, on_streams):
    template = random_template(seed)
    slow = seed % template.ranks if straggles else None
    simulation = machine(template.ranks, slots, slow, given=(Given, Same)[seed % 2])
    kinds = ["compute", "host", "copy", "network"]
    streams = {
        (r, s): kinds[(seed + r // 2 + s) % 4] for r in range(template.ranks) for s in (0, 1)
    }
    graph = graph_of(template, streams if on_streams else None)
    written = outcome(simulation, graph, keep="ops")
    found = outcome(simulation, graph, keep=keep)
    if isinstance(written, tuple):
        assert found == written
        return
    assert found.keep == keep
    same_numbers(written, found)
    reference = outcome(replace(simulation, engine="reference"), graph, keep=keep)
    same_numbers(reference, found)


@given(SEEDS, st.integers(0, 9), st.sampled_from([0, 1, 4]), st.sampled_from([0, 1, 4]))
def test_replicas_of_a_template_equal_those_of_its_expansion(seed, replica, of_step, of_op):
    start = np.array([0.8, 1.2])[: seed % 3]
    spread = Spread(
        np.array([0.5, 0.9, 1, 1.3])[:of_step], np.array([0.4, 1, 1.1, 2])[:of_op], start
    )
    template = random_template(seed)
    programs = tuple(
        replace(p, ops=p.ops.replace(duration=p.ops.duration * 1_000_003))
        for p in template.programs
    )
    graph = graph_of(replace(template, programs=programs))
    simulation = machine(template.ranks, None, spread=spread, given=(Given, Same)[seed % 2])
    written = outcome(simulation, graph, keep="ops", replica=replica)
    found = outcome(simulation, graph, keep="ranks", replica=replica)
    if isinstance(written, tuple):
        assert found == written
    else:
        same_numbers(written, found)


@pytest.mark.parametrize("columns", [1, 2])
def test_blocks_whose_ranks_wait_for_each_other_are_split(columns, monkeypatch):
    """A block runs until one rank waits for a later message of another; then each rank runs alone.

    With two columns, the middle ranks also meet in pairs across the groups.
    """
    apart = []
    plain = program_executor._split_into_single_ranks
    monkeypatch.setattr(
        program_executor, "_split_into_single_ranks", lambda *a: apart.append(1) or plain(*a)
    )
    hears, works, sends, meets = Kind.RECV, Kind.COMPUTE, Kind.SEND, Kind.COLLECTIVE
    pairs = [(meets, 1)] * (columns > 1)
    written = [
        [(works, -1), (sends, 0)],
        [(meets, 0), *pairs, (hears, 0), (works, -1), (sends, 0), *pairs, (meets, 0), (meets, 0)],
        [(hears, 0), (works, -1)],
    ]
    made = tuple(
        RankProgram.chain(
            Ops.of(kind=[k for k, _ in rows], duration=TICK * np.arange(1, len(rows) + 1) * 10**6),
            family=[f for _, f in rows],
        )
        for rows in written
    )
    row, column = np.divmod(np.arange(5 * columns), columns)
    middle = (row > 0) & (row < 4)
    template = SpmdGraph(
        made,
        np.where(row == 0, 0, np.where(middle, 1, 2)).astype(np.int32),
        np.array([np.where(middle, column, columns + np.arange(len(row))), row], np.int32),
        np.array([np.where(row < 4, np.arange(len(row)) + columns, -1)], np.int32),
    )
    spread = Spread(np.empty(0), np.array([0.5, 1.5]), np.empty(0))
    simulation = machine(len(row), None, spread=spread, given=Same)
    graph = graph_of(template)
    found = simulation.run(graph, keep="ranks", replica=1)
    same_numbers(simulation.run(graph, keep="ops", replica=1), found)
    assert apart == [1]


def ran_as_template(caplog, simulation, graph, **how):
    with caplog.at_level(logging.INFO, "foretrace.sim.run.single_graph"):
        result = simulation.run(graph, keep="ranks", **how)
    return result, "as an SPMD graph" in caplog.text


def step(ranks: int, iterations: int = 1) -> SpmdGraph:
    """SPMD graph with a compute op and a collective of all ranks in each iteration."""
    n = 2 * iterations
    ops = Ops.of(kind=[Kind.COMPUTE, Kind.COLLECTIVE] * iterations,
                 duration=[5 * TICK, 2 * TICK] * iterations,
                 period=np.arange(n) // 2)  # fmt: skip
    program = RankProgram.chain(ops, family=[-1, 0] * iterations)
    return SpmdGraph((program,), np.zeros(ranks, np.int32), np.zeros((1, ranks), np.int32))


def test_most_random_templates_run_as_templates_and_many_fold(caplog):
    with caplog.at_level(logging.INFO, "foretrace.sim.run.single_graph"):
        for seed in range(100):
            template = random_template(seed)
            outcome(machine(template.ranks, None), graph_of(template), keep="ranks")
    ran = re.findall(r"as an SPMD graph, (\d+) of (\d+) ranks run", caplog.text)
    assert len(ran) > 60
    assert sum(run != ranks for run, ranks in ran) > 15


def test_one_rank_of_a_class_runs_and_all_get_its_times(caplog):
    result, as_template = ran_as_template(caplog, machine(6, 1), graph_of(step(6, 2)))
    assert as_template
    assert "2 of 6 ranks" not in caplog.text
    assert result.kept.end.shape == (2, 6)
    assert (result.kept.end == result.kept.end[:, :1]).all()


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("Given does not declare which components have equal timings", {"uniform": False}),
        ("Given times its ops only during the run", {"online": True}),
    ],
)
def test_without_a_uniform_backend_the_graph_is_written_out_and_logged(caplog, reason, change):
    simulation = machine(4, None)
    for name, value in change.items():
        setattr(simulation.backends["*"], name, value)
    result, as_template = ran_as_template(caplog, simulation, graph_of(step(4)))
    assert not as_template
    assert f"expanded, since {reason}" in caplog.text
    assert result.makespan_ticks == 7 + far_of(simulation, 0, 1, 2, 3)


def test_a_process_has_the_template_written_out(caplog):
    def watch(sim):
        yield sim.wait(TICK)

    with caplog.at_level(logging.INFO, "foretrace.sim.run.session"):
        result = machine(4, None).run(graph_of(step(4)), watch, keep="ranks")
    assert "expanded, since processes steer the run" in caplog.text
    with pytest.raises(NotKeptError, match="processes steered it; run it with keep='ops'"):
        result.frame()


def test_ops_that_want_more_slots_than_there_are_are_written_out(caplog):
    ops = Ops.of(kind=[Kind.COMPUTE] * 3, duration=[5 * TICK, 3 * TICK, 1 * TICK])
    loose = RankProgram(ops, Csr.empty(3), np.full(3, -1, np.int16))
    template = SpmdGraph((loose,), np.zeros(2, np.int32))
    result, as_template = ran_as_template(caplog, machine(2, 2), graph_of(template))
    assert not as_template
    assert "3 ops may need the 2 slots of gpu0 at once" in caplog.text
    assert result.makespan_ticks == 5
    assert ran_as_template(caplog, machine(2, 3), graph_of(template))[1]


@pytest.mark.parametrize("rule", [{"time": 50 * TICK}, {"scale": 3.0}])
def test_rules_that_change_op_times_apply_to_expanded_graphs(caplog, rule):
    """They used to be ignored if the graph ran without expansion."""
    plain = machine(4, None).run(graph_of(step(4)), keep="ranks")
    graph, _ = apply_op_rules(graph_of(step(4)), [OpRule(OpFilter(kind="compute"), **rule)])
    result, as_template = ran_as_template(caplog, machine(4, None), graph)
    assert not as_template
    assert "expanded, since rules override the times of some ops" in caplog.text
    assert result.makespan_ticks > plain.makespan_ticks
    written = replace(graph, blocks=(graph.explicit,))
    same_numbers(machine(4, None).run(written, keep="ops"), result)


def test_ops_after_received_messages_form_one_chain(caplog):
    """Each step of a ring receives, computes and sends on, so no compute ops overlap."""
    one, steps = [Kind.RECV, Kind.COMPUTE, Kind.SEND], 6
    kinds = [Kind.SEND, *(one * steps)][:-1]
    pairs = [(0, 1)]
    for heard in range(1, len(kinds), 3):
        pairs += [
            (heard, heard + 1),
            (heard, heard + 2),
            (heard + 1, heard + 3),
            (heard + 2, heard + 3),
        ]
    pairs = np.array([(a, b) for a, b in pairs if b < len(kinds)])
    ops = Ops.of(kind=kinds, stream=np.where(np.array(kinds) == Kind.SEND, 1, 0),
                 duration=[3 * TICK] * len(kinds))  # fmt: skip
    ring = RankProgram(ops, Csr.from_pairs(pairs[:, 0], pairs[:, 1], len(kinds)),
                       np.where(ops.kind == Kind.COMPUTE, -1, 0).astype(np.int16))  # fmt: skip
    peers = np.array([[1, 2, 3, 0]], np.int32)
    template = SpmdGraph((ring,), np.zeros(4, np.int32), peers=peers)
    result, as_template = ran_as_template(caplog, machine(4, 1), graph_of(template))
    assert as_template
    same_numbers(machine(4, 1).run(graph_of(template), keep="ops"), result)


def test_an_altered_machine_still_runs_the_template(caplog):
    simulation = machine(4, 1)
    quick = scale_components(simulation, [simulation.system.number("gpu1")], 5.0)
    result, as_template = ran_as_template(caplog, quick, graph_of(step(4)))
    assert as_template
    same_numbers(quick.run(graph_of(step(4)), keep="ops"), result)


def test_ranks_that_wait_for_each_other_are_named_by_the_written_run():
    one = RankProgram.chain(Ops.of(kind=[Kind.COLLECTIVE] * 2, duration=TICK), family=[0, 1])
    other = RankProgram.chain(Ops.of(kind=[Kind.COLLECTIVE] * 2, duration=TICK), family=[1, 0])
    groups = np.zeros((2, 2), np.int32)
    template = SpmdGraph((one, other), np.array([0, 1], np.int32), groups)
    graph = graph_of(template)
    with pytest.raises(GraphError, match="cycle"):
        machine(2, None).run(graph, keep="ranks")


def test_a_time_beyond_the_range_is_named_by_the_written_run():
    ops = Ops.of(kind=[Kind.COMPUTE] * 2, duration=[9e6, 9e6])
    template = SpmdGraph((RankProgram.chain(ops),), np.zeros(2, np.int32))
    with pytest.raises(SimulationError, match="time overflow: op 1"):
        machine(2, None).run(graph_of(template), keep="ranks")


def test_analyses_of_op_rows_rerun_one_rank_of_each_class(caplog):
    template = random_template(4)
    simulation, graph = machine(template.ranks, None), graph_of(step(6, 2))
    simulation = machine(6, 1)
    written = simulation.run(graph, keep="ops")
    with caplog.at_level(logging.INFO, "foretrace.sim.run.result"):
        result = simulation.run(graph, keep="ranks")
        blame = result.blame()
    assert "running again" in caplog.text
    assert sum(blame.ticks.values()) == written.makespan_ticks
    frame = result.frame()
    every = written.frame()
    assert len(frame) == 4  # one rank's compute ops, and the collectives
    kept = every[every["rank"].isin(frame["rank"])].reset_index(drop=True)
    columns = ["kind", "rank", "period", "component", "ready_us", "start_us", "end_us"]
    assert frame[columns].equals(kept[columns])


def test_a_draw_cannot_be_shown_op_by_op_later():
    spread = Spread(np.array([0.9, 1.1]), np.empty(0))
    result = machine(4, None, spread=spread).run(graph_of(step(4)), keep="ranks", replica=1)
    with pytest.raises(NotKeptError, match="every rank has its own random durations; run it with"):
        result.critical_path()


def test_metrics_of_a_template_are_those_of_its_expansion():
    simulation, graph = machine(6, 1), graph_of(step(6, 3))
    want, found = (measure(simulation.run(graph, keep=k), 1) for k in ("ops", "ranks"))
    for name, samples in found.items():
        assert samples.tolist() == want[name].tolist(), name
    left_out = want.keys() - found.keys()
    assert all(name.endswith(("utilization", "occupancy")) for name in left_out)


def test_many_overlapping_ops_get_their_breakdown_after_the_run(caplog):
    """The last op has no dependencies, so no time can be summed before the end."""
    n = 2 * MOST + 20
    ops = Ops.of(kind=[Kind.DELAY, Kind.COMPUTE] * (n // 2) + [Kind.HOST],
                 duration=[*([2 * TICK, 3 * TICK] * (n // 2)), 7 * TICK])  # fmt: skip
    beside = RankProgram(ops, Csr.from_pairs(np.arange(n - 1), np.arange(1, n), n + 1),
                         np.full(n + 1, -1, np.int16))  # fmt: skip
    graph = graph_of(SpmdGraph((beside,), np.zeros(2, np.int32)))
    result, as_template = ran_as_template(caplog, machine(2, None), graph)
    assert as_template
    same_numbers(machine(2, None).run(graph, keep="ops"), result)
    assert result.kept.boxes[:, 1, 0].tolist() == [n // 2 * 3, 0, 0, 0, 0, 4, n - 4]


def test_gates_and_runs_of_consecutive_ops_are_encoded():
    kinds = [Kind.COMPUTE] * 3 + [Kind.SEND, Kind.COMPUTE, Kind.HOST]
    pairs = np.array([(0, 1), (1, 2), (2, 3), (2, 4), (4, 5), (3, 5)])
    program = RankProgram(Ops.of(kind=kinds), Csr.from_pairs(pairs[:, 0], pairs[:, 1], 6),
                          np.array([-1, -1, -1, 0, -1, -1], np.int16))  # fmt: skip
    words, at, found = program.encoded.words, 0, []
    for _ in kinds:
        found.append((int(is_gate(words, at)), int(chains_to_next(words, at))))
        at = int(next_op_position(words, at))
    assert found == [(1, 1), (1, 1), (1, 0), (0, 0), (1, 0), (1, 0)]


def test_a_straggler_and_its_partners_are_not_folded():
    work = Ops.of(kind=[Kind.COMPUTE, Kind.COLLECTIVE])
    programs = tuple(RankProgram.chain(work, family=[-1, 0]) for _ in range(2))
    who = np.zeros(64, np.int32)
    who[9] = 1
    template = SpmdGraph(programs, who, np.arange(64, dtype=np.int32)[None] // 8)
    folded = fold_identical_ranks(template)
    assert folded.template.ranks == 3  # the straggler, its seven partners, all others
    assert folded.first.tolist() == [0, 8, 9]


def test_groups_whose_first_members_differ_are_not_the_same():
    """The first member determines the duration of a collective, so group (a, b) is not (b, a)."""
    programs = tuple(
        RankProgram.chain(Ops.of(kind=[Kind.COLLECTIVE], duration=d * TICK), family=[0])
        for d in (3, 8)
    )
    template = SpmdGraph(programs, np.array([0, 1, 1, 0], np.int32), np.array([[0, 0, 1, 1]]))
    assert fold_identical_ranks(template).template.ranks == 4
    simulation = machine(4, None)
    a, b = (simulation.run(graph_of(template), keep=k) for k in ("ops", "ranks"))
    same_numbers(a, b)
    assert (
        a.kept.end[0].tolist()
        == [3 + far_of(simulation, 0, 1)] * 2 + [8 + far_of(simulation, 2, 3)] * 2
    )


def far_of(simulation: Simulation, *ranks: int) -> int:
    return sum(simulation.system.number(f"gpu{r}") % 3 for r in ranks)


def test_a_message_without_a_sender_is_refused():
    hears = RankProgram.chain(Ops.of(kind=[Kind.RECV]), family=[0])
    template = SpmdGraph((hears,), np.zeros(1, np.int32), peers=np.full((1, 1), -1, np.int32))
    with pytest.raises(GraphError, match="rank 0 receives messages of peer family 0, but no"):
        template.expand()


def test_members_that_call_different_numbers_of_collectives_are_refused():
    one = RankProgram.chain(Ops.of(kind=[Kind.COLLECTIVE]), family=[0])
    two = RankProgram.chain(Ops.of(kind=[Kind.COLLECTIVE] * 2), family=[0, 0])
    template = SpmdGraph((one, two), np.array([0, 1]), np.zeros((1, 2), np.int32))
    with pytest.raises(GraphError, match="rank 0 runs 1 collectives of family 0, others of its"):
        template.expand()


def test_a_dependency_on_a_later_row_is_refused():
    with pytest.raises(GraphError, match="row 0 of a program waits for row 1"):
        RankProgram(Ops.of(rank=[0, 0]), Csr.of([[], [0]]), np.full(2, -1, np.int16))


class OfSeveralSources(Given):
    """Backend whose timings have one source for short ops and another for long ones."""

    def timing(self, ops, now=0.0):
        told = super().timing(ops, now)
        return replace(
            told, source=Coded.of(["long" if t > 2 * TICK else "short" for t in told.fixed])
        )


@given(SEEDS)
def test_a_backend_of_several_sources_is_run_as_a_template(seed):
    template = random_template(seed)
    graph = Graph("mixed", (template,))
    gpus = tuple(Component(f"g{r}", "gpu") for r in range(template.ranks))
    system = System((*gpus, Component("f", "fabric")), tuple(g.name for g in gpus), fabric="f")
    simulation = Simulation(system, {"*": OfSeveralSources(), "f": Given()})
    as_template, written = (simulation.run(graph, keep=keep) for keep in ("ranks", "ops"))
    assert as_template.keep == "ranks"
    told = {s: t for s, t in as_template.sources.items() if t}
    assert told == {s: t for s, t in written.sources.items() if t}
