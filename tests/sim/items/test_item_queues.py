"""Streams of items equal closed forms of queueing theory, within three standard errors.

Standard errors are of batch means. Seeds were fixed before the first run.
"""

import math
import os
from typing import NamedTuple

import numpy as np
import pytest
from foretrace import Queue, Simulation, System
from foretrace.sim.facts.items.arrival_process import OnOff, Poisson
from foretrace.sim.facts.items.pool import ItemPool
from foretrace.sim.items import item_policy as items
from foretrace.sim.items.item_stream import ItemStream

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="millions of items, interpreted"
)
SEED = 28
BATCHES = 40
BY_DAY, BY_NIGHT = 1_000_000, 10_000_000
SIZES = [BY_DAY, pytest.param(BY_NIGHT, marks=pytest.mark.nightly)]
LOADS = [0.3, 0.7, 0.95]
SERVICE = 1e-6
WAITED, SERVED, DROPPED = range(3)


class State(NamedTuple):
    sums: np.ndarray  # by batch: ticks waited, items served, items dropped
    settings: np.ndarray  # items in a batch, ticks of a service, 1 if exponential, length of line


@items.item_kernel
def one_pool(state, item, turn):
    kind, batch = items.kind(turn), item[items.NUMBER] // state.settings[0]
    if kind == items.ARRIVES:
        full = items.busy(turn, 0) == items.servers(turn, 0)
        if full and items.waiting(turn, 0) == state.settings[3]:
            state.sums[batch, DROPPED] += 1
        return 0
    if kind == items.ENDS:
        return items.LEAVE
    state.sums[batch, WAITED] += items.now(turn) - item[items.ARRIVED]
    state.sums[batch, SERVED] += 1
    if state.settings[2]:
        return items.exponential(turn, item, 0, float(state.settings[1]))
    return state.settings[1]


def batch_means(count, load, servers, exponential, length=-1):
    """Mean wait in services and share of drops in each batch, without the first; and the table."""
    state = State(
        np.zeros((BATCHES, 3), np.int64),
        np.array([count // BATCHES, round(SERVICE * 1e12), exponential, length]),
    )
    queue = None if length < 0 else Queue(length, "drop")
    seen = []

    def policy(sim):
        stream = ItemStream(
            one_pool,
            state,
            pools=[ItemPool("servers", servers, queue)],
            arrivals=Poisson(load * servers / SERVICE, count=count),
            most_latencies=0,
        )
        flow = stream.start(sim)
        yield flow.done
        seen.append(flow.state.sums.copy())

    result = Simulation(System((), ()), {}, seed=SEED).run(None, policy, replica=0)
    waited, served, dropped = seen[0][1:].T.astype(float)
    table = result.items[0]
    assert table.drops.sum() == seen[0][:, DROPPED].sum()
    assert table.waiting.sum() == pytest.approx(seen[0][:, WAITED].sum() * 1e-12, rel=1e-12)
    return waited / served / (SERVICE * 1e12), dropped / (served + dropped)


def assert_within_three_standard_errors(batches, exact):
    error = batches.std(ddof=1) / math.sqrt(len(batches))
    print(f"{batches.mean():.6g} +- {error:.2g}, closed form {exact:.6g}")
    assert error < 0.05 * exact
    assert abs(batches.mean() - exact) < 3 * error


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("load", LOADS)
def test_waits_of_one_server_with_constant_service(load, count):
    waits, drops = batch_means(count, load, 1, exponential=0)
    assert not drops.any()
    assert_within_three_standard_errors(waits, load / (2 * (1 - load)))  # Pollaczek-Khinchine


def states_of_mmck(load, servers, most):
    """Probabilities of 0 to ``most`` items inside (Gross et al. 2008, 2.4)."""
    a = load * servers
    weights = [
        a**n / (math.factorial(min(n, servers)) * servers ** max(n - servers, 0))
        for n in range(most + 1)
    ]
    return np.array(weights) / sum(weights)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("load", LOADS)
def test_waits_and_drops_of_several_servers_with_a_bounded_line(load, count):
    servers, length = 2, 3
    p = states_of_mmck(load, servers, servers + length)
    waits, drops = batch_means(count, load, servers, exponential=1, length=length)
    in_line = sum((n - servers) * p[n] for n in range(servers + 1, servers + length + 1))
    assert_within_three_standard_errors(drops, p[-1])
    assert_within_three_standard_errors(waits, in_line / (load * servers * (1 - p[-1])))


@items.item_kernel
def leave_at_once(state, item, turn):
    return items.LEAVE


def test_bursts_have_the_mean_rate_of_their_share_of_time():
    stream = ItemStream(
        leave_at_once,
        pools=[ItemPool("unused", 1)],
        arrivals=OnOff(1e6, on=1e-3, off=3e-3, duration=20.0),
    )
    table = Simulation(System((), ()), {}, seed=SEED).run(None, stream).items[0]
    assert table.arrived.sum() == pytest.approx(20.0 * 1e6 / 4, rel=0.05)


def test_keys_follow_zipfs_law():
    table = items.zipf_table(1000, 0.99)
    turn = items.ItemTurn(np.zeros(7, np.int64), np.zeros((0, 3), np.int64), np.zeros(0, np.int64))
    item = np.zeros(7, np.int64)
    drawn = np.zeros(1000)
    n = 100_000
    for k in range(n):
        item[items.NUMBER] = k
        drawn[items.zipf(turn, item, 0, table)] += 1
    weights = np.arange(1.0, 1001.0) ** -0.99
    expected = n * weights / weights.sum()
    assert np.abs(drawn - expected).max() < 5 * math.sqrt(expected.max())
    chi = ((drawn - expected) ** 2 / expected).sum()
    assert abs(chi - 999) < 4 * math.sqrt(2 * 999)
