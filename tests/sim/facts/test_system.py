"""Properties of a system: components of nodes, routes of data, globs."""

import pytest
from foretrace.sim.errors import GraphError
from foretrace.sim.facts.system import Component, Location, Route, System


def machine(router=None):
    gpus = [
        Component(
            f"card{i}", "gpu", slots=1, location=Location(f"m{i // 2}", "ab"[i // 2], rail=i % 2)
        )
        for i in range(4)
    ]
    wires = [Component(f"wire{k}", "link", rate=1e9 * (k + 1), latency=1e-6 * k) for k in range(2)]
    told = {} if router is None else {"router": router}
    return System((*gpus, *wires), tuple(g.name for g in gpus), **told)


def test_the_machine_of_a_component_is_not_parsed_from_its_name():
    made = machine()
    assert [made.node_of(g) for g in made.numbers] == ["m0", "m0", "m1", "m1"]
    assert System((Component("node7.gpu3", "gpu", slots=1),)).node_of(0) == ""


def test_components_are_selected_by_all_criteria():
    made = machine()
    assert made.select(kind="gpu", pool="b") == ("card2", "card3")
    assert made.select(node="m0") == ("card0", "card1")
    assert made.select(kind="link") == ("wire0", "wire1")
    assert made.select(kind="link", pool="a") == ()
    assert len(made.select()) == 6


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"kind": "gpus"}, "no component has kind 'gpus'; known are gpu, link"),
        ({"node": "m2"}, "no component has node 'm2'; known are m0, m1"),
        ({"pool": "c"}, "no component has pool 'c'; known are a, b"),
    ],
)
def test_selecting_by_an_unknown_value_names_the_known_ones(said, message):
    with pytest.raises(GraphError, match=message):
        machine().select(**said)


def test_a_machine_kind_can_replace_the_machine_name_in_a_glob():
    parts = ("node0.nic0.tx", "node0.nic0", "node1.nic0")
    pools = ("fast", "fast", "slow")
    made = System(
        tuple(
            Component(name, "nic", rate=1.0, location=Location(name[:5], pool))
            for name, pool in zip(parts, pools, strict=True)
        )
    )
    assert made.match("kind:fast.nic*") == (0, 1)
    assert made.match("kind:fast.nic?") == (1,)
    assert made.match("kind:slow") == (2,)
    assert made.match("kind:") == made.match("kind:fas") == ()


def test_a_router_of_plain_numbers_gives_one_route():
    made = machine(lambda a, b: (4, 5))
    assert made.routes(0, 2) == (Route((4, 5), 1.0),)
    assert made.route(0, 2) == (4, 5)
    assert dict(made.crossing_fractions(0, 2)) == {4: 1.0, 5: 1.0}
    assert (made.latency(0, 2), made.bandwidth(0, 2)) == (1e-6, 1e9)
    assert made.routes(1, 1) == (Route(()),)
    assert machine().routes(0, 1) == (Route(()),)


def test_data_take_each_route_by_its_weight():
    made = machine(lambda a, b: [Route((4,), 1), Route((4, 5), 1), Route((5,), 2)])
    assert [r.weight for r in made.routes(0, 1)] == [0.25, 0.25, 0.5]
    assert dict(made.crossing_fractions(0, 1)) == {4: 0.5, 5: 0.75}
    assert made.route(0, 1) == (4,)
    assert made.latency(0, 1) == 1e-6
    assert made.bandwidth(0, 1) == pytest.approx(min(1e9 / 0.5, 2e9 / 0.75))


@pytest.mark.parametrize("weight", [0, -1, float("nan")])
def test_a_route_weight_must_be_above_0(weight):
    made = machine(lambda a, b: [Route((4,), 1), Route((5,), weight)])
    with pytest.raises(GraphError, match="give each a weight above 0"):
        made.routes(0, 1)


def test_pinning_a_pair_leaves_other_routes_unchanged():
    made = machine(lambda a, b: [Route((4,)), Route((5,))])
    pinned = made.with_pinned_routes({("card0", "card1"): 1})
    assert pinned.routes(0, 1) == (Route((5,), 1.0),)
    assert len(pinned.routes(1, 0)) == len(made.routes(0, 1)) == 2
    with pytest.raises(GraphError, match=r"route -1 from card0 to card1 .* choose 0 to 1"):
        made.with_pinned_routes({("card0", "card1"): -1})
    with pytest.raises(GraphError, match="no component is named 'card9'"):
        made.with_pinned_routes({("card9", "card1"): 0})
