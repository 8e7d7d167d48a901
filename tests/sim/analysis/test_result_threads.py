"""Results can be queried by several threads at once, as when variants run in parallel."""

import gc
import threading
import weakref

import pytest
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run import result as results
from foretrace.sim.run import session as sessions
from foretrace.sim.run.simulation import Simulation


class Second(Backend):
    def timing(self, ops, now=0.0):
        return Timing.of([1.0] * len(ops))


def test_two_threads_do_not_wait_for_each_other(monkeypatch):
    """One thread computes aggregates, which need the makespan; the other asks for the makespan."""
    build = Builder("one")
    build.op(Kind.COMPUTE)
    system = System((Component("gpu", "gpu", slots=1),), ("gpu",))
    simulation = Simulation(system, {"gpu": Second()}, engine="reference")
    whole, less = (simulation.run(build.graph(), keep=keep) for keep in ("ops", "none"))
    adding, real = threading.Event(), results.stored_or_summed_aggregates

    def slowly(result):
        adding.set()
        other.join(0.5)  # so that the other thread is within its question
        assert result.makespan_ticks == 10**12
        return real(result)

    monkeypatch.setattr(results, "stored_or_summed_aggregates", slowly)

    def ask():
        adding.wait()
        assert less.makespan == 1.0

    other = threading.Thread(target=ask, daemon=True)
    first = threading.Thread(target=lambda: whole.kept, daemon=True)
    other.start()
    first.start()
    first.join(20)
    other.join(20)
    assert not first.is_alive()
    assert not other.is_alive()


def test_only_the_result_keeps_data_of_a_run_alive():
    """Otherwise parallel runs would each keep an engine's state until garbage collection."""
    build = Builder("one")
    build.op(Kind.COMPUTE)
    system = System((Component("gpu", "gpu", slots=1),), ("gpu",))
    simulation = Simulation(system, {"gpu": Second()})
    engines = []

    def watching(sim):
        yield sim.wait(0.5)

    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            real = sessions._make_engine
            patch.setattr(
                sessions,
                "_make_engine",
                lambda *told: engines.append(weakref.ref(found := real(*told))) or found,
            )
            kept = [
                simulation.run(build.graph()),
                simulation.draws(build.graph())(0),
                simulation.run(build.graph(), watching),
            ]
        assert len(engines) == 3
        assert [engine() for engine in engines if engine() is not None] == []
        assert [result.makespan for result in kept] == [1.0, 1.0, 1.0]
    finally:
        gc.enable()
