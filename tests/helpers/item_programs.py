"""Random pipelines of items, and what an engine makes of them, call by call."""

import random
from typing import NamedTuple

import numpy as np
from foretrace.sim.engine_api.item_setup import ItemSetup
from foretrace.sim.engine_api.queue_table import QueueTable
from foretrace.sim.facts.items.arrival_process import GivenArrivals, OnOff, Paced, Poisson
from foretrace.sim.facts.items.layout import NO_ROWS
from foretrace.sim.items import item_policy as items
from foretrace.sim.items.item_engine import ItemEngine
from foretrace.sim.reference.item_pools import ReferenceItems

LOG = 20_000
LATEST = 5_000  # ticks; some pipelines go on for ever
CALL = 6  # tick, kind, item, pool, class, and a sum over what the policy sees of the pools


class Script(NamedTuple):
    """State of the policy: what it answers, by pool and a random number, and what it has seen."""

    routes: np.ndarray  # (pools + 1, choices), row 0 for arrivals
    times: np.ndarray  # (pools, choices)
    classes: np.ndarray  # (choices,), -1 to keep it
    way: np.ndarray  # (1,) 1: arrivals go to the shortest line of pools 0 and 1; 2: nobody leaves
    table: np.ndarray  # a hash table: what hits takes no detour
    end: np.ndarray  # (1,) calls so far
    log: np.ndarray


@items.item_kernel
def play(state, item, turn):
    kind, pool, at = items.kind(turn), items.pool(turn), state.end[0]
    row = state.log[at % len(state.log)]
    row[0], row[1], row[2], row[3], row[4] = (
        items.now(turn), kind, item[items.NUMBER], pool, item[items.CLASS]
    )  # fmt: skip
    row[5] = item[items.C]
    item[items.C] += 1
    for k in range(len(turn.pools)):
        row[5] = 7 * row[5] + 3 * items.busy(turn, k) + items.waiting(turn, k)
    state.end[0] += 1
    choices = state.routes.shape[1]
    choice = np.int64(items.bits(turn, item, at) % np.uint64(choices))
    if kind == items.STARTS:
        return state.times[pool, choice]
    if state.classes[choice] >= 0:
        item[items.CLASS] = state.classes[choice]
    if state.way[0] == 2:
        return state.routes[pool + 1, choice]
    key = (item[items.A] + choice) % len(state.table)
    if state.table[key] == item[items.B]:
        items.count(turn, 0, 1)
        if kind == items.ENDS:
            return items.LEAVE
    state.table[key] = item[items.B]
    if kind == items.ARRIVES and state.way[0]:
        return 0 if items.waiting(turn, 0) <= items.waiting(turn, 1) else 1
    return state.routes[pool + 1, choice]


def random_setup(seed):
    """What an engine of a random pipeline starts from."""
    draw = random.Random(seed)
    pools, choices = draw.randint(1, 4), draw.randint(1, 5)
    servers = [draw.choice([None, 1, 1, 2, 3]) for _ in range(pools)]
    queues = {}
    for k in range(pools):
        rule = draw.choice(["none", "wait", "drop", "elsewhere"])
        others = [j for j in range(pools) if j != k]
        if servers[k] is None or rule == "none" or (rule == "elsewhere" and not others):
            continue
        others = draw.sample(others, draw.randint(1, len(others))) if rule == "elsewhere" else ()
        queues[k] = draw.randint(0, 3), rule, others
    backwards, endless = draw.random() < 0.3, draw.random() < 0.03
    routes = np.empty((pools + 1, choices), np.int64)
    for row in range(pools + 1):
        for k in range(choices):
            onward = list(range(0 if backwards else row, pools))
            out = [-1, -1 if draw.random() < 0.7 else -2]
            routes[row, k] = draw.choice([*onward, *onward, *out]) if not endless else k % pools
    times = np.array(
        [[0 if endless and seed % 2 else draw.choice([0, 1, 1, 2, 5, 9]) for _ in range(choices)]]
        * pools
    )
    if draw.random() < 0.06:
        routes[draw.randrange(pools + 1), 0] = draw.choice([pools, -3])
    if draw.random() < 0.04:
        times[draw.randrange(pools), 0] = -1
    classes = [
        draw.choice([-1, -1, 0, 1, 2 if draw.random() < 0.03 else 1]) for _ in range(choices)
    ]
    way = 2 if endless else int(pools > 1 and draw.random() < 0.3)
    script = Script(
        routes, times, np.array(classes), np.array([way]),
        np.full(draw.randint(1, 8), -1), np.zeros(1, np.int64), np.zeros((LOG, CALL), np.int64),
    )  # fmt: skip
    counters = 0 if draw.random() < 0.02 else 1
    return ItemSetup(
        play, script, servers, QueueTable.of(queues, pools), _arrivals(draw).table(1e-9), 2,
        counters, (seed, 0, 1, 2), draw.choice([0, 1000]), 10**9,
        draw.choice([2**22] * 9 + [5]), draw.choice([2**20, 7, 0]),
    )  # fmt: skip


def _arrivals(draw):
    count, gap = draw.randint(0, 60), draw.choice([1e-9, 2e-9, 7e-9])
    duration = draw.choice([None, None, 60e-9])
    kind = draw.randrange(4)
    if kind == 0:
        return Paced(draw.choice([gap, 1.5e-9]), count, duration)
    if kind == 1:
        return Poisson(1 / gap, count, duration)
    if kind == 2:
        return OnOff(1 / gap, 10e-9, 20e-9, count, duration)
    at = sorted(draw.choice([0, 0, 1, 3, 10, 50]) * 1e-9 for _ in range(count))
    return GivenArrivals(at, *(np.arange(count) * k % 5 for k in range(1, draw.randint(2, 5))))


def outcome(setup, make, cuts=()):
    """Status, calls and sums of an engine, which may stop and go back at some ticks."""
    engine = make(setup)
    for cut in cuts:
        engine.keep()
        engine.run(setup.start + 3 * cut, 2**62)
        engine.rewind()
        engine.run(setup.start + cut, 2**62)
    status = engine.run(setup.start + LATEST, 2**62)
    wrong = engine.wrong if status > NO_ROWS else 0
    end = engine.state.end[0]
    sums = engine.sums()
    if sums.histogram is not None:
        sums = sums._replace(latencies=None, histogram=None)
    else:
        sums = sums._replace(latencies=[np.asarray(one).tolist() for one in sums.latencies])
    return status, wrong, int(end), engine.state.log[: min(end, LOG)].tolist(), sums


def difference(seed, cuts=()):
    """First difference between both engines; "" for none."""
    setup = random_setup(seed)
    meant, found = (
        outcome(setup, make, cuts if make is ItemEngine else ())
        for make in (ReferenceItems, ItemEngine)
    )
    if found[4].latencies is None:
        meant = (*meant[:4], meant[4]._replace(latencies=None))
    if meant == found:
        return ""
    for k, (a, b) in enumerate(zip(meant[3], found[3], strict=False)):
        if a != b:
            return f"random_setup({seed}): call {k} is {b}, not {a}"
    return f"random_setup({seed}): {found[:3]} {found[4]}, not {meant[:3]} {meant[4]}"
