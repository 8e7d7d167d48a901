"""The compiled loop means the same if its tables are so small that it often needs room."""

from typing import NamedTuple

import numpy as np
import pytest
from foretrace.sim.core.policies import desk_filling, desk_mail, lent_stores, policy_driver
from foretrace.sim.core.policies.policy_driver import PolicyLoop
from foretrace.sim.kernel import policy, policy_store
from foretrace.sim.kernel.jit import LINKED
from foretrace.sim.run.policies.compiled_process import CompiledProcess
from foretrace.sim.run.simulation import Simulation
from policy_scripts.random_programs import SYSTEM, calm_program, first_difference, outcome

pytestmark = pytest.mark.skipif(not LINKED, reason="kernels are not linked: Python calls them")

SEEDS = 10
SIZES = [
    (desk_filling, "SAMPLES_AT_ONCE"),
    (desk_filling, "NOTES_AT_ONCE"),
    (desk_mail, "LETTERS_AT_ONCE"),
    (lent_stores, "SAMPLES_AT_ONCE"),
]


@pytest.fixture(params=[1, 3])
def requests(request, monkeypatch):
    """Number of times that the loop asked for room, with tables of so few rows."""
    made, make_room = [], PolicyLoop._make_room

    def note(loop):
        made.append(loop)
        make_room(loop)

    for module, name in SIZES:
        monkeypatch.setattr(module, name, request.param)
    monkeypatch.setattr(PolicyLoop, "_make_room", note)
    monkeypatch.setattr(policy_driver, "DULL", -(10**9))  # however few calls a loop makes
    return made


def test_programs_equal_generators(requests):
    found = []
    for seed in range(SEEDS):
        program, replica = calm_program(seed), None if seed % 3 else 0
        meant = outcome(program, "reference", "twin", replica)
        what = first_difference(meant, outcome(program, "core", "compiled", replica))
        if what:
            found.append(f"calm_program({seed}): {what}")
    assert found == []
    assert len(requests) > 20 * SEEDS


class Left(NamedTuple):
    """Number of calls left."""

    calls: np.ndarray


@policy.policy_kernel
def holds_and_releases(state, event, turn):
    """Change what is held of two stores in each turn, but the first; write no other row."""
    state.calls[0] -= 1
    left = state.calls[0]
    for part in range(1 if event[policy.KIND] == policy.START else 2):
        if left % 2:
            policy_store.hold(turn, part, 1, 2)
        elif policy_store.owners(turn, part, 1) > 0:
            policy_store.release(turn, part, 1)
    policy.after(turn, 5, 0)
    return policy.GO_ON if left else policy.DONE


@pytest.mark.parametrize("where", [desk_filling, lent_stores])
def test_stores_that_settle_lose_no_sample_and_no_change(where, monkeypatch):
    monkeypatch.setattr(where, "SAMPLES_AT_ONCE", 1)
    monkeypatch.setattr(policy_driver, "DULL", -(10**9))

    def left_by(engine):
        made = CompiledProcess(
            holds_and_releases, Left(np.array([60])), parts=["node0.cache", "node0.pages"]
        )
        result = Simulation(SYSTEM, {}, engine, 1e-9).run(None, made)
        samples = {name: one.samples.tolist() for name, one in result.stores.items()}
        return samples, result.acquired.changes.tolist()

    found = left_by("core")
    assert found == left_by("reference")
    assert len(found[1]) > 100
