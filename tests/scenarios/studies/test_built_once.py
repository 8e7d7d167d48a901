"""What checks and the run of a scenario ask for is built once, and found by name as one by one."""

from foretrace.scenarios.cli.checks.checks import require_valid
from foretrace.scenarios.config.binding import entries_by_component, entry_for_component
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.studies.building import system as building
from foretrace.scenarios.studies.variants.variants import build_variants
from foretrace.sim.facts.system import Component, Location, System
from hypothesis import given
from hypothesis import strategies as st

GLOBS = ("*", "node*", "node*.gpu*", "node1", "node1*", "node[01].gpu0", "kind:spare", "fabric",
         "kind:spare.gpu*", "node1.gpu0", "node0.gpu0.dma", "*.dma", "gpu[0]", "gpu0")  # fmt: skip


def machine() -> System:
    """Two machines, the second of a kind with a name, and parts whose names are odd."""
    parts = [Component(name, "any") for name in ("fabric", "gpu0", "gpu[0]", "node1")]
    for node, pool in (("node0", ""), ("node1", "spare")):
        parts += [Component(f"{node}.{below}", "any", location=Location(node, pool))
                  for below in ("host", "gpu0", "gpu0.dma")]  # fmt: skip
    return System(tuple(parts))


@given(st.lists(st.sampled_from(GLOBS), unique=True))
def test_entries_of_a_machine_are_those_of_each_of_its_components(globs):
    table, made = dict(zip(globs, range(len(globs)), strict=True)), machine()
    one_by_one = [entry_for_component(table, c, made.index) for c in made.components]
    found = entries_by_component(table, made)
    assert [found.get(number) for number in range(len(made.components))] == one_by_one


def test_checks_and_the_run_have_one_machine_a_variant(monkeypatch):
    joined = []
    join = building.join
    monkeypatch.setattr(building, "join", lambda *how: joined.append(1) or join(*how))
    scenario = load("llama3-8b", set=["run.quick=true", "cluster.nodes=2"])
    require_valid(scenario, "limits")
    points = build_variants(scenario)
    assert len(joined) == len(points)
    assert all(p.simulation.system is building.build_system(p.scenario) for p in points)
