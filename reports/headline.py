"""Wording of the deciding metric: "an iteration", "TTFT p99", better and worse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .numbers import change, format_quantity

Answer = Mapping[str, str]


def column(answer: Answer) -> str:
    """Column header of the deciding metric.

    >>> column({"metric": "iteration_time.p50", "period": "iteration"})
    'iteration p50'
    >>> column({"metric": "a.ttft.p99"})
    'a ttft p99'
    """
    if answer.get("period"):
        return f"{answer['period']} {answer['metric'].rpartition('.')[2]}"
    return plainly(answer["metric"])


def plainly(metric: str) -> str:
    """A metric's name in words.

    >>> plainly("iteration_time.p50")
    'iteration time p50'
    """
    return metric.replace("_", " ").replace(".", " ")


def subject(answer: Answer) -> str:
    """Subject of a sentence about the metric: what changes or does not.

    >>> subject({"metric": "iteration_time.p50", "period": "iteration"})
    'an iteration'
    >>> subject({"metric": "a.iteration_time.p50", "period": "iteration", "job": "a"})
    'an iteration of a'
    >>> subject({"metric": "ttft.p99"})
    'ttft p99'
    """
    period, job = answer.get("period", ""), answer.get("job", "")
    if not period:
        return plainly(answer["metric"])
    of = f" of {job}" if job and answer["metric"].startswith(f"{job}.") else ""
    return f"{article(period)} {period}{of}"


def part(answer: Answer) -> str:
    """The span that times are of: one period, or the whole run.

    >>> part({"metric": "ttft.p99"})
    'the run'
    """
    return subject(answer) if answer.get("period") else "the run"


def article(noun: str) -> str:
    """Indefinite article of a noun.

    >>> article("iteration"), article("step")
    ('an', 'a')
    """
    return "an" if noun[0] in "aeiou" else "a"


def amounts(answer: Answer, value: float) -> str:
    """Sentence of the value of the metric: "an iteration takes 3 ms".

    >>> amounts({"metric": "ttft.p99", "unit": "s"}, 0.25)
    'ttft p99 is 250 ms'
    """
    return f"{subject(answer)} {verb(answer)} {format_quantity(value, answer['unit'])}"


def verb(answer: Answer) -> str:
    """The verb between the answer and its value.

    >>> verb({"metric": "iteration_time.p50", "period": "iteration"}), verb({"metric": "ttft.p99"})
    ('takes', 'is')
    """
    return "takes" if answer.get("period") else "is"


def changed(answer: Answer, name: str, ratio: float) -> str:
    """Sentence of how a variant changes the metric.

    >>> changed({"metric": "ttft.p99"}, "small", 0.5)
    'small raises ttft p99 by 50.0 %'
    >>> changed({"metric": "iteration_time.p50", "period": "iteration"}, "fast", -0.1)
    'fast makes an iteration 10.0 % shorter'
    """
    size = f"{100 * abs(ratio):.1f} %"
    if answer.get("period"):
        return f"{name} makes {subject(answer)} {size} {'longer' if ratio > 0 else 'shorter'}"
    return f"{name} {'raises' if ratio > 0 else 'lowers'} {subject(answer)} by {size}"


def unchanged(answer: Answer, name: str, ratio: float, least: float = 0.0005) -> str:
    """Sentence of the change a variant makes, "does not change" where it is tiny."""
    if abs(ratio) < least:
        return f"{name} does not change {subject(answer)}"
    return f"{name} changes {subject(answer)} by {change(ratio)}"


def value_of(point: Mapping[str, Any], answer: Answer) -> Mapping[str, Any]:
    """Value of the deciding metric at one point."""
    found: Mapping[str, Any] = point["metrics"][answer["metric"]]
    return found


def sign(answer: Answer) -> int:
    """1 where a lower value is better, -1 where a higher one is."""
    return -1 if answer["better"] == "higher" else 1


def window_text(point: Mapping[str, Any], answer: Answer) -> str:
    """The span that blame covers, in words, where it is not the whole run; else "".

    >>> window = {"first": 1.0, "last": 1.5, "samples": 2, "length": 0.75}
    >>> window_text({"window": window}, {"metric": "ttft.p99", "unit": "s", "better": "lower"})
    'Of the 750 ms around the highest percent of ttft: 2 samples. '
    >>> window_text({}, {"metric": "makespan"})
    ''
    """
    window = point.get("window")
    if window is None:
        return ""
    name = plainly(answer["metric"].rpartition(".")[0])
    end = "lowest" if sign(answer) < 0 else "highest"
    many = f"{window['samples']} sample{'s' * (window['samples'] != 1)}"
    length = format_quantity(window["length"], "s")
    return f"Of the {length} around the {end} percent of {name}: {many}. "
