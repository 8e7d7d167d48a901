"""A compiled process equals the generators that play the same script, on both engines."""

import os

import pytest
from by_day import every, tonight
from foretrace.sim.kernel import policy_rows as rows
from foretrace.sim.run.simulation import Simulation
from policy_scripts import script as verbs
from policy_scripts.machine import Ticks
from policy_scripts.player_kernel import compiled
from policy_scripts.random_programs import (
    SYSTEM,
    Program,
    first_difference,
    outcome,
    random_program,
)
from policy_scripts.script import PolicyScript, Step

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
BLOCKS, IN_CI = 4, 15 if INTERPRETED else 50
NIGHTLY = 20_000
WAYS = [("reference", "compiled"), ("core", "twin"), ("core", "compiled"), ("core", "mixed")]


def differences(seeds):
    """Differences from plain generators on the reference engine, each with its seed."""
    found = []
    for seed in seeds:
        program = random_program(seed)
        meant = outcome(program, "reference", "twin")
        for engine, how in WAYS:
            what = first_difference(meant, outcome(program, engine, how))
            if what:
                found.append(f"random_program({seed}), {how} on {engine}: {what}")
    return found


@pytest.mark.parametrize("block", every(BLOCKS, range(BLOCKS)))
def test_kernels_equal_generators(block):
    seeds = range(block * IN_CI, (block + 1) * IN_CI)
    print(f"seeds {seeds}")
    assert differences(seeds) == []


def test_what_a_refused_call_did_to_a_store_stays():
    assert differences([8573]) == []  # a process acts between the unknown code and the end


@pytest.mark.nightly
def test_kernels_equal_generators_all_night():
    seeds = tonight(range(1000, 1000 + NIGHTLY))
    print(f"seeds {seeds}")
    assert differences(seeds) == []


def test_the_programs_reach_every_event_and_error():
    events = set(range(8))
    errors = {None, "policy", "action", "deadlock", "starvation", "lost"}
    for seed in range(400):
        log, _, error, _ = outcome(random_program(seed), "reference", "twin")
        said = [value for name, _, value in log if name == "event"]
        events -= set(said[::5])
        errors.discard(error and error[1])
        if not events and not errors:
            break
    assert (events, errors) == (set(), set())


AT_ONCE = Step(((verbs.AFTER, 2, 1, 0, 0), (verbs.SEND, 1, 4, 5, 6), (verbs.AFTER, 2, 2, 0, 0)))
MANY = PolicyScript("many", (AT_ONCE, *[AT_ONCE] * 3, Step((), rows.DONE)), ((0, 3), (0, 4)))


def test_a_wrong_twin_is_detected():
    program = Program((MANY,), ())
    late = Program((MANY._replace(arrivals=((0, 3), (1, 4))),), ())
    meant = outcome(program, "reference", "twin")
    assert first_difference(meant, outcome(program, "core", "compiled")) == ""
    assert first_difference(meant, outcome(late, "core", "compiled")) != ""


def test_each_run_starts_with_its_own_state():
    process = compiled(MANY)
    first = outcome(Program((MANY,), ()), "reference", "compiled")
    runs = [
        Simulation(SYSTEM, {"*": Ticks()}, "core", 1e-9).run(None, process, replica=0)
        for _ in range(2)
    ]
    assert list(runs[0].emitted) == list(runs[1].emitted) == first[0]
