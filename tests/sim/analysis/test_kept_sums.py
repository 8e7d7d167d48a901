"""Aggregates of a run without op rows equal sums over its op rows, for every way to run it."""

import random

import numpy as np
import pytest
from foretrace.sim.analysis.activity import activity, exposed_communication_seconds
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder, Graph, Member
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

RANKS, KINDS = 4, (Kind.COMPUTE, Kind.COMPUTE, Kind.COPY, Kind.HOST, Kind.DELAY)


class AsRecorded(Backend):
    source = "recorded"

    def timing(self, ops: Ops, now: float = 0.0) -> Timing:
        return Timing.of(ops.duration)


def machine(slots: int | None) -> System:
    gpus = [Component(f"gpu{r}", "gpu", slots=slots) for r in range(RANKS)]
    return System((*gpus, Component("net", "fabric")), tuple(g.name for g in gpus), fabric="net")


def several_streams(seed: int) -> Graph:
    """Graph that lists a rank's streams one after the other, so rows are not sorted by time."""
    r, build = random.Random(seed), Builder("streams")
    meets: dict[int, list[int]] = {}
    for rank in range(RANKS):
        for stream in range(3):
            last: list[int] = []
            for period in range(3):
                for _ in range(r.randrange(1, 5)):
                    last = [
                        build.op(
                            r.choice(KINDS), rank=rank, stream=stream, after=last, period=period,
                            duration=r.choice([0, 1, 2, 5]) * 1e-9,
                        )
                    ]  # fmt: skip
                if stream == 2:
                    meets.setdefault(period, []).extend(last)
    for period, after in meets.items():
        who = [Member(rank, 7, (after[rank],)) for rank in range(RANKS)]
        build.collective(who, period=period, duration=r.choice([1, 4]) * 1e-9)
    return build.graph()


@pytest.mark.parametrize("slots", [1, 2, None])
@pytest.mark.parametrize("seed", range(8))
def test_sums_of_a_run_are_the_same_whether_its_rows_are_kept_or_not(seed, slots):
    simulation, graph = (
        Simulation(machine(slots), {"*": AsRecorded()}, tick=1e-9),
        several_streams(seed),
    )
    rows, ranks, none = (simulation.run(graph, keep=keep) for keep in ("ops", "ranks", "none"))
    want = activity(rows)
    for box, got in activity(ranks).items():
        assert got.tolist() == want[box].tolist(), box
    exposed = exposed_communication_seconds(rows)
    assert np.any(exposed > 0)
    for found in (ranks, none):
        assert found.written is None
        assert exposed_communication_seconds(found).tolist() == exposed.tolist()
        assert found.rank_frame().equals(rows.rank_frame())
        assert found.compare(rows) == {}
        assert found.busy_by_kind == rows.busy_by_kind
        assert found.sources == rows.sources


def test_sums_of_a_stopped_run_exclude_ops_that_did_not_end():
    simulation, graph = Simulation(machine(1), {"*": AsRecorded()}, tick=1e-9), several_streams(1)
    until = simulation.run(graph).makespan / 2
    rows, none = (simulation.run(graph, until=until, keep=keep) for keep in ("ops", "none"))
    assert np.any(rows.end != rows.end)
    exposed = exposed_communication_seconds(rows)
    assert exposed_communication_seconds(none).tolist() == exposed.tolist()
    assert none.compare(rows) == {}
