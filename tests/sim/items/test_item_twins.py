"""Compiled streams of items equal the plain engine: every call of the policy, sum and error."""

import os
from collections import Counter

import numpy as np
import pytest
from by_day import tonight
from foretrace.sim.facts.items import layout as lay
from foretrace.sim.facts.items.arrival_process import unit_exponential
from foretrace.sim.facts.sampling import random_bits
from foretrace.sim.items import item_draws
from foretrace.sim.items.item_engine import ItemEngine
from foretrace.sim.reference.item_pools import ReferenceItems
from item_programs import difference, outcome, random_setup

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
BLOCKS, IN_CI, NIGHTLY = 4, 20 if INTERPRETED else 500, 50_000


def differences(seeds):
    found = (difference(seed, (seed % 40, 60) if seed % 3 == 0 else ()) for seed in seeds)
    return [what for what in found if what]


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_compiled_engine_equals_the_plain_one(block):
    seeds = range(block * IN_CI, (block + 1) * IN_CI)
    print(f"seeds {seeds}")
    assert differences(seeds) == []


@pytest.mark.nightly
def test_the_compiled_engine_equals_the_plain_one_all_night():
    seeds = tonight(range(10_000, 10_000 + NIGHTLY))
    print(f"seeds {seeds}")
    assert differences(seeds) == []


def test_the_pipelines_reach_every_end_and_error():
    wanted = {lay.OVER, lay.REACHED, lay.NO_ROWS, lay.BAD_POOL, lay.BAD_TIME, lay.BAD_CLASS}
    wanted |= {lay.BAD_COUNTER, lay.LOOP, lay.DEADLOCK}
    seen = Counter()
    for seed in range(2000):
        seen[outcome(random_setup(seed), ReferenceItems)[0]] += 1
        if set(seen) == wanted:
            break
    assert set(seen) == wanted


def test_the_plain_engine_goes_back_too():
    for seed in range(20):
        setup = random_setup(seed)
        assert outcome(setup, ReferenceItems, (7,)) == outcome(setup, ReferenceItems)


def test_items_are_conserved():
    for seed in range(200):
        status, *_, sums = outcome(random_setup(seed), ItemEngine)
        if status in (lay.OVER, lay.REACHED, lay.DEADLOCK):
            assert sum(sums.came) == sum(sums.left) + sum(sums.lost) + sums.inside


def test_compiled_draws_equal_the_plain_ones_bit_for_bit():
    key = random_bits(7, 0, 1, 2).astype(np.int64).item()
    for number in (-1, 0, 5, 2**40):
        plain = random_bits(7, 0, 1, 2, number, 3).item()
        with np.errstate(over="ignore"):
            compiled = item_draws.keyed_bits(key, number, 3)
            assert int(compiled) == plain
            assert item_draws.to_exponential(compiled) == unit_exponential(plain)
