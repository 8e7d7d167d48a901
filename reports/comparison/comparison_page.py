"""The comparison page: settings that differ between runs, metrics that differ, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..blocks import (
    Block,
    Code,
    Column,
    FirstScreen,
    Inline,
    Line,
    Listing,
    Paragraph,
    Small,
    Table,
    Tag,
    comma_separated,
)
from ..figures import schedule
from ..html import page_html as html
from ..numbers import format_change, format_quantity, is_overall
from ..section import Failed, section, shown_sections
from ..texts.answer import variant_verdict
from ..texts.headline import Answer, better_sign, metric_header, timed_span, value_sentence

LEAST = 5e-4  # smaller relative changes count as none
LEAD = 4  # leading sentences; with more runs, the last is on all further runs
NOT_SET = "not set"
QUICK, GOOD = ("quicker", "slower", "quick"), ("better", "worse", "good")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ComparisonShown:
    """Input of the comparison page: the compared runs and facts about the comparison.

    Parameters
    ----------
    rows : one mapping per run, the base run first: ``name``, ``values`` and ``changes`` by metric,
        ``interval`` (of the deciding metric's change), ``settings``, ``activity`` (time breakdown
        of the mean rank), ``why`` (what changed most), ``limit`` (what limits the run), and ``see``
        (a command that shows the run)
    facts : ``title``, ``command``, ``no_effect``, ``units`` by metric, and ``answer``, the deciding
        metric
    """

    rows: Sequence[Row]
    facts: Mapping[str, Any]

    @property
    def answer(self) -> Answer:
        """The deciding metric."""
        metric: Answer = self.facts["answer"]
        return metric


def comparison_page(
    rows: Sequence[Row], facts: Mapping[str, Any], failed: Failed | None = None
) -> str:
    """HTML of the comparison page.

    Parameters
    ----------
    failed : list to which sections that cannot be made are added; None to raise their error
    """
    return html(
        shown_sections("comparison", ComparisonShown(rows, facts), failed=failed),
        {"rows": rows, "no_effect": facts["no_effect"]},
        title=facts["title"],
        question="What differs, by how much, and why?",
        failed=failed,
    )


@section("answer", page="comparison", order=0)
def comparison_answer(comparison: ComparisonShown) -> Iterable[Block]:
    """First screen of a comparison page."""
    rows, decides = comparison.rows, comparison.answer
    columns = [
        Column("run", header=True),
        *(Column(n, number=True) for n in (metric_header(decides), "change", "90 % within")),
        Column("outcome"),
    ]
    yield FirstScreen(
        lead=_lead_sentences(rows, decides),
        table=Table(columns, [_run_row(r, r is rows[0], decides) for r in rows]),
        findings=[
            ("why", _reasons(rows[1:])),
            ("what limits it", [(f"{r['name']}: {r['limit']}.", "") for r in rows if r["limit"]]),
            ("what to do next", _next_steps(rows, decides)),
        ],
        trust=_trust_facts(rows),
        figure=schedule.time_breakdown_bars(
            {r["name"]: r["activity"] for r in rows}, f"{timed_span(decides)} of the mean rank"
        ),
    )


@section("compare", page="comparison", title="Settings that differ", order=10)
def differing_settings(comparison: ComparisonShown) -> Iterable[Block]:
    """Section on the settings that differ between runs, and on those without effect."""
    found: list[list[Line]] = [
        [r["name"], Code(path), a or NOT_SET, b or NOT_SET]
        for r in comparison.rows[1:]
        for path, (a, b) in r["settings"].items()
    ]
    if found:
        base = Column(comparison.rows[0]["name"])
        columns = [Column("run", header=True), Column("setting"), base, Column("this run")]
        yield Table(columns, found, stacked=True)
    else:
        yield Paragraph("Nothing.")
    if idle := comparison.facts["no_effect"]:
        yield Paragraph(["No effect: ", *comma_separated(idle), "."])


@section("metrics", page="comparison", title="Metrics that differ", order=20)
def differing_metrics(comparison: ComparisonShown) -> Iterable[Block]:
    """Section on the metrics that differ between runs, and on how many are equal."""
    rows = comparison.rows
    names = _differing_metrics(rows, comparison.answer)
    columns = [
        Column("metric", header=True),
        *(Column(r["name"], number=True) for r in rows),
    ]
    yield Table(columns, [_metric_row(m, rows, comparison.facts["units"]) for m in names])
    same = len({m for r in rows for m in r["values"] if is_overall(m)}) - len(names)
    if same:
        yield Paragraph(f"{same} other metric{' is' if same == 1 else 's are'} the same.")


@section("reproduce", page="comparison", title="Reproduce", order=95)
def how_to_repeat_comparison(comparison: ComparisonShown) -> Iterable[Block]:
    """Section with the command that repeats the comparison."""
    yield Listing(comparison.facts["command"])


def _differing_metrics(rows: Sequence[Row], answer: Answer) -> list[str]:
    """Names of metrics that differ in some run; the deciding metric comes first."""
    every = dict.fromkeys(m for r in rows[1:] for m in r["changes"] if is_overall(m))
    moved = [m for m in every if any(abs(r["changes"].get(m, 0.0)) >= LEAST for r in rows[1:])]
    return sorted(moved, key=lambda m: (m != answer["metric"], m.count("."), m))


def _reasons(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Sentences on what changed most in each run, if that is known."""
    return [(f"{r['name']}: {r['why'].replace('->', '→')}.", "") for r in rows if r["why"]]


def _judgement_text(row: Row, answer: Answer) -> str:
    changed = {"value": row["changes"][answer["metric"]], "interval": row["interval"]}
    return variant_verdict({"change": changed}, answer)


def _lead_sentences(rows: Sequence[Row], answer: Answer) -> list[str]:
    """One sentence per run; of many runs, one for each of the best and one for the rest."""
    base, *others = rows
    if len(others) <= LEAD:
        return [_lead_sentence(r, base, answer) for r in others]
    metric, sign = answer["metric"], better_sign(answer)
    order = sorted(others, key=lambda r: sign * float(r["values"][metric]))
    rest: dict[str, list[str]] = {}
    for row in order[LEAD - 1 :]:
        told = f"{row['name']} ({format_change(row['changes'][metric])})"
        rest.setdefault(_judgement_text(row, answer), []).append(told)
    parts = (f"{verdict}: {', '.join(names)}" for verdict, names in rest.items())
    said = [_lead_sentence(r, base, answer) for r in order[: LEAD - 1]]
    return [*said, f"Of the others, {'; '.join(parts)}."]


def _lead_sentence(row: Row, base: Row, answer: Answer) -> str:
    ratio, metric = row["changes"][answer["metric"]], answer["metric"]
    better, worse, same = QUICK if answer.get("period") else GOOD
    size = f"{100 * abs(ratio):.1f} %"
    words = {
        "better": f"{row['name']} is {size} {better} than {base['name']}",
        "worse": f"{row['name']} is {size} {worse} than {base['name']}",
        "same": f"{row['name']} is as {same} as {base['name']}",
        "cannot tell": f"cannot tell {row['name']} from {base['name']}: the interval of the change "
        f"({format_change(ratio)}) contains 0",
    }
    is_, was = (
        value_sentence(answer, row["values"][metric]),
        format_quantity(base["values"][metric], answer["unit"]),
    )
    return f"{words[_judgement_text(row, answer)]}: {is_} instead of {was}."


def _next_steps(rows: Sequence[Row], answer: Answer) -> list[tuple[str, str]]:
    """Next steps: how to get an interval, what to measure, and which run is best."""
    steps = []
    if any(r["interval"] is None for r in rows[1:]):
        steps.append(
            ("These runs do not share random draws, so their difference has no interval. To get "
             "one, put the changes under what_if of one scenario with 10 or more replicas.", "")
        )  # fmt: skip
    unsure = [r for r in rows[1:] if _judgement_text(r, answer) == "cannot tell"]
    steps += [(f"Measure what {r['name']} differs in: {', '.join(r['settings'])}.", "")
              for r in unsure]  # fmt: skip
    best = min(rows, key=lambda r: better_sign(answer) * r["values"][answer["metric"]])
    if not unsure and best is not rows[0]:
        superlative = "quickest" if answer.get("period") else "best"
        steps.append((f"{best['name']} is the {superlative}; see what limits it:",
                      best["see"]))  # fmt: skip
    return steps


def _trust_facts(rows: Sequence[Row]) -> list[tuple[str, str]]:
    held = {r["name"]: r["interval"] is not None for r in rows[1:]}
    paired = [name for name, good in held.items() if good]
    return [
        ("runs", str(len(rows))),
        ("paired", ", ".join(paired) or "none: their replicas do not share random draws"),
        ("interval", "90 %, of the change" if paired else "unknown"),
        ("settings", f"{len({p for r in rows[1:] for p in r['settings']})} differ"),
    ]


def _run_row(row: Row, is_base: bool, answer: Answer) -> list[Line]:
    bounds = row["interval"]
    return [
        row["name"],
        format_quantity(row["values"][answer["metric"]], answer["unit"]),
        "" if is_base else format_change(row["changes"][answer["metric"]]),
        "" if is_base else " to ".join(map(format_change, bounds)) if bounds else "unknown",
        Tag("base" if is_base else _judgement_text(row, answer)),
    ]


def _metric_row(name: str, rows: Sequence[Row], units: Mapping[str, str]) -> list[Line]:
    cells: list[Line] = [name]
    for r in rows:
        value: list[Inline] = [format_quantity(r["values"].get(name), units[name])]
        changed = r["changes"].get(name, 0.0)
        if r is not rows[0] and abs(changed) >= LEAST:
            value += [" ", Small(format_change(changed))]
        cells.append(value)
    return cells
