"""What machines cost, and a million tokens on them."""

import pytest
from foretrace.scenarios.studies.building.price import price_per_second
from foretrace.sim.errors import ScenarioError


def test_every_item_is_paid_for_as_often_as_it_is_there(scenario):
    base, nic, *_ = scenario().variants()
    hour = 16 * 8 * (2.10 + 0.06)
    assert price_per_second(base) * 3600 == pytest.approx(hour)
    assert price_per_second(nic) * 3600 == pytest.approx(16 * 8 * (2.10 + 0.11))


def test_an_item_may_be_priced_by_size(scenario, whole):
    text = whole.replace(
        "each: 0.06 USD/hour}",
        "each: 0.06 USD/hour}\n    - {what: cxl, per: 64 GB, each: 0.02 USD/hour}",
    )
    base, _, offload, _ = scenario(text).variants()
    extra = (price_per_second(offload) - price_per_second(base)) * 3600
    assert extra == pytest.approx(16 * 512 / 64 * 0.02)


def test_a_machine_may_be_priced_whole(scenario, whole):
    text = whole.replace("{what: gpu, each: 2.10 USD/hour}", "{what: node, each: 20 USD/hour}")
    assert price_per_second(scenario(text)) * 3600 == pytest.approx(16 * 20 + 16 * 8 * 0.06)


def test_nothing_priced_costs_nothing_known(scenario):
    assert price_per_second(scenario(set=["cost.items=[]", "what_if=[]"])) is None


def test_a_price_by_size_needs_the_size(scenario, whole):
    text = whole.replace(
        "{what: nic, each: 0.06 USD/hour}", "{what: nic, per: 1 GB, each: 1 USD/hour}"
    )
    with pytest.raises(
        ScenarioError, match=r"cost\.items: 'nic' is priced by size, but its size is unknown"
    ):
        price_per_second(scenario(text))


SWITCH = "- {what: nic, each: 0.06 USD/hour}\n    - {what: switch, each: 3 USD/hour}"


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ([], 6),  # 16 nodes of 8 NICs, 64 ports: four leaves, 128 uplinks, two spines
        (["cluster.fabric.oversubscription=3"], 4),  # three leaves, 48 uplinks
        (["cluster.nodes=4"], 1),
        (["cluster.fabric.topology=rail"], 8),  # a leaf for each NIC of a node, no spine is filled
    ],
)
def test_switches_are_paid_for_as_many_as_the_fabric_takes(scenario, whole, settings, count):
    text = whole.replace("- {what: nic, each: 0.06 USD/hour}", SWITCH)
    quiet = ["what_if=[]", "cluster.override={}", *settings]
    with_, without = (price_per_second(scenario(t, set=quiet)) for t in (text, whole))
    assert (with_ - without) * 3600 / 3 == pytest.approx(count)


def test_a_switch_that_is_not_there_has_no_price(scenario, whole):
    text = whole.replace("- {what: nic, each: 0.06 USD/hour}", SWITCH)
    bare = scenario(text.replace("switch: test-switch-5, ", ""), set=["what_if=[]"])
    with pytest.raises(ScenarioError, match=r"'switch' has a price, but cluster.fabric has no"):
        price_per_second(bare)
