"""What machines cost, and a million tokens on them."""

import pytest
from foretrace.scenarios.price import price
from foretrace.sim.errors import ScenarioError


def test_every_item_is_paid_for_as_often_as_it_is_there(scenario):
    base, nic, *_ = scenario().variants()
    hour = 16 * 8 * (2.10 + 0.06)
    assert price(base) * 3600 == pytest.approx(hour)
    assert price(nic) * 3600 == pytest.approx(16 * 8 * (2.10 + 0.11))


def test_an_item_may_be_priced_by_size(scenario, whole):
    text = whole.replace(
        "each: 0.06 USD/hour}",
        "each: 0.06 USD/hour}\n    - {what: cxl, per: 64 GB, each: 0.02 USD/hour}",
    )
    base, _, offload, _ = scenario(text).variants()
    extra = (price(offload) - price(base)) * 3600
    assert extra == pytest.approx(16 * 512 / 64 * 0.02)


def test_a_machine_may_be_priced_whole(scenario, whole):
    text = whole.replace("{what: gpu, each: 2.10 USD/hour}", "{what: node, each: 20 USD/hour}")
    assert price(scenario(text)) * 3600 == pytest.approx(16 * 20 + 16 * 8 * 0.06)


def test_nothing_priced_costs_nothing_known(scenario):
    assert price(scenario(set=["cost.items=[]", "what_if=[]"])) is None


def test_a_price_by_size_needs_the_size(scenario, whole):
    text = whole.replace(
        "{what: nic, each: 0.06 USD/hour}", "{what: nic, per: 1 GB, each: 1 USD/hour}"
    )
    with pytest.raises(
        ScenarioError, match=r"cost.items: 'nic' is priced by size, and nobody says"
    ):
        price(scenario(text))
