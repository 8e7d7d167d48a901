"""Warnings for what is legal and probably wrong."""

import pytest


@pytest.mark.parametrize(
    ("old", "new", "said", "place"),
    [
        (
            "bandwidth: 200 Gb/s",
            "bandwidth: 8 Gb/s",
            "'8 Gb/s' is slow for a NIC; did you mean '8 GB/s'?",
            "s.yaml:16:51  cluster.node.nic.bandwidth",
        ),
        (
            "latency: 1.3 us",
            "latency: 5 s",
            "a latency of '5 s' is long; did you mean microseconds?",
            "s.yaml:16:70  cluster.node.nic.latency",
        ),
        (
            "{model: test-gpu-80g, count: 8}",
            "{model: test-gpu-80g, count: 8, memory: 80 Gb}",
            "'80 Gb' is in bits; did you mean '80 GB'?",
            "s.yaml:15:50  cluster.node.gpu.memory",
        ),
        (
            "set: {cluster.node.nic.bandwidth: 400 Gb/s}",
            "set: {cluster.node.nic.bandwidth: 200 Gb/s}",
            "'cluster.node.nic.bandwidth' is already '200 Gb/s', so this has no effect",
            "s.yaml:38:39  what_if.0.set",
        ),
        (
            "set: {cluster.node.nic.bandwidth: 400 Gb/s}",
            "set: {cluster.node.nic.bandwidth: 4 Gb/s}",
            "'4 Gb/s' is slow for a NIC; did you mean '4 GB/s'?",
            "s.yaml:38:39  what_if.0.set",
        ),
    ],
)
def test_a_doubt_is_a_warning_with_a_guess(scenario, whole, old, new, said, place):
    found = scenario(whole.replace(old, new)).warnings
    assert [p.message for p in found] == [said]
    assert str(found[0]).splitlines()[:2] == [f"warning {said}", f"  {place}"]
    assert found[0].facts()["severity"] == "warning"


def test_a_sound_scenario_raises_no_doubt(scenario):
    assert scenario().warnings == ()


def test_the_catalog_is_not_doubted(scenario, whole):
    text = whole.replace("bandwidth: 200 Gb/s, latency: 1.3 us", "bandwidth: 200 Gb/s")
    assert scenario(text).warnings == ()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["cluster.nodes=8"],
            "64 NICs fit on one leaf switch of 64 ports, so there is no spine; leave it out, or "
            "write a smaller cluster.fabric.switch.ports",
        ),
        (
            ["cluster.fabric.switch=null"],
            "there is no switch; write cluster.fabric.switch with its number of ports",
        ),
        (["cluster.nodes=16"], ""),
        (["cluster.nodes=8", "cluster.fabric.topology=rail"], ""),
    ],
)
def test_oversubscription_of_no_spine_is_doubted(scenario, whole, settings, said):
    """Of 8 rails each has a leaf of its own, and a spine joins them."""
    text = whole.replace("oversubscription: 1}", "oversubscription: 2}")
    bare = scenario(text, set=["what_if=[]", "cluster.override={}", *settings])
    assert [p.message for p in bare.warnings] == [f"'2' has no effect: {said}"] * bool(said)
    for problem in bare.warnings:
        assert str(problem).splitlines()[1] == "  s.yaml:21:73  cluster.fabric.oversubscription"


def test_more_machines_than_can_be_listed_have_a_spine(scenario, whole):
    """Told by arithmetic: a list of them would never end."""
    assert scenario(whole, set=["cluster.nodes=1000000000000"]).warnings == ()


PORT = (
    "'800 Gb/s' is not reached: a switch port has only 400 Gb/s; give "
    "cluster.fabric.switch another model or bandwidth"
)
PCIE = (
    "'800 Gb/s' is not reached: the links from its GPUs carry only 504 Gb/s "
    "(cluster.node.links.1); give that link another kind (via) or bandwidth"
)
SLOW_PORT = "cluster.fabric.switch.bandwidth=400 Gb/s"
QUICK_LINK = "cluster.node.links.1.bandwidth=126 GB/s"


@pytest.mark.parametrize(
    ("rate", "settings", "doubts"),
    [
        ("800 Gb/s", [SLOW_PORT], [PORT, PCIE]),
        ("800 Gb/s", [SLOW_PORT, QUICK_LINK], [PORT]),
        ("800 Gb/s", [], [PCIE]),
        ("400 Gb/s", [SLOW_PORT], []),
        ("800 Gb/s", ["cluster.node.nic.count=4"], []),  # by the links of two GPUs
    ],
)
def test_a_nic_quicker_than_what_it_is_plugged_into_is_doubted(
    scenario, whole, rate, settings, doubts
):
    """That a quicker NIC changes nothing would be an answer to another question."""
    change = "set: {cluster.node.nic.bandwidth: 400 Gb/s}"
    text = whole.replace(change, change.replace("400 Gb/s", rate))
    assert [p.message for p in scenario(text, set=settings).warnings] == doubts


def test_a_nic_by_its_model_is_doubted_where_it_is_named(scenario, whole):
    text = whole.replace(", bandwidth: 200 Gb/s, latency: 1.3 us", "")
    (doubt,) = scenario(text, set=["cluster.node.links.1.bandwidth=8 GB/s"]).warnings[:1]
    assert doubt.message.startswith("'test-nic-7' is not reached: the links from its GPUs")
    assert str(doubt).splitlines()[1] == "  s.yaml:16:18  cluster.node.nic.model"


SWEPT = "sweep:\n  vary:\n    cluster.node.nic.bandwidth: [200 Gb/s, 400 Gb/s, 800 Gb/s]\n"


def test_a_value_of_a_sweep_is_doubted_at_its_place(scenario, whole):
    (port, pcie) = scenario(whole + SWEPT, set=[SLOW_PORT]).warnings
    assert (port.message, pcie.message) == (PORT, PCIE)
    line = len(whole.splitlines()) + 3
    for doubt in (port, pcie):
        where = f"  s.yaml:{line}:54  sweep.vary.cluster.node.nic.bandwidth"
        assert str(doubt).splitlines()[1] == where


def test_ends_of_a_range_are_doubted_and_nothing_that_nobody_wrote(scenario, whole):
    said = "{from: 100 Gb/s, to: 800 Gb/s, step: 100 Gb/s}"
    text = whole + SWEPT.replace("[200 Gb/s, 400 Gb/s, 800 Gb/s]", said)
    assert [p.message for p in scenario(text).warnings] == [PCIE]


@pytest.mark.parametrize(
    ("beside", "doubts"),
    [
        ("cluster.node.links.1.bandwidth: [63 GB/s, 126 GB/s]", []),
        ("cluster.nodes: [8, 16]", [PCIE]),
    ],
)
def test_a_value_that_another_of_the_sweep_makes_room_for_is_not_doubted(
    scenario, whole, beside, doubts
):
    found = scenario(f"{whole}{SWEPT}    {beside}\n").warnings
    assert [p.message for p in found] == doubts


def test_what_is_raised_together_in_a_sweep_is_not_doubted(scenario, whole):
    paths = "cluster.node.nic.bandwidth, cluster.node.links.1.bandwidth"
    text = f"{whole}sweep:\n  vary:\n    {paths}: [400 Gb/s, 800 Gb/s]\n"
    assert scenario(text).warnings == ()
