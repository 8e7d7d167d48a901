"""A compact list of equal machines behaves like the list of all their components."""

import numpy as np
import pytest
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.part.switch import Switch
from foretrace.models.network.topology.leaf_spine import FatTree, Rail
from foretrace.models.network.topology.topology import FabricSpec, NodeSpec, join
from foretrace.sim.facts.backend import Backend
from foretrace.sim.facts.component_list import ComponentList
from foretrace.sim.facts.system import Component, System, matches_pattern
from foretrace.sim.record.binding import BackendsByName, bind, map_backends

NIC = Nic(bandwidth=50e9, latency=6e-7)
TRAINER = NodeSpec(gpus=2, gpu_link=Link(bandwidth=450e9, latency=1e-6), nics=2, nic=NIC)
GLOBS = (
    "*", "node*", "node3", "node1*", "node?.gpu*", "node*.gpu*", "node[02].nic*.tx", "kind:store",
    "kind:trainer.nic1*", "leaf*", "leaf1.up", "leaf*.node4.nic0", "*.down", "fabric", "gpu*",
)  # fmt: skip


@pytest.fixture(scope="module", params=[FatTree(), Rail(), FatTree(routing="spray")])
def machine(request) -> System:
    """System of eleven machines of two kinds behind small leaf switches."""
    switch = Switch(bandwidth=50e9, latency=5e-7, ports=8)
    kinds = {"trainer": (9, TRAINER), "store": (2, NodeSpec(gpus=0, nics=1, nic=NIC))}
    return join(kinds, FabricSpec(switch, request.param))


def test_component_names_and_numbers_are_inverse(machine):
    every = machine.components
    assert [c.name for c in every] == list(every.names)
    assert [machine.number(c.name) for c in every] == list(range(len(every)))
    assert [c.node for c in every] == [machine.node_of(i) for i in range(len(every))]
    for name in ("node03.host", "node11.host", "node3.gpu2", "node3", "leaf9.up", "leaf0", ""):
        assert name not in machine.index
    assert len(every.parts) < len(every)


@pytest.mark.parametrize("glob", GLOBS)
def test_a_glob_selects_the_same_components_one_by_one_and_together(machine, glob):
    wanted = [i for i, c in enumerate(machine.components) if matches_pattern(glob, c)]
    assert machine.match(glob) == tuple(wanted)


def test_columns_and_machine_numbers_equal_the_single_components(machine):
    every = machine.components
    rates = every.column(lambda part: part.rate or 0.0, float)
    assert rates.tolist() == [c.rate or 0.0 for c in every]
    some = np.array([5, 0, 5, len(every) - 2])
    assert every.column_of(some, lambda part: part.kind).tolist() == [every[i].kind for i in some]
    number: dict[str, int] = {}
    nodes = [number.setdefault(c.node, len(number)) if c.node else -1 for c in every]
    assert machine.machine_numbers.tolist() == nodes


def test_changing_some_components_keeps_the_others(machine):
    every = machine.components
    chosen = machine.match("node2.nic*.tx")
    slow = every.with_changed(chosen, lambda part: part.renamed(part.name, rate=1e9))
    assert slow == every.with_replaced(
        {i: every[i].renamed(every[i].name, rate=1e9) for i in chosen}
    )
    assert [i for i, (a, b) in enumerate(zip(every, slow, strict=True)) if a != b] == list(chosen)
    assert [c.name for c in slow] == [c.name for c in every]
    assert every.with_changed(chosen, lambda part: part) is every
    assert len(every.with_changed(range(len(every)), lambda part: part).parts) == len(every.parts)


def test_parts_of_gpus_are_found_by_role(machine):
    one_by_one = System(tuple(machine.components), tuple(machine.gpus), dict(machine.parts))
    assert machine.numbers == one_by_one.numbers
    for role in ("host", "dma", "tx", "rx", "hbm"):
        assert (
            machine.components_in_role(role).tolist()
            == one_by_one.components_in_role(role).tolist()
        )
    assert "node9.gpu0" not in machine.parts
    assert machine.select(kind="host", pool="store") == ("node9.host", "node10.host")


def test_backends_by_name_equal_the_bindings(machine):
    a, b = Backend(), Backend()
    given = {"*": a, "node*.gpu*": b, "node0.gpu1": a}
    bound = bind(machine, given)
    named = BackendsByName(machine.components.names, bound)
    assert dict(named) == {c.name: bound[i] for i, c in enumerate(machine.components)}
    assert bind(machine, named) is bound
    other = {id(a): b, id(b): a}
    swapped = map_backends(named, lambda x: other[id(x)])
    assert swapped["node0.gpu0"] is a
    assert swapped["node0.gpu1"] is b


def test_two_components_of_one_name_are_refused():
    two = ComponentList.of([Component("wire", "link", rate=1.0)] * 2)
    with pytest.raises(ValueError, match="two components are named 'wire'"):
        _ = two.by_name["wire"]
