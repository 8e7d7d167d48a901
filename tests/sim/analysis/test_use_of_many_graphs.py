"""Use over time of a run of many small graphs, on a machine of many parts."""

import numpy as np
from foretrace.sim.analysis import metrics
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

GPUS = tuple(f"node{k}.gpu0" for k in range(50))
EDGES = np.linspace(0.0, 1000.0, 101)


class Second(Backend):
    source = "the test"

    def timing(self, ops, now=0.0):
        return Timing.of([1.0] * len(ops))


def steps(sim):
    build = Builder("step")
    build.op(Kind.COMPUTE)
    for name in GPUS[:3]:
        yield sim.submit(sim.prepare(build.graph(), [name])).done


def test_only_parts_that_a_graph_uses_are_computed(monkeypatch):
    widths, whole = [], metrics._covered_up_to_edges

    def covered(component, at, share, edges, components):
        widths.append(components)
        return whole(component, at, share, edges, components)

    system = System(tuple(Component(name, "gpu", slots=1) for name in GPUS), GPUS)
    made = Simulation(system, {"*": Second()}).run(None, steps, keep="ops")
    monkeypatch.setattr(metrics, "_covered_up_to_edges", covered)
    share = metrics.slot_share_by_window(made)
    assert widths[:2] == [3, 3]  # one part of each of three graphs; then no amounts
    assert share.sum(axis=1).round(9).tolist() == [33.333333333] * 3 + [0.0] * 47


def test_sums_over_many_graphs_are_those_of_one_after_the_other():
    random = np.random.default_rng(2)
    component, group = random.integers(0, 3, 300), np.sort(random.integers(0, 40, 300))
    start = random.integers(0, 900, 300)
    end, share = start + random.integers(0, 100, 300), random.random(300)
    found, want = np.zeros((3, 100)), np.zeros((3, 100))
    metrics._spread_over_periods(component, start, end, share, EDGES, found, group)
    for g in range(40):
        own = group == g
        columns = (one[own] for one in (component, start, end, share))
        metrics._spread_over_periods(*columns, EDGES, want)
    assert np.array_equal(found, want)


def test_sums_are_those_over_all_parts_to_the_last_bit():
    random = np.random.default_rng(1)
    component = random.integers(10, 15, 300)
    start = random.integers(0, 900, 300)
    end, share = start + random.integers(0, 100, 300), random.random(300)
    found, want = np.zeros((50, 100)), np.zeros((50, 100))
    metrics._spread_over_periods(component, start, end, share, EDGES, found)
    want += np.diff(metrics._covered_up_to_edges(component, start, share, EDGES, 50))
    want -= np.diff(metrics._covered_up_to_edges(component, end, share, EDGES, 50))
    assert np.array_equal(found, want)
