"""First screen of a run's page: answer, variants, what limits the run, next steps, trust."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..blocks import BarChart, Block, Column, FirstScreen, Inline, Line, Small, Table, Tag
from ..figures import schedule
from ..numbers import format_change, format_half_width, format_quantity, three_digits
from ..section import section
from ..texts.advice import next_steps
from ..texts.answer import (
    BLIND,
    caveat_sentences,
    expectation_sentences,
    has_token_price,
    inputs_sentence,
    jitter_sentence,
    leading_sentences,
    limit_sentences,
    token_price_text,
    variant_verdict,
)
from ..texts.changed_ops import changed_ops_sentences
from ..texts.headline import Answer, metric_header, metric_value, timed_span
from ..texts.recording import recording_sentences
from ..texts.robustness import break_even_text
from ..texts.study import Point, StudyShown
from ..texts.waiting import last_arriver_sentence
from ..texts.work_ratio import work_ratio

LEAD = 4  # sentences above the table; the last is of all further variants


@section("answer", order=0)
def run_answer(study: StudyShown) -> Iterable[Block]:
    """First screen of a run's page."""
    yield FirstScreen(
        lead=[
            *recording_sentences(study.base["facts"]),
            *leading_sentences(study.summary, LEAD),
        ],
        table=_variants_table(study.points, study.answer),
        findings=[
            ("ops changed by rules", [(text, "") for text in changed_ops_sentences(study.summary)]),
            ("what limits it", [(text, "") for text in _limits(study)]),
            ("what is expected", [(text, "") for text in expectation_sentences(study.summary)]),
            ("what to do next", next_steps(study.summary, study.run["command"])),
            ("how certain", [(text, "") for text in caveat_sentences(study.summary)]),
        ],
        trust=_trust_facts(study.summary),
        figure=_time_breakdown(study),
    )


def _time_breakdown(study: StudyShown) -> BarChart | None:
    """Time breakdown of the variants that have one; None if none has."""
    known = {name: p for name, p in study.points.items() if p["activity"]}
    if not known:
        return None
    axis = f"{timed_span(study.answer)} of the mean rank"
    return schedule.time_breakdown_bars(schedule.mean_rank_breakdown(known), axis)


def _limits(study: StudyShown) -> Iterable[str]:
    """Sentences on what limits the base scenario, and on the rank that others wait for, if any."""
    yield from limit_sentences(study.summary)
    if late := last_arriver_sentence(study.base):
        yield late


def _variants_table(points: Mapping[str, Point], answer: Answer) -> Table:
    base = next(iter(points.values()))
    priced = has_token_price(base, answer)
    within = Small("90 % within")
    columns = [
        Column("variant", header=True),
        Column([f"{metric_header(answer)} ", within], number=True),
        Column(["change ", within], number=True),
        *([Column("USD a million tokens", number=True, wraps=True)] if priced else []),
        Column("outcome"),
    ]
    return Table(
        columns, [_variant_row(name, p, base, priced, answer) for name, p in points.items()]
    )


def _variant_row(name: str, point: Point, base: Point, priced: bool, answer: Answer) -> list[Line]:
    value, is_base, unit = metric_value(point, answer), point is base, answer["unit"]
    bounds, change_bounds = value["interval"], point["change"]["interval"]
    within = " to ".join(format_quantity(b, unit) for b in bounds) if bounds else "unknown"
    changed: list[Inline] = [] if is_base else [format_change(point["change"]["value"])]
    if not is_base and change_bounds and (between := _interval_text(change_bounds)):
        changed += [" ", Small(between)]
    missed = sum(not e["met"] for e in point["expect"])
    judged: list[Inline] = [Tag("base" if is_base else _verdict_tag(point, base, answer))]
    judged += [" ", Tag(f"misses {missed}", "worse")] if missed else []
    cost = [token_price_text(point["metrics"])] if priced else []
    return [
        name,
        [format_quantity(value["value"], unit), " ", Small(within)],
        changed,
        *cost,
        judged,
    ]


def _verdict_tag(point: Point, base: Point, answer: Answer) -> str:
    """Verdict on a variant, or the ratio of work per period if it differs from the base's."""
    work = work_ratio(point, base, answer)
    return variant_verdict(point, answer) if work == 1.0 else f"{three_digits(work)}x work"


def _interval_text(bounds: Sequence[float]) -> str:
    """Both ends of the interval of a change; "" if they round to the same text.

    >>> _interval_text((-0.02, 0.01)), _interval_text((0.0, 1e-9))
    ('-2.0 % to +1.0 %', '')
    """
    low, high = map(format_change, bounds)
    return f"{low} to {high}" if low != high else ""


def _trust_facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Facts on how far to trust the answer: calibration, interval, sources, inputs."""
    provenance = summary["provenance"]
    point = next(iter(summary["points"].values()))
    value = metric_value(point, summary["answer"])
    inputs = ", ".join(f"{n} {k}" for k, n in sorted(provenance["inputs"].items()))
    held = " and ".join(value["interval_of"]) or "nothing: no distribution is known"
    gaps = point["facts"].get("gap_share")
    return [
        ("calibration", _calibration_text(provenance["calibration"])),
        (
            "interval",
            f"{format_half_width(value['value'], value['interval']) or 'unknown'}, includes {held}",
        ),
        ("jitter", jitter_sentence(provenance["jitter"])),
        ("op times", _source_shares(point["sources"])),
        (
            "gaps",
            ""
            if gaps is None
            else f"{format_quantity(gaps, '')} of the recorded time is unexplained",
        ),
        ("outside iterations", work_outside_periods(point["facts"])),
        ("inputs", inputs or inputs_sentence(provenance)),
        ("break-even", break_even_text(provenance.get("break_even", ()))),
        ("hardware check", "none was made"),
        ("replicas, seed", f"{provenance['replicas']}, {provenance['seed']}"),
    ]


def work_outside_periods(facts: Mapping[str, Any]) -> str:
    """Text on recorded work and threads outside all iterations; "" if there are none.

    >>> work_outside_periods({"in_flight": 968, "left_out": 0, "unawaited_threads": 1})
    '968 GPU ops that were in flight when the first began; 1 thread that nothing waits for'
    """
    words = (
        ("in_flight", "GPU op", "in flight when the first began"),
        ("left_out", "GPU op", "outside all of them and left out"),
    )
    parts = [
        f"{n:,} {what}{'s' * (n > 1)} that {'were' if n > 1 else 'was'} {where}"
        for fact, what, where in words
        if (n := facts.get(fact, 0))
    ]
    if threads := facts.get("unawaited_threads", 0):
        parts.append(f"{threads} thread{'s' * (threads > 1)} that nothing waits for")
    return "; ".join(parts)


def _calibration_text(text: str) -> str:
    """State of calibration in plain words, such as for ``blind``."""
    if not text.startswith(BLIND):
        return text
    return f"{BLIND}: never compared with a measurement of this job{text.removeprefix(BLIND)}"


def _source_shares(sources: Mapping[str, float]) -> str:
    """Shares of op time by kind of source, which is the first word of each source."""
    whole = sum(sources.values()) or 1.0
    kinds: dict[str, float] = {}
    for text, seconds in sources.items():
        kind = text.partition(":")[0]
        kinds[kind] = kinds.get(kind, 0.0) + seconds
    return ", ".join(
        f"{format_quantity(t / whole, '')} {kind}" for kind, t in kinds.items() if t > 0
    )
