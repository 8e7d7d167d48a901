"""The page's section on stores."""

from types import SimpleNamespace

from foretrace.reports.blocks import Table
from foretrace.reports.run.policies.store_use import store_use
from foretrace.sim.facts.eviction.store import Store
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation


def study(*unit):
    """Study of a store of 4 units, on which a process works."""

    def server(sim):
        prefix = sim.store("node0.prefix")
        for key in (1, 2, 1, 3, 3):
            prefix.hold(key, 2)
            prefix.release(key)
        prefix.hold(4, 4)
        prefix.hold(5, 1)
        yield sim.settled()

    cache = Component("node0.prefix", "memory", capacity=Store(4), unit=unit[0] if unit else "B")
    simulation = Simulation(System((cache,), ()), {}, engine="reference")
    return SimpleNamespace(results={"base": simulation.run(None, *[server] * bool(unit))})


def test_the_section_has_counts_of_each_store():
    _, table = store_use(study("block"))
    assert isinstance(table, Table)
    (row,) = table.rows
    assert row == ["base", "node0.prefix", "2", "4", "33.3%", "1", "3", "4 block"]


def test_amounts_in_bytes_have_a_prefix():
    _, table = store_use(study("B"))
    assert table.rows[0][-1] == "4 B"


def test_a_run_without_stores_has_no_section():
    assert not list(store_use(study()))
