"""The compiled engine equals the reference engine in everything that can be observed."""

import os
from itertools import product

import pytest
from by_day import every, tonight
from engine_scripts.comparison import compare
from engine_scripts.player import play
from engine_scripts.random_runs import random_outcome
from engine_scripts.random_scripts import KINDS, random_script
from engine_scripts.script import Script
from foretrace.sim.core.engine import CoreEngine
from foretrace.sim.engine_api.engine_literal import LiteralOp
from foretrace.sim.engine_api.interface import MAX_TICK
from foretrace.sim.reference.engine import ReferenceEngine

BLOCKS = 4  # of runs of one kind, so that a failure names few seeds
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
IN_CI = 20 if INTERPRETED else 100  # runs of a block
NIGHTLY = dict.fromkeys(KINDS, 100_000 // 6 + 1)  # runs of each kind
NIGHTLY |= {"capacity": 20_000, "edges": 20_000}
END_TO_END = 20_000  # runs with numbers and names at the edge


def alone(*cases):
    """Graph of single ops, each with an optional slot and its dependencies."""
    return tuple(LiteralOp(((slot, after),), **facts) for slot, after, facts in cases)


FULL = 1 << 40

# Scripts on which engines once differed, by what the wrong one did.
KEPT = {
    "a flow that joins hides one that ends": Script(
        (1, -1),
        (-1, 3),
        (
            alone(
                (-1, (), {"fixed": 1, "work": 1, "usage": ((1, FULL),)}),
                (-1, (), {"release": 1, "online": 2}),
                (-1, (), {"work": 1, "usage": ((1, FULL),)}),
                (-1, (2,), {"online": 2}),
            ),
        ),
    ),
    "the same, seen in the order of a queue": Script(
        (1, -1, -1),
        (-1, 1, 3),
        (
            alone(
                (-1, (), {"fixed": 3}),
                (-1, (0,), {"work": 4, "usage": ((2, FULL),)}),
                (0, (1,), {}),
                (-1, (), {"fixed": 3, "work": 1, "usage": ((2, FULL),), "release": 2}),
                (0, (), {"fixed": 1, "release": 5}),
            ),
        ),
    ),
    "a flow ends at the last tick of the range": Script(
        (-1,), (1,), (alone((-1, (), {"work": MAX_TICK, "usage": ((0, FULL),)})),)
    ),
    "a flow would end one tick later": Script(
        (-1,), (1,), (alone((-1, (), {"fixed": 1, "work": MAX_TICK, "usage": ((0, FULL),)})),)
    ),
    "an answer without usage keeps an unbounded flow": Script(
        (1, -1),
        (-1, 4),
        (alone((-1, (), {"fixed": 1, "online": 1})),),
        ((("stop", 0), ("resume", 0, False, None, ((1, FULL),))),),
    ),
}


def differences(kind: str, seeds: range) -> list[str]:
    """Differences between the engines, each with the seed that shows it."""
    found = []
    for seed in seeds:
        script = random_script(kind, seed)
        what = compare(play(ReferenceEngine, script), play(CoreEngine, script))
        if what:
            found.append(f"random_script({kind!r}, {seed}): reference and core: {what}")
    return found


@pytest.mark.parametrize("block", every(BLOCKS, range(BLOCKS)))
@pytest.mark.parametrize("kind", KINDS)
def test_core_equals_reference(kind, block):
    seeds = range(block * IN_CI, (block + 1) * IN_CI)
    print(f"{kind}: seeds {seeds}")
    assert differences(kind, seeds) == []


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_core_equals_reference_all_night(kind):
    seeds = tonight(range(1000, 1000 + NIGHTLY[kind]))
    print(f"{kind}: seeds {seeds}")
    assert differences(kind, seeds) == []


@pytest.mark.parametrize("block", every(BLOCKS, range(BLOCKS)))
def test_core_equals_reference_from_end_to_end_whatever_backends_answer(block):
    seeds = range(block * IN_CI, (block + 1) * IN_CI)
    assert [s for s in seeds if random_outcome(s, "reference") != random_outcome(s, "core")] == []


@pytest.mark.parametrize("block", every(BLOCKS, range(BLOCKS)))
def test_core_equals_reference_from_end_to_end_where_queues_turn_ops_away(block):
    seeds = range(block * IN_CI, (block + 1) * IN_CI)
    pairs = [[random_outcome(s, engine, True) for engine in ("reference", "core")] for s in seeds]
    assert [s for s, (one, other) in zip(seeds, pairs, strict=True) if one != other] == []
    used = [one[1] for one, _ in pairs if isinstance(one[1], dict) and one[1]]
    assert len(used) > IN_CI // 10


@pytest.mark.parametrize("seed", [15829, 15978, 24116])
def test_a_folded_graph_that_is_refused_names_the_row_of_the_graph(seed):
    assert random_outcome(seed, "reference") == random_outcome(seed, "core")


@pytest.mark.nightly
def test_core_equals_reference_from_end_to_end_all_night():
    seeds = tonight(range(1000, 1000 + END_TO_END))
    assert [s for s in seeds if random_outcome(s, "reference") != random_outcome(s, "core")] == []


@pytest.mark.parametrize("name", KEPT)
def test_past_differences_between_engines_stay_fixed(name):
    script = KEPT[name]
    assert compare(play(ReferenceEngine, script), play(CoreEngine, script)) == ""


def test_the_scripts_reach_every_outcome():
    wanted = {
        "done",
        "lost",
        "time overflow",
        "starvation",
        "deadlock",
        "cycle",
        "action",
        "weight",
    }
    for seed, kind in product(range(150), KINDS):
        error = play(ReferenceEngine, random_script(kind, seed)).error
        wanted -= {error[1] if error else "done"}
        if not wanted:
            break
    assert not wanted


def test_the_runs_reach_every_outcome():
    kinds = {random_outcome(seed, "reference")[0] for seed in range(60)}
    errors = {"BackendError", "GraphError", "SimulationError", "ValueError"}
    assert errors < kinds  # and times, where all went well


def test_a_wrong_engine_is_detected():
    class Unfair(ReferenceEngine):
        def _grant_slots(self, component):
            self.at[component].queue.reverse()
            moved = super()._grant_slots(component)
            self.at[component].queue.reverse()
            return moved

    script = Script((1,), (-1,), (tuple([LiteralOp(((0, ()),), fixed=3)] * 3),))
    assert compare(play(ReferenceEngine, script), play(Unfair, script)) == (
        "start of op 0: 0 and 6"
    )
