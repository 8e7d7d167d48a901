"""Scaling curves of a sweep, and blame by kind of component."""

import pytest
from foretrace.reports.run.blame import blame_by_kind
from foretrace.reports.sweep.scaling import RATE, scaling_curves

NODES, NIC = "cluster.nodes, workload.scale_to.parallel.data", "cluster.node.nic.bandwidth"


def summary():
    rates = {(2, "1 Gb/s"): 10.0, (4, "1 Gb/s"): 12.0, (8, "1 Gb/s"): 20.0,
             (2, "10 Gb/s"): 20.0, (4, "10 Gb/s"): 40.0}  # fmt: skip
    return {
        "vary": {NODES: [2, 4, 8], NIC: ["1 Gb/s", "10 Gb/s"]},
        "points": [
            *({"set": {NODES: n, NIC: nic}, "values": {RATE: v}} for (n, nic), v in rates.items()),
            {"set": {NODES: 8, NIC: "10 Gb/s"}, "error": {"message": "no room"}},
        ],
    }  # fmt: skip


def test_a_curve_is_of_points_that_differ_in_one_number_alone():
    quick, slow = scaling_curves(summary(), NODES)
    assert (quick.name, quick.counts, quick.rates) == ("bandwidth = 10 Gb/s", [2, 4], [20.0, 40.0])
    assert slow.efficiency == pytest.approx([1.0, 0.6, 0.5])


def test_a_curve_is_not_named_by_what_all_points_have_alike():
    """A plan search fixes settings to one value; they once filled three lines of a curve's name."""
    told = summary()
    told["vary"]["workload.parallel.zero"] = [1]
    for point in told["points"]:
        point["set"]["workload.parallel.zero"] = 1
    names = [curve.name for curve in scaling_curves(told, NODES)]
    assert names == ["bandwidth = 10 Gb/s", "bandwidth = 1 Gb/s"]


def test_a_setting_that_is_no_number_of_parts_has_no_curve():
    assert scaling_curves(summary(), NIC) == []


def test_how_a_model_is_split_over_the_same_gpus_is_no_number_of_parts():
    split = "workload.parallel.tensor"
    points = [{"set": {split: n}, "values": {RATE: 10.0 / n}} for n in (1, 2)]
    assert scaling_curves({"vary": {split: [1, 2]}, "points": points}, split) == []


def test_blame_is_by_kind_and_adds_up_to_the_headline(small):
    """By component, ``node7.gpu7`` and ``node15.gpu7`` of two variants cannot be compared."""
    point = {"blame": {"node0.gpu0": 2.0, "node1.gpu0": 1.0, "gap": 1.0}}
    found = blame_by_kind(point, small.results["base"], 2.0)
    assert found == {"gpu": 1.5, "gap": 0.5}
