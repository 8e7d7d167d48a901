"""Rules that change ops selected by name, and the effect on a run."""

import numpy as np
import pytest
from foretrace.sim.errors import BackendError, GraphError
from foretrace.sim.facts.backend import Backend, Spread, Timing
from foretrace.sim.facts.graph import Builder, Label, Member
from foretrace.sim.facts.op_rules import OpFilter, OpRule, apply_op_rules, matching_rows
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

ENGINES = pytest.mark.parametrize("engine", ["reference", "core"])
SYSTEM = System(
    (
        Component("node0.gpu0", "gpu", slots=4),
        Component("node0.gpu1", "gpu", slots=4),
        Component("fabric", "fabric"),
    ),
    ("node0.gpu0", "node0.gpu1"),
    fabric="fabric",
)


class Recorded(Backend):
    """Backend whose ops take their recorded duration; it refuses ops without one."""

    source = "the test"

    def __init__(self, online=False, spread=None):
        self.online, self.spread = online, spread

    def timing(self, ops, now=0.0):
        if np.isnan(ops.duration).any():
            raise BackendError("an op without a duration")
        return Timing.of(ops.duration, spread=self.spread)


def run(graph, engine="core", **how):
    replica = how.pop("replica", None)
    return Simulation(SYSTEM, {"*": Recorded(**how)}, engine).run(graph, replica=replica)


def step():
    """Graph on two ranks: load, forward, an all-reduce of both, the optimizer."""
    build = Builder("step")
    ends = []
    for rank in range(2):
        load = build.op(Kind.HOST, rank=rank, name=f"DataLoader worker {rank}", duration=4.0)
        how = {"rank": rank, "stream": 7}
        mm = build.op(
            Kind.COMPUTE, **how, duration=2.0 + rank, after=[load], signature="compute:mm(f32[8])",
            label=Label("aten::mm", "block.0.mlp", "model.py:12"),
        )  # fmt: skip
        ends.append(mm)
    members = [Member(rank, 7, (ends[rank],)) for rank in range(2)]
    both = build.collective(members, name="all-reduce", duration=5.0)
    for rank in range(2):
        name = Label("aten::add", f"optim.{rank}", "optim.py:3")
        build.op(Kind.COMPUTE, rank=rank, stream=7, duration=1.0, after=[both], label=name)
        build.set_stream_kind(rank, 7, "compute")
    return build.graph()


@ENGINES
@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize(
    ("rule", "makespan"),
    [
        (None, 4 + 3 + 5 + 1),
        (OpRule(OpFilter(name="DataLoader*"), time=0.0), 3 + 5 + 1),
        (OpRule(OpFilter(name="DataLoader*"), time=6.0), 6 + 3 + 5 + 1),
        (OpRule(OpFilter(name="DataLoader*"), remove=True), 3 + 5 + 1),
        (OpRule(OpFilter(signature="compute:mm*"), scale=2.0), 4 + 6 + 5 + 1),
        (OpRule(OpFilter(kind="compute", module="block*"), scale=0.5), 4 + 1.5 + 5 + 1),
        (OpRule(OpFilter(source="optim.py:*"), scale=3.0), 4 + 3 + 5 + 3),
        (OpRule(OpFilter(kind="collective"), time=1.0), 4 + 3 + 1 + 1),
        (OpRule(OpFilter(kind="collective"), remove=True), 4 + 3 + 1),
    ],
)
def test_a_rule_changes_the_ops_that_it_names(engine, online, rule, makespan):
    graph = step() if rule is None else apply_op_rules(step(), [rule])[0]
    assert run(graph, engine, online=online).makespan == makespan


def test_removing_a_collective_removes_the_wait_between_ranks():
    graph, _ = apply_op_rules(step(), [OpRule(OpFilter(name="all-reduce"), remove=True)])
    assert run(graph).end.tolist() == [4.0, 6.0, 4.0, 7.0, 6.0, 7.0, 8.0]


def test_chains_of_removed_collectives_keep_the_order_within_each_rank():
    build = Builder("chain")
    first = [build.op(Kind.COMPUTE, rank=r, duration=1.0 + r) for r in range(2)]
    one = build.collective([Member(r, 0, (first[r],)) for r in range(2)], name="a", duration=9.0)
    two = build.collective([Member(r, 0, (one,)) for r in range(2)], name="b", duration=9.0)
    last = [build.op(Kind.COMPUTE, rank=r, duration=1.0, after=[two]) for r in range(2)]
    graph, effects = apply_op_rules(
        build.graph(), [OpRule(OpFilter(kind="collective"), remove=True)]
    )
    assert run(graph).end[last].tolist() == [2.0, 3.0]
    assert effects[0].ops == 2


def test_an_op_on_another_stream_waits_for_the_predecessors_of_a_removed_collective():
    build = Builder("outside")
    own = [build.op(Kind.COMPUTE, rank=r, duration=1.0 + 2 * r) for r in range(2)]
    members = [Member(r, 0, (own[r],)) for r in range(2)]
    both = build.collective(members, name="sync", duration=9.0, release=3.5)
    build.op(Kind.DELAY, rank=0, duration=0.0, after=[both])
    seen = build.op(Kind.COMPUTE, rank=1, duration=1.0, after=[both])
    graph, _ = apply_op_rules(build.graph(), [OpRule(OpFilter(name="sync"), remove=True)])
    assert run(graph).end[seen] == 4.5  # its rank's part, and the time at which it was released


def test_removing_ops_keeps_the_draws_of_the_others():
    spread = Spread(np.array([0.5, 1.5]), np.array([0.5, 1.0, 2.0]))
    whole = run(step(), spread=spread, replica=4)
    graph, _ = apply_op_rules(step(), [OpRule(OpFilter(name="DataLoader*"), remove=True)])
    less = run(graph, spread=spread, replica=4)
    took, left = whole.end - whole.start, less.end - less.start
    assert left[1::2].tolist() == pytest.approx(took[1::2].tolist())
    assert left[[0, 2]].tolist() == [0.0, 0.0]


def test_an_overridden_time_has_no_jitter_and_needs_no_backend():
    build = Builder("unknown")
    build.op(Kind.COMPUTE, name="flash", duration=np.nan)
    graph, effects = apply_op_rules(build.graph(), [OpRule(OpFilter(name="flash"), time=2.0)])
    assert run(graph, spread=Spread(np.array([3.0]), np.array([3.0])), replica=1).makespan == 2.0
    assert np.isnan(effects[0].share)


def test_rules_apply_in_order_and_removed_ops_stay_removed():
    load = OpFilter(name="DataLoader*")
    rules = [OpRule(load, time=2.0), OpRule(load, scale=3.0)]
    assert run(apply_op_rules(step(), rules)[0]).makespan == 6 + 3 + 5 + 1
    assert run(apply_op_rules(step(), [*rules, OpRule(load, remove=True)])[0]).makespan == 3 + 5 + 1


def test_effects_count_ops_and_their_share_of_the_recorded_time():
    _, (effect,) = apply_op_rules(step(), [OpRule(OpFilter(name="DataLoader*"), time=0.0)])
    assert effect.ops == 2
    assert effect.share == pytest.approx(8 / (8 + 5 + 5 + 2))


@ENGINES
def test_an_op_moved_to_another_stream_overlaps_its_successors(engine):
    build = Builder("overlap")
    a = build.op(Kind.COMPUTE, stream=7, duration=1.0, name="a")
    b = build.op(Kind.COMPUTE, stream=7, duration=5.0, name="b", after=[a])
    c = build.op(Kind.COMPUTE, stream=7, duration=2.0, name="c", after=[b])
    build.op(Kind.COMPUTE, stream=7, duration=1.0, name="d", after=[c])
    graph, _ = apply_op_rules(build.graph(), [OpRule(OpFilter(name="b"), stream=20)])
    assert run(graph, engine).end.tolist() == [1.0, 6.0, 3.0, 4.0]
    back, _ = apply_op_rules(graph, [OpRule(OpFilter(name="b"), stream=7)])
    assert run(back, engine).end.tolist() == [1.0, 6.0, 8.0, 9.0]


def test_a_kernel_of_communication_keeps_its_place_on_the_gpu_on_its_new_stream():
    graph, _ = apply_op_rules(step(), [OpRule(OpFilter(name="all-reduce"), stream=20)])
    assert {graph.streams[r, 20] for r in range(2)} == {"compute"}
    assert graph.explicit.stream[[4, 7]].tolist() == [20, 20]


@ENGINES
def test_an_op_moved_to_another_rank_runs_on_its_gpu(engine):
    build = Builder("two ranks")
    first = build.op(Kind.COMPUTE, rank=0, duration=1.0, name="mine")
    build.op(Kind.COMPUTE, rank=0, duration=1.0, name="expert", after=[first])
    build.op(Kind.COMPUTE, rank=1, duration=4.0, name="mine")
    graph, _ = apply_op_rules(build.graph(), [OpRule(OpFilter(name="expert"), rank=1)])
    result = run(graph, engine)
    assert result.frame()["component"].tolist() == ["node0.gpu0", "node0.gpu1", "node0.gpu1"]
    assert result.busy == {"node0.gpu0": 1.0, "node0.gpu1": 5.0}


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (
            OpFilter(name="DataLoder*"),
            r"no op has name 'DataLoder\*'; the nearest is 'DataLoader w",
        ),
        (OpFilter(module="mlp"), r"no op has module 'mlp'; the nearest is 'block\.0\.mlp'"),
        (OpFilter(kind="kernel"), "no op has kind 'kernel'; examples are"),
        (
            OpFilter(name="aten::mm", kind="host"),
            r"all keys together \(name matches 2 ops, kind matches 2 ops\)",
        ),
    ],
)
def test_a_pattern_without_a_match_names_the_nearest_text(where, message):
    with pytest.raises(GraphError, match=message):
        apply_op_rules(step(), [OpRule(where, time=0.0)])


def test_a_name_with_glob_characters_matches_only_itself():
    build = Builder("names")
    build.op(Kind.COMPUTE, name="mm[0]")
    build.op(Kind.COMPUTE, name="mm0")
    assert matching_rows(build.graph(), OpFilter(name="mm[0]")).tolist() == [0]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (OpRule(OpFilter(name="aten::mm"), rank=2), "there is no rank 2; ranks are 0 to 1"),
        (OpRule(OpFilter(kind="collective"), rank=0), "involves several ranks"),
    ],
)
def test_an_invalid_move_names_the_op(rule, message):
    with pytest.raises(GraphError, match=message):
        apply_op_rules(step(), [rule])
