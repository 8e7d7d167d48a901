"""Value for money in a sweep: exact prices, and gains with intervals."""

import re

import pytest
from foretrace.reports.run.cost_against_time import cost_against_time
from foretrace.reports.sweep.cost_ladder import cost_ladder, cost_sentences
from foretrace.reports.sweep.sweep_answer import answer_sentences
from foretrace.reports.sweep.sweep_page import sweep_page
from foretrace.reports.sweep.trade_offs import ladder_rows
from foretrace.reports.texts.study import StudyShown

RUN = {"resolved": "", "command": "foretrace sweep s.yaml", "run": "0", "title": "",
       "file": "s.yaml"}  # fmt: skip
TIME = "iteration_time.p50"


def one(nodes, price, time, half=None, missed=(), unsure=()):
    bounds = {} if half is None else {TIME: [time - half, time + half]}
    return {"set": {"cluster.nodes": nodes}, "values": {TIME: time, "cost_per_hour": price},
            "intervals": bounds, "missed": list(missed), "warned": [], "unsure": list(unsure),
            "front": nodes == 2}  # fmt: skip


def swept(*points, expect=("iteration_time.p50 <= 450 ms",)):
    return {
        "name": "many", "question": "How many?", "no_effect": [],
        "expect": [{"that": t, "otherwise": "fail", "metric": TIME, "limit": 0.45} for t in expect],
        "method": {"name": "grid", "sampler": "grid", "seed": 1},
        "vary": {"cluster.nodes": [p["set"]["cluster.nodes"] for p in points]},
        "optimize": [{"minimize": TIME, "unit": "s"}],
        "counts": {"asked": len(points), "points": len(points), "failed": 0,
                   "missed": sum(bool(p["missed"]) for p in points), "front": 1},
        "base": {**points[0], "set": {}}, "points": list(points),
    }  # fmt: skip


MISS = ("iteration_time.p50 <= 450 ms",)
POINTS = (
    one(1, 1.0, 0.8, 0.01, missed=MISS),
    one(2, 2.0, 0.4, 0.01),
    one(3, 3.0, 0.45, 0.01),  # dearer and slower: nobody buys it
    one(4, 4.0, 0.2, 0.01),
    one(8, 8.0, 0.195, 0.01),
)


def test_the_cheapest_point_that_meets_expectations_is_named_with_the_next_gain():
    cheapest, dollar = cost_sentences(swept(*POINTS))
    assert cheapest == (
        "The lowest price that meets the expectations is 2.00 USD/hour, with nodes = 2."
    )
    assert dollar == (
        "2.00 USD/hour more, for nodes = 4, changes iteration time p50 by -50.0 %: "
        "100 ms less for each USD/hour."
    )


def test_a_step_whose_intervals_overlap_is_not_called_better():
    rungs = cost_ladder(swept(*POINTS))
    assert [r.point["set"]["cluster.nodes"] for r in rungs] == [2, 4, 8]
    assert [r.outcome for r in rungs] == ["", "better", "cannot tell"]
    assert [row[5] for row in ladder_rows(swept(*POINTS))] == [
        "", "100 ms less for each USD/hour", "",
    ]  # fmt: skip


def test_a_first_step_within_the_interval_is_called_uncertain():
    close = swept(one(2, 2.0, 0.4, 0.01), one(4, 4.0, 0.395, 0.01))
    assert (
        "may gain nothing: cannot tell, because the intervals of the two overlap."
        in cost_sentences(close)[-1]
    )


def test_without_intervals_nothing_is_called_better():
    said = cost_sentences(swept(one(2, 2.0, 0.4), one(4, 4.0, 0.2)))[-1]
    assert said.endswith("use ten replicas to get an interval.")


def test_a_limit_within_the_interval_of_the_cheapest_point_is_uncertain():
    near = one(2, 2.0, 0.445, 0.01, unsure=MISS)
    _, doubt, _ = cost_sentences(swept(near, one(4, 4.0, 0.2, 0.01)))
    assert doubt == (
        "Cannot tell whether it does: the limit of iteration_time.p50 <= 450 ms is within its "
        "interval; the lowest that certainly does is 4.00 USD/hour, with nodes = 4."
    )


def test_a_higher_price_without_gain_is_mentioned():
    assert cost_sentences(swept(one(2, 2.0, 0.2), one(4, 4.0, 0.4)))[-1] == (
        "A higher price gains nothing here: no point that costs more has a better "
        "iteration time p50."
    )


@pytest.mark.parametrize("points", [(one(1, 1.0, 0.8, missed=MISS),)])
def test_no_cost_sentence_if_no_point_meets_the_expectations(points):
    assert cost_sentences(swept(*points)) == []


def test_a_sweep_without_prices_has_no_such_section():
    free = one(2, 2.0, 0.4)
    del free["values"]["cost_per_hour"]
    assert 'id="capacity"' not in sweep_page(swept(free), RUN)
    html = sweep_page(swept(*POINTS), RUN)
    assert 'id="capacity"' in html
    assert '<span class="tag cannot-tell">cannot tell</span>' in html
    assert "what it costs" in html


def test_requested_sections_are_shown_in_the_given_order():
    html = sweep_page(swept(*POINTS), RUN, ("capacity", "answer", "blame"))
    assert re.findall(r'<section id="(.*?)"', html) == ["capacity", "answer", "points"]
    every = re.findall(r'<section id="(.*?)"', sweep_page(swept(*POINTS), RUN))
    assert every == ["answer", "capacity", "sensitivity", "points", "reproduce"]


TOKENS = "cost_per_million_tokens"


def priced(tensor, pipeline, price, tokens):
    point = one(2, price, 0.4, 0.01)
    point["set"] = {"parallel.tensor, parallel.pipeline": f"{tensor}, {pipeline}"}
    point["values"] |= {TOKENS: tokens}
    point["intervals"] |= {TOKENS: [tokens * 0.99, tokens * 1.01]}
    return point


def swept_by_two():
    points = priced(4, 2, 2.0, 0.004), priced(2, 4, 3.0, 0.003)
    summary = swept(*(p | {"set": {"cluster.nodes": 2}} for p in points))
    for shown, point in zip(points, summary["points"], strict=True):
        point["set"] = shown["set"]
        point["front"] = True
    return summary | {
        "vary": {"parallel.tensor, parallel.pipeline": [[4, 2], [2, 4]]},
        "optimize": [{"minimize": TOKENS, "unit": "USD"}, {"minimize": TIME, "unit": "s"}],
    }


def test_settings_that_vary_together_are_each_named():
    summary = swept_by_two()
    assert "3.00 USD/hour" not in cost_sentences(summary)[0]
    assert cost_sentences(summary)[0].endswith("2.00 USD/hour, with tensor = 4, pipeline = 2.")
    page = sweep_page(summary, RUN)
    assert "tensor = 4 (2)" not in page
    assert ">tensor, pipeline</th>" in page


def test_one_thing_alone_is_the_lowest_price_and_no_two_are_the_cheapest():
    summary = swept_by_two()
    lines = answer_sentences(summary)
    assert [line for line in lines if "cheapest" in line] == []
    assert sum("cost per million tokens" in line for line in lines[:1]) == 1
    assert sum("ost least" in line for line in lines) == 0  # the answer has said it


def test_money_has_one_unit_in_tables_and_figures():
    page = sweep_page(swept_by_two(), RUN)
    assert "0.004 USD" in page
    assert "mUSD" not in page


def test_variants_with_prices_are_shown_by_cost_against_time():
    def variant(rate, usd):
        return {"metrics": {"tokens_per_second.p50": {"value": rate}, TOKENS: {"value": usd}}}

    points = {
        "base": variant(1e6, 2.0),
        "quick": variant(2e6, 3.0),
        "poor": variant(0.5e6, 2.5),
        "unpriced": {"metrics": {"tokens_per_second.p50": {"value": 1.0}}},
    }
    _, table, plot = cost_against_time(StudyShown({"points": points}, {}, {}))
    assert table.rows == [
        ["base", "1 s", "2 USD", "on the front"],
        ["quick", "500 ms", "3 USD", "on the front"],
        ["poor", "2 s", "2.5 USD", "dominated by base"],
    ]
    front, behind = plot.axes[0].series
    assert [list(front.x), list(behind.x)] == [[0.5, 1.0], [2.0]]
    two = {name: points[name] for name in ("base", "quick")}
    assert list(cost_against_time(StudyShown({"points": two}, {}, {}))) == []
