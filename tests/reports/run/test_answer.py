"""Answer sentences: better, worse, the same, or cannot tell; never more than is known."""

import pytest
from foretrace.reports.texts.answer import answer_sentences, variant_verdict
from foretrace.reports.texts.work_ratio import work_ratio
from foretrace.scenarios.cli.terminal.show import variants_table

ITERATION = {
    "job": "main", "metric": "iteration_time.p50", "unit": "s", "better": "lower",
    "period": "iteration",
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "interval", "told"),
    [
        (-0.1, None, "better"),
        (0.1, None, "worse"),
        (-0.1, (-0.12, -0.08), "better"),
        (0.02, (0.01, 0.03), "worse"),
        (-0.02, (-0.05, 0.01), "cannot tell"),
        (0.001, (-0.002, 0.003), "same"),
        (0.0, None, "same"),
    ],
)
def test_an_outcome_needs_an_interval_on_one_side(value, interval, told):
    assert variant_verdict({"change": {"value": value, "interval": interval}}, ITERATION) == told


def point(value=0.1, change=0.0, expect=(), **more):
    return {
        "metrics": {"iteration_time.p50": {"value": value, "interval": None}},
        "facts": {"ranks": 1},
        "change": {"value": change, "interval": None},
        "blame": {"node0.gpu0": 0.75, "gap": 0.25},
        "faster": [{"group": "gpu", "faster": 0.9, "gain": -0.1, "bound": -0.75}],
        "expect": list(expect),
        **more,
    }


def summary(**points):
    jitter = {"state": "unchecked", "starts": 1}
    provenance = {"inputs": {"measured": 2}, "calibration": "blind", "jitter": jitter}
    return {"points": points, "provenance": provenance, "answer": ITERATION}


def test_the_answer_in_full():
    assert answer_sentences(summary(base=point(), quick=point(0.08, -0.2))) == [
        "As described, an iteration takes 100 ms on 1 rank.",
        "quick makes an iteration 20.0 % shorter (80 ms).",
        "The critical path is node0.gpu0 for 75 % of its time; 10 % faster gpu parts would change "
        "the run by -10.0 %, instant ones by -75.0 % at most.",
        "This is a blind prediction: no measurement of what it predicts went into it; its inputs "
        "are 2 measured.",
    ]


def test_an_interval_without_jitter_says_so():
    base = point()
    base["metrics"]["iteration_time.p50"] |= {"interval": (0.099, 0.101), "interval_of": ["model"]}
    told = "As described, an iteration takes 100 ms (±1 %, jitter left out) on 1 rank."
    assert answer_sentences(summary(base=base))[0] == told


def test_a_variant_that_changes_nothing_says_so():
    told = answer_sentences(summary(base=point(), same=point()))
    assert "same does not change an iteration (100 ms)." in told


def test_a_variant_that_costs_more_says_so():
    priced = {"base": point(), "dearer": point(), "as dear": point(), "unsure": point()}
    priced["unsure"]["change"] = {"value": 0.01, "interval": (-0.02, 0.04)}
    for name, usd in zip(priced, (5.0, 9.5, 5.01, 5.05), strict=True):
        priced[name]["metrics"]["cost_per_million_tokens"] = {"value": usd, "interval": None}
    assert answer_sentences(summary(**priced))[1:4] == [
        "dearer does not change an iteration (100 ms); a million tokens cost 90.0 % more "
        "(9.5 USD).",
        "as dear does not change an iteration (100 ms).",
        "unsure: cannot tell, the interval of the change (+1.0 %) contains 0 (100 ms).",
    ]


def working(seconds, tokens, **more):
    made = point(seconds, **more)
    made["metrics"]["tokens_per_second.p50"] = {"value": tokens / seconds, "interval": None}
    return made


def test_the_work_of_a_larger_job_is_exact_where_periods_alternate():
    """The median rate times the median period gave 4.04 for four ranks with equal tokens."""
    answer = {"metric": "iteration_time.p50", "period": "iteration"}

    def alternating(tokens, *times):
        rates = [tokens / t for t in times]
        of = {"iteration_time": times, "tokens_per_second": rates}
        words = {"min": min, "p50": lambda v: sum(v) / len(v), "max": max}
        values = {
            f"{name}.{word}": {"value": statistic(v)}
            for name, v in of.items()
            for word, statistic in words.items()
        }
        return {"metrics": values}

    base, four = alternating(1000, 0.035, 0.069), alternating(4000, 0.04, 0.041)
    assert work_ratio(four, base, answer) == pytest.approx(4, abs=1e-12)


def test_a_larger_job_is_compared_by_its_work_and_not_only_by_its_iteration():
    larger = working(0.15, 4000, change=0.5)
    told = answer_sentences(summary(base=working(0.1, 1000), larger=larger))
    assert told[1] == (
        "larger trains 2.67 times the tokens per second (4 times the work in 150 ms)."
    )
    larger["change"]["interval"] = (0.25, 0.6)
    told = answer_sentences(summary(base=working(0.1, 1000), larger=larger))
    assert "trains 2.67 times the tokens per second (2.5 to 3.2; 4 times the work" in told[1]
    same = working(0.15, 1000, change=0.5)
    told = answer_sentences(summary(base=working(0.1, 1000), same=same))
    assert told[1] == "same makes an iteration 50.0 % longer (150 ms)."


def test_idle_gpus_are_mentioned():
    told = answer_sentences(summary(base=point(facts={"ranks": 8, "gpus": 32})))
    assert told[0].endswith("on 8 ranks; 24 of 32 GPUs stand idle.")
    assert answer_sentences(summary(base=point(facts={"ranks": 8, "gpus": 8})))[0].endswith(
        "8 ranks."
    )


def test_the_cost_of_the_work_has_its_interval():
    priced = point()
    priced["metrics"]["cost_per_million_tokens"] = {"value": 2.0, "interval": (1.5, 2.5)}
    told = answer_sentences(summary(base=priced))
    assert told[0].endswith("; a million tokens cost 2 USD (±25 %).")


@pytest.mark.parametrize(
    ("effects", "told"),
    [((0.0, -0.02, None), "Of 2 unmeasured values tried, b matters most: 10 % off, an iteration "
                          "changes by -2.0 %."),
     ((None, None, None), "There is no unmeasured value to try 10 % off."),
     ((0.0, 1e-5, None), "None of 2 unmeasured values tried changes an iteration if it is "
                         "10 % off.")],
)  # fmt: skip
def test_results_of_defend_are_in_the_answer(effects, told):
    asked = summary(base=point())
    values = [{"path": path, "effect": e} for path, e in zip("abc", effects, strict=True)]
    flips = [{"component": "nic", "answer": True, "error": None}]
    assert not any("unmeasured" in s for s in answer_sentences(asked))
    asked["provenance"] |= {"values": values, "break_even": flips}
    said = answer_sentences(asked)
    assert told in said
    assert "The answer holds if nic is half or twice as fast." in said


def test_a_missed_expectation_shows_its_value():
    missed = {"that": "iteration_time.p50 <= 1 ms", "value": 0.1, "met": False}
    unknown = {"that": "cost_per_hour <= 9 USD", "value": None, "met": False}
    with_unit = missed | {"that": "iteration_time.p50 <= 2 ms", "unit": "s"}
    told = answer_sentences(summary(base=point(expect=[missed, unknown, with_unit])))
    assert "Not met: iteration_time.p50 <= 1 ms (it is 0.1)." in told
    assert "Not met: iteration_time.p50 <= 2 ms (it is 100 ms)." in told
    assert "Not met: cost_per_hour <= 9 USD (the run has no such metric)." in told


def test_the_answer_says_if_no_faster_part_helps():
    told = answer_sentences(summary(base=point(faster=[])))
    assert any("making any kind of part 10 % faster gains at most" in text for text in told)


def test_an_unreliable_interval_is_called_unresolved():
    told = summary(base=point(1.0))
    told["provenance"]["jitter"] = {
        "state": "unresolved", "starts": 8, "steps": 240, "held": 0.71, "bar": (0.8, 0.97)
    }  # fmt: skip
    (said,) = [s for s in answer_sentences(told) if "unresolved" in s]
    assert "contain 71 % of 240 held-out steps, and 80 to 97 % are expected" in said
    told["provenance"]["jitter"]["state"] = "held"
    assert not any("unresolved" in s for s in answer_sentences(told))


TTFT = {"job": "main", "metric": "ttft.p99", "unit": "s", "better": "lower"}
THROUGHPUT = {"job": "a", "metric": "a.throughput.p50", "unit": "token/s", "better": "higher"}


def answered(answer, **points):
    """Sentences of a summary whose deciding metric is not the time of an iteration."""
    for one in points.values():
        one["metrics"] = {answer["metric"]: one["metrics"]["iteration_time.p50"]}
    return answer_sentences(summary(**points) | {"answer": answer})


def test_another_deciding_metric_has_its_own_words():
    told = answered(TTFT, base=point(0.1), half=point(0.2, 1.0), same=point())
    assert told[:3] == [
        "As described, ttft p99 is 100 ms on 1 rank.",
        "half raises ttft p99 by 100.0 % (200 ms).",
        "same does not change ttft p99 (100 ms).",
    ]
    assert "10 % faster gpu parts would change ttft p99 by -10.0 %" in told[3]


def test_if_higher_is_better_the_verdicts_are_reversed():
    parts = [{"group": g, "faster": f, "gain": f / 100 - 1, "bound": 0.5}
             for g, f in (("gpu", 110.0), ("nic", 104.0))]  # fmt: skip
    assert variant_verdict({"change": {"value": 0.1, "interval": None}}, THROUGHPUT) == "better"
    told = answered(THROUGHPUT, base=point(100.0, faster=parts))
    assert "10 % faster gpu parts would change a throughput p50 by +10.0 %" in told[1]


def test_blame_of_a_window_says_so():
    window = {"first": 1.0, "last": 1.5, "samples": 2, "length": 0.5}
    told = answered(TTFT, base=point(window=window))
    assert "of its time, around the worst percent of the answer (500 ms in total)" in told[1]


def test_a_cost_that_is_the_answer_is_shown_once():
    told = summary(base=point(), dearer=point(change=0.5))
    told["answer"] = {"metric": "cost_per_million_tokens", "unit": "USD", "better": "lower"}
    for one, usd in zip(told["points"].values(), (2.0, 3.0), strict=True):
        one["metrics"]["cost_per_million_tokens"] = {"value": usd, "interval": None, "unit": "USD"}
    assert answer_sentences(told)[:2] == [
        "As described, cost per million tokens is 2 USD on 1 rank.",
        "dearer raises cost per million tokens by 50.0 % (3 USD).",
    ]
    (_, _, *others) = [str(column.header) for column in variants_table(told).columns]
    assert others == ["change", "expectations"]
