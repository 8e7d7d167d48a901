"""Wording of the deciding metric: "an iteration", "TTFT p99", better and worse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..numbers import format_change, format_quantity

Answer = Mapping[str, str]


def metric_header(answer: Answer) -> str:
    """Column header of the deciding metric.

    >>> metric_header({"metric": "iteration_time.p50", "period": "iteration"})
    'iteration p50'
    >>> metric_header({"metric": "a.ttft.p99"})
    'a ttft p99'
    """
    if answer.get("period"):
        return f"{answer['period']} {answer['metric'].rpartition('.')[2]}"
    return metric_in_words(answer["metric"])


def metric_in_words(metric: str) -> str:
    """Name of a metric with spaces in place of underscores and dots.

    >>> metric_in_words("iteration_time.p50")
    'iteration time p50'
    """
    return metric.replace("_", " ").replace(".", " ")


def metric_subject(answer: Answer) -> str:
    """The metric as the subject of a sentence.

    >>> metric_subject({"metric": "iteration_time.p50", "period": "iteration"})
    'an iteration'
    >>> metric_subject({"metric": "a.iteration_time.p50", "period": "iteration", "job": "a"})
    'an iteration of a'
    >>> metric_subject({"metric": "ttft.p99"})
    'ttft p99'
    """
    period, job = answer.get("period", ""), answer.get("job", "")
    if not period:
        return metric_in_words(answer["metric"])
    of = f" of {job}" if job and answer["metric"].startswith(f"{job}.") else ""
    return f"{indefinite_article(period)} {period}{of}"


def timed_span(answer: Answer) -> str:
    """Text for the span that times refer to: one period, or the whole run.

    >>> timed_span({"metric": "ttft.p99"})
    'the run'
    """
    return metric_subject(answer) if answer.get("period") else "the run"


def indefinite_article(noun: str) -> str:
    """Indefinite article of a noun, "a" or "an".

    >>> indefinite_article("iteration"), indefinite_article("step")
    ('an', 'a')
    """
    return "an" if noun[0] in "aeiou" else "a"


def value_sentence(answer: Answer, value: float) -> str:
    """Clause with the value of the metric, such as "an iteration takes 3 ms".

    >>> value_sentence({"metric": "ttft.p99", "unit": "s"}, 0.25)
    'ttft p99 is 250 ms'
    """
    return (
        f"{metric_subject(answer)} {metric_verb(answer)} {format_quantity(value, answer['unit'])}"
    )


def metric_verb(answer: Answer) -> str:
    """Verb between the metric and its value: "takes" or "is".

    >>> iteration = {"metric": "iteration_time.p50", "period": "iteration"}
    >>> metric_verb(iteration), metric_verb({"metric": "ttft.p99"})
    ('takes', 'is')
    """
    return "takes" if answer.get("period") else "is"


def change_sentence(answer: Answer, name: str, ratio: float) -> str:
    """Clause on how a variant changes the metric.

    >>> change_sentence({"metric": "ttft.p99"}, "small", 0.5)
    'small raises ttft p99 by 50.0 %'
    >>> change_sentence({"metric": "iteration_time.p50", "period": "iteration"}, "fast", -0.1)
    'fast makes an iteration 10.0 % shorter'
    """
    size = f"{100 * abs(ratio):.1f} %"
    if answer.get("period"):
        return (
            f"{name} makes {metric_subject(answer)} {size} {'longer' if ratio > 0 else 'shorter'}"
        )
    return f"{name} {'raises' if ratio > 0 else 'lowers'} {metric_subject(answer)} by {size}"


def change_or_none_sentence(
    answer: Answer, name: str, ratio: float, threshold: float = 0.0005
) -> str:
    """Clause on how a variant changes the metric; below ``threshold``, that it does not."""
    if abs(ratio) < threshold:
        return f"{name} does not change {metric_subject(answer)}"
    return f"{name} changes {metric_subject(answer)} by {format_change(ratio)}"


def metric_value(point: Mapping[str, Any], answer: Answer) -> Mapping[str, Any]:
    """Value of the deciding metric in the summary of a variant."""
    found: Mapping[str, Any] = point["metrics"][answer["metric"]]
    return found


def better_sign(answer: Answer) -> int:
    """1 if a lower value of the metric is better, -1 if a higher one is."""
    return -1 if answer["better"] == "higher" else 1


def blame_window_text(point: Mapping[str, Any], answer: Answer) -> str:
    """Text on the span that blame covers; "" if it is the whole run.

    >>> window = {"first": 1.0, "last": 1.5, "samples": 2, "length": 0.75}
    >>> answer = {"metric": "ttft.p99", "unit": "s", "better": "lower"}
    >>> blame_window_text({"window": window}, answer)
    'Of the 750 ms around the highest percent of ttft: 2 samples. '
    >>> blame_window_text({}, {"metric": "makespan"})
    ''
    """
    window = point.get("window")
    if window is None:
        return ""
    if "repeated" in window:
        length = format_quantity(window["length"], "s")
        return (
            f"Of {window['repeated']}: {length}, which were run again for their ops; the path ends "
            "with the last op in it. "
        )
    name = metric_in_words(answer["metric"].rpartition(".")[0])
    end = "lowest" if better_sign(answer) < 0 else "highest"
    many = f"{window['samples']} sample{'s' * (window['samples'] != 1)}"
    length = format_quantity(window["length"], "s")
    return f"Of the {length} around the {end} percent of {name}: {many}. "
