"""A stream of items in a run: its clock, who waits for it, its results, and wrong input."""

import os
from typing import NamedTuple

import numpy as np
import pytest
from foretrace import (
    Backend,
    Builder,
    Component,
    Job,
    Kind,
    Metric,
    Needs,
    Queue,
    Simulation,
    SimulationError,
    System,
    Timing,
    Workload,
)
from foretrace.sim.facts.items.arrival_process import GivenArrivals, OnOff, Paced, Poisson
from foretrace.sim.facts.items.pool import ItemPool
from foretrace.sim.items import item_policy as items
from foretrace.sim.items.item_stream import ITEM_METRICS, ItemStream
from foretrace.sim.items.item_sums import BUCKETS, RELATIVE_ERROR, bucket_middles, bucket_of

CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
ENGINES = ["core", "reference"]


class Settings(NamedTuple):
    numbers: np.ndarray  # what to return for arrivals, starts and ends; class; counter


@items.item_kernel
def obey(state, item, turn):
    """Return what its settings say, by kind of call."""
    item[items.CLASS] = state.numbers[3]
    items.count(turn, state.numbers[4], 1)
    return state.numbers[items.kind(turn)]


class Table(NamedTuple):
    rows: np.ndarray


@items.item_kernel
def writes_beyond(state, item, turn):
    state.rows[item[items.NUMBER]] = 1
    return items.LEAVE


@items.item_kernel
def fractional(state, item, turn):
    return 0 if items.kind(turn) == items.ARRIVES else 2.5 * items.kind(turn)


@items.item_kernel
def goes_round(state, item, turn):
    """Three items that come again until 15,000 ticks; the first needs no time, but waits."""
    if items.kind(turn) == items.STARTS:
        return 5 * min(item[items.NUMBER], 1)
    return items.LEAVE if items.now(turn) > 15_000 else 0


def stream(*numbers, pools=None, arrivals=None, **settings):
    given = Settings(np.array([*numbers, *(0, 5, -1, 0, 0)[len(numbers) :]]))
    return ItemStream(
        obey,
        given,
        pools=pools or [ItemPool("nf", 1)],
        arrivals=arrivals or Paced(4e-9, count=10),
        **{"counters": ["calls"], "name": "packets", **settings},
    )


class Work(Workload):
    """Items that one scenario setting describes."""

    metrics = ITEM_METRICS
    headline = "latency.p99"
    needs = Needs({})

    def __init__(self, made, until=None):
        self.made, self.until = made, until

    def start(self, job):
        return self.made


class Tenth(Backend):
    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of([1e-8] * len(ops))


GPU = System((Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))


def simulation(engine="core", seed=0):
    return Simulation(GPU, {"*": Tenth()}, engine=engine, tick=1e-9, seed=seed)


@pytest.mark.parametrize("engine", ENGINES)
def test_results_are_metrics_and_a_table(engine):
    result = simulation(engine).run(Work(stream(pools=[ItemPool("nf", 1, Queue(2, "drop"))])))
    metrics = result.emitted.samples
    # arrivals every 4 ns, service 5 ns: items wait 0, 1, 2, ... ns
    assert metrics["latency"].tolist() == pytest.approx([k * 1e-9 for k in range(5, 15)])
    assert {name: metrics[name].tolist() for name in ("arrived", "ended", "drops", "calls")} == {
        "arrived": [10.0], "ended": [10.0], "drops": [0.0], "calls": [30.0],
    }  # fmt: skip
    assert metrics["nf.wait"].tolist() == pytest.approx([4.5e-9])
    table = result.items[0]
    assert (table.name, table.job, table.inside, table.error) == ("packets", "main", 0, 0.0)
    assert table.rows() == [("item", "nf", 10, pytest.approx(45e-9), pytest.approx(50e-9), 0.0, 0)]
    assert table.quantile(1.0) == table.longest[0] == pytest.approx(14e-9)
    assert table.mean_latency("item") == table.mean_latency() == pytest.approx(9.5e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_run_ends_with_the_last_item(engine):
    def before(sim):
        job = sim.launch(Work(stream()), "items")
        yield job.done
        sim.emit("end", sim.now)

    assert simulation(engine).run(None, before).emitted.samples["end"][-1] == pytest.approx(50e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_process_waits_for_counts_lines_and_the_end(engine):
    def watch(sim):
        flow = stream().start(sim)
        waits = {
            "third": flow.reaches("ended", 3), "line": flow.reaches("waiting", 1, "nf"),
            "calls": flow.reaches("counter", 2, "calls"), "end": flow.done,
        }  # fmt: skip
        for name, event in waits.items():
            sim.env.process(says(sim, name, event))
        yield flow.done
        assert flow.reaches("arrived", 10).triggered

    def says(sim, name, event):
        yield event
        sim.emit(name, sim.now * 1e9)

    found = simulation(engine).run(None, watch).emitted.samples
    times = {name: round(found[name][0]) for name in ("third", "line", "calls", "end")}
    assert times == {"third": 15, "line": 4, "calls": 0, "end": 50}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_process_sees_all_items_up_to_its_tick_also_between_ops(engine):
    build = Builder("op")
    build.op(Kind.COMPUTE)

    def watch(sim):
        flow = stream().start(sim)
        for _ in range(4):
            yield sim.submit(build.graph()).done
            sim.emit("seen", flow.value("ended"))
            yield flow.reaches("ended", 1 + flow.value("ended"))
            sim.emit("then", sim.now * 1e9)

    found = simulation(engine).run(None, watch).emitted.samples
    assert found["seen"].tolist() == [2, 5, 8, 10][: len(found["seen"])]
    assert found["then"].round().tolist() == [15, 30, 45]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stream_without_end_is_cut_by_the_run_and_by_its_job(engine):
    endless = stream(arrivals=Paced(5e-9))
    result = simulation(engine).run(None, endless, until=99e-9)
    assert result.items[0].arrived.tolist() == [20]
    assert result.items[0].inside == 1
    cut = simulation(engine).run(Work(stream(arrivals=Paced(5e-9)), until=49e-9))
    assert cut.items[0].arrived.tolist() == [10]

    def stop(sim):
        job = sim.launch(Work(endless), "items")
        yield sim.wait(24e-9)
        job.stop()
        yield sim.wait(50e-9)

    assert simulation(engine).run(None, stop).items[0].arrived.tolist() == [5]


def test_two_streams_that_wait_for_each_other_see_the_past_only():
    def watch(sim):
        fast = stream(name="fast").start(sim)
        slow = stream(0, 9, name="slow").start(sim)
        for k in (1, 2, 3):
            yield slow.reaches("ended", k)
            sim.emit("fast", fast.value("ended"))
            yield fast.reaches("ended", fast.value("ended") + 1)
            sim.emit("slow", slow.value("ended"))

    runs = [simulation(engine).run(None, watch) for engine in ENGINES]
    assert runs[0].emitted.samples["fast"].tolist() == [1, 3, 5]  # at 9, 18 and 27 ns
    assert runs[0].emitted.samples["slow"].tolist() == [1, 2, 3]  # at 10, 20 and 30 ns
    assert list(runs[0].emitted) == list(runs[1].emitted)


def test_each_job_has_its_own_table_and_draws():
    work = Work(stream(arrivals=Poisson(2e8, count=50)))
    result = simulation().run([Job("a", work), Job("b", work, arrives=7e-9)])
    a, b = (result.of(name).items for name in "ab")
    assert [table.job for table in (*a, *b)] == ["a", "b"]
    assert a[0].samples[0].tolist() != b[0].samples[0].tolist()


@pytest.mark.parametrize("arrivals", [Poisson(2e8, count=300), OnOff(9e8, 1e-7, 1e-7, count=300)])
def test_replicas_differ_and_a_seed_repeats_on_both_engines(arrivals):
    def latencies(seed, replica, engine="core"):
        made = stream(arrivals=arrivals)
        return simulation(engine, seed).run(None, made, replica=replica).emitted.samples["latency"]

    first = latencies(1, 0)
    assert latencies(1, 0).tolist() == latencies(1, 0, "reference").tolist() == first.tolist()
    assert latencies(1, 1).tolist() != first.tolist()
    assert latencies(2, 0).tolist() != first.tolist()


def test_latencies_that_are_too_many_are_quantiles_with_a_stated_error():
    at = np.cumsum(np.random.default_rng(3).integers(1, 2000, 5000)) * 1e-9
    slow = {"arrivals": GivenArrivals(at)}
    exact, buckets = (
        simulation().run(None, stream(0, 950, **slow, most_latencies=most)).items[0]
        for most in (2**20, 1000)
    )
    assert (exact.error, buckets.error) == (0.0, RELATIVE_ERROR)
    assert exact.mean_latency() == buckets.mean_latency()
    assert exact.longest == buckets.longest
    for q in (0.01, 0.5, 0.9, 0.99):
        assert buckets.quantile(q) == pytest.approx(exact.quantile(q), rel=0.004 + 0.01)


def test_the_middle_of_a_bucket_is_near_every_latency_in_it():
    middles = bucket_middles()
    for latency in [
        *range(3000),
        *(2**k + d for k in range(12, 62) for d in (-1, 0, 1, 2**k // 3)),
    ]:
        bucket = bucket_of(latency)
        assert 0 <= bucket < BUCKETS
        assert abs(middles[bucket] - latency) <= latency * RELATIVE_ERROR


def test_memory_does_not_grow_with_the_number_of_items():
    lengths = []
    for count in (1000, 20_000):
        flows = []

        def watch(sim, flows=flows, count=count):
            arrivals = Poisson(1e8, count=count)
            flows.append(stream(arrivals=arrivals, most_latencies=100).start(sim))
            yield flows[0].done

        simulation(seed=5).run(None, watch)
        arrays = flows[0]._engine.arrays
        lengths.append([len(array) for array in (arrays.events, arrays.latencies, arrays.items)])
    assert lengths[0] == lengths[1] == [64, 0, 64]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_item_may_come_again_for_ever_if_it_waits(engine):
    arrivals = GivenArrivals([0.0] * 3)
    made = ItemStream(goes_round, pools=[ItemPool("nf", 1)], arrivals=arrivals)
    assert simulation(engine).run(None, made).items[0].served[0, 0] > 3 * 1000


def failing(numbers, **settings):
    return lambda: stream(*numbers, **settings)


TWO = [ItemPool("a", 1, Queue(0)), ItemPool("b", 1, Queue(0))]
WRONG = [
    (failing((3,)), "items: packets: sends an item to pool 3, but pools has 1, numbered from 0"),
    (failing((0, -7)), "items: packets: returns a service of -7 ticks; return 0 or more"),
    (failing((0, 2**62)), f"time overflow: packets: a service of {2**62} ticks does not fit"),
    (failing((0, 5, -1, 4)), "items: packets: gives an item class 4, but classes has 1, from 0"),
    (failing((0, 5, -1, 0, 6)), "items: packets: counter 6 does not exist; counters has 1, from 0"),
    (failing((0, 0, 0)), "zero-time loop: packets: an item came to a pool more than 1,000 times"),
    (
        failing((0, 9), most_inside=4),
        "items: packets: 4 items are inside, most of them at nf; give it servers or a bounded",
    ),
    (
        failing((0, 5, 0), pools=[ItemPool("a", 1, Queue(0))]),
        r"deadlock: packets: 10 items wait at their source for pools that are full: a; lengthen",
    ),
    (
        failing((), arrivals=Paced(5e-9)),
        "items: packets: its arrivals have no end; give them count",
    ),
    (
        failing((), arrivals=Poisson(2e9, count=1)),
        "items: packets: Poisson: items are 5e-10 s apart, which is less than a tick of 1e-09 s",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_policy_does_wrong_is_named(make, message, engine):
    with pytest.raises(SimulationError, match=message.replace("(", r"\(")):
        simulation(engine).run(None, make())


def test_an_error_ahead_of_the_end_of_the_run_does_not_happen():
    wrong = stream(3, arrivals=GivenArrivals([50e-9]))
    assert simulation().run(None, wrong, until=20e-9).items[0].arrived.tolist() == [0]
    with pytest.raises(SimulationError, match="pool 3"):
        simulation().run(None, wrong, until=60e-9)


@pytest.mark.skipif(not (CHECKED or INTERPRETED), reason="an overrun is unseen without checks")
def test_a_policy_that_writes_beyond_its_arrays_is_named():
    made = ItemStream(
        writes_beyond, Table(np.zeros(3, np.int64)), pools=[ItemPool("nf", 1)],
        arrivals=Paced(5e-9, count=5),
    )  # fmt: skip
    with pytest.raises(SimulationError, match="items: writes_beyond: its policy raised IndexError"):
        simulation().run(None, made)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_policy_that_returns_no_integer_is_refused(engine):
    made = ItemStream(fractional, pools=[ItemPool("nf", 1)], arrivals=Paced(5e-9, count=5))
    with pytest.raises(SimulationError, match="items: fractional: returns a fraction; return a"):
        simulation(engine).run(None, made)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pools": []}, "packets: pools is empty; give one or more"),
        ({"pools": [ItemPool("a", 1)] * 2}, "packets: pools names one twice: a, a"),
        ({"classes": ["x", "x"]}, "packets: classes names one twice"),
        ({"arrivals": 3}, "packets: arrivals is a int; give Poisson"),
        ({"most_inside": 0}, "packets: most_inside is 0; give a whole number, 1 or more"),
        (
            {"pools": [ItemPool("a", 1, Queue(1, "elsewhere", "b"))]},
            "packets: pool a sends items to 'b'; name another one of a",
        ),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(TypeError, match=message):
        ItemStream(
            obey,
            **{"pools": [ItemPool("a", 1)], "arrivals": Paced(1.0), "name": "packets", **settings},
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ItemPool("nf", 0), "pool nf: servers is 0; give 1 or more, or None for a delay"),
        (lambda: ItemPool("nf", None, Queue(1)), "pool nf: a delay has no line"),
        (lambda: Poisson(0.0), "Poisson: rate is 0.0; give more than 0"),
        (lambda: Paced(-1.0), "Paced: the time between items is -1.0; give more than 0"),
        (lambda: OnOff(1.0, 0.0, 1.0), "OnOff: on is 0.0; give more than 0"),
        (lambda: Poisson(1.0, count=-1), "Poisson: count is -1; give a whole number"),
        (lambda: GivenArrivals([2.0, 1.0]), "times must be 0 or later, and ascend; sort them"),
        (lambda: GivenArrivals([1.0], [0.5]), "column 1 is float64 of shape"),
        (lambda: items.zipf_table(0, 1.0), "zipf_table: count is 0"),
    ],
)
def test_wrong_pools_and_arrivals_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_metrics_of_a_stream_are_declared():
    assert {metric.name for metric in ITEM_METRICS} >= {"latency", "drops", "*.wait"}
    assert all(isinstance(metric, Metric) for metric in ITEM_METRICS)
