"""Feasible range of the only varied setting, with the values next to its ends."""

import pytest
from foretrace.reports.sweep.feasible_range import feasible_range_text
from foretrace.reports.sweep.sweep_answer import lead_sentences
from foretrace.reports.sweep.sweep_page import sweep_page

TIME = "iteration_time.p50"
BAR = f"{TIME} <= 3 s"
RUN = {"resolved": "", "command": "foretrace sweep s.yaml", "run": "0", "title": "",
       "file": "s.yaml"}  # fmt: skip


def one(setting, value, meets=True, unsure=False, time=1.0):
    bars = {"missed": [] if meets else [BAR], "warned": [], "unsure": [BAR] if unsure else []}
    values = {"values": {TIME: time}, "intervals": {}, "front": False}
    return {"set": {setting: value}, **values, **bars}


def swept(*points, setting="cluster.nodes", base=True):
    return {
        "name": "many", "question": "How many?", "no_effect": [],
        "expect": [{"that": BAR, "otherwise": "fail", "metric": TIME, "limit": 3.0}],
        "method": {"name": "grid", "sampler": "grid", "seed": 1},
        "vary": {setting: [next(iter(p["set"].values())) for p in points]},
        "optimize": [{"minimize": TIME, "unit": "s"}],
        "counts": {"asked": 4, "points": 4, "failed": 0, "missed": 0, "front": 0},
        "base": {**one(setting, 0, base, time=2.0), "set": {}}, "points": list(points),
    }  # fmt: skip


def nodes(*meets):
    """Points with 1, 2, 4 … machines that meet the expectation or not, in reverse order."""
    return swept(*reversed([one("cluster.nodes", 2**i, m) for i, m in enumerate(meets)]))


@pytest.mark.parametrize(
    ("meets", "said"),
    [
        ((1, 1, 0, 0), f"nodes can be at most 2: 4 misses {BAR}."),
        ((0, 0, 0, 1), f"nodes must be at least 8: 4 misses {BAR}."),
        ((0, 1, 1, 0), f"nodes can be 2 to 4: 1 misses {BAR}, 8 misses {BAR}."),
        (
            (1, 1, 1, 1),
            "nodes can have any value that was tried, 1 to 8: all meet the expectations.",
        ),
    ],
)
def test_the_feasible_range_ends_next_to_a_value_that_misses(meets, said):
    assert feasible_range_text(nodes(*meets)) == [said]


@pytest.mark.parametrize("meets", [(1, 0, 1, 1), (0, 0, 0, 0), (1,)])
def test_no_feasible_range_without_a_clear_edge(meets):
    assert feasible_range_text(nodes(*meets)) == []


def test_values_are_ordered_by_size_and_not_by_their_text():
    rates = [("800 Mb/s", False), ("10 Gb/s", True), ("1.6 Gb/s", False), ("40 Gb/s", True)]
    (said,) = feasible_range_text(swept(*(one("cluster.node.nic.bandwidth", *r) for r in rates),
                           setting="cluster.node.nic.bandwidth"))  # fmt: skip
    assert said == f"bandwidth must be at least 10 Gb/s: 1.6 Gb/s misses {BAR}."


def test_unordered_settings_and_two_settings_have_no_feasible_range():
    named = [one("cluster.fabric.library", n, m) for n, m in (("gloo", False), ("nccl", True))]
    assert feasible_range_text(swept(*named, setting="cluster.fabric.library")) == []
    two = nodes(1, 1, 0, 0)
    assert feasible_range_text({**two, "vary": {**two["vary"], "run.seed": [1, 2]}}) == []
    assert feasible_range_text({**two, "expect": []}) == []


def test_an_edge_whose_interval_contains_the_limit_is_uncertain():
    points = [one("cluster.nodes", 1), one("cluster.nodes", 2, unsure=True),
              one("cluster.nodes", 4, meets=False)]  # fmt: skip
    assert (
        feasible_range_text(swept(*points))[1]
        == "Cannot tell for 2: its interval contains the limit."
    )


def test_a_failed_point_does_not_count_as_a_miss():
    failed = {"set": {"cluster.nodes": 4}, "error": {"message": "no"}}
    assert feasible_range_text(swept(one("cluster.nodes", 1), one("cluster.nodes", 2), failed)) == [
        "nodes can be at most 2: 4 failed."
    ]


@pytest.mark.parametrize(
    ("base", "said"),
    [
        (True, "; as described it is 2 s (-50.0 %)."),
        (False, f"; as described it is 2 s, but misses {BAR}."),
    ],
)
def test_a_base_that_misses_expectations_is_no_reference(base, said):
    best = one("cluster.nodes", 2) | {"front": True}
    summary = swept(best, one("cluster.nodes", 4, meets=False), base=base)
    first, edge = lead_sentences(summary)
    assert first.endswith(said)
    assert edge == f"nodes can be at most 2: 4 misses {BAR}."
    assert (">misses</span></th>" in sweep_page(summary, RUN)) == (not base)
