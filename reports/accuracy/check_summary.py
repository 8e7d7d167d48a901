"""First screen of an accuracy page: expectations, verdict, and how the errors were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..blocks import Block, Code, Column, FirstScreen, Line, Span, Table, Tag
from ..section import section
from .accuracy_advice import most_wrong_op, next_steps
from .error_texts import format_error_interval, unsigned_error
from .verdict import OUTCOMES, Checked, verdict_sentences


@dataclass(frozen=True)
class CheckShown:
    """Input of the accuracy page: the data of a check and its command.

    Parameters
    ----------
    checked : the check's data, as stored in ``accuracy.json``
    command : the command that made the check
    """

    checked: Checked
    command: str = ""


@section("answer", page="accuracy", order=0)
def check_answer(check: CheckShown) -> Iterable[Block]:
    """First screen of an accuracy page."""
    checked = check.checked
    verdict = verdict_sentences(checked)
    yield FirstScreen(
        lead=verdict[:2],
        table=expectations_table(checked),
        findings=[
            ("what limits it", [(text, "") for text in (*most_wrong_op(checked), *verdict[2:])]),
            ("what to do next", next_steps(checked, check.command)),
        ],
        trust=_trust_facts(checked),
        heading="How this was measured",
    )


def expectations_table(checked: Checked) -> Table:
    """Table with one row per expectation on an error: the error, its limit and the outcome."""
    columns = [
        Column("expected", alone=""),
        Column("error", number=True),
        Column("90 % within", number=True, wraps=True),
        Column("limit", number=True),
        Column("A/A", number=True),
        Column("outcome", alone=""),
    ]
    rows: list[list[Line | Span]] = [_expectation_line(e, checked) for e in checked["expect"]]
    if not rows:
        first = next(iter(checked["components"]), "nic")
        write = Code(f"expect: [{{that: hil.{first}.time.error.p50 <= 10 %}}]")
        rows = [[Span(["no expectation is set; write ", write], len(columns))]]
    return Table(columns, rows, stacked=True)


def _expectation_line(expectation: Mapping[str, Any], checked: Checked) -> list[Line | Span]:
    own = checked["components"].get(expectation["component"], checked["whole"] or {})
    judged = Tag(expectation["outcome"], OUTCOMES[expectation["outcome"]])
    return [
        Code(expectation["that"].replace(" %", "\u00a0%")),
        unsigned_error(expectation["value"]),
        format_error_interval(expectation["interval"]),
        unsigned_error(expectation["bar"]),
        unsigned_error(own.get("spread")),
        judged if expectation["otherwise"] == "fail" else [judged, " only a warning"],
    ]


def _trust_facts(checked: Checked) -> list[tuple[str, str]]:
    whole = checked["whole"] or {}
    clocks = sorted({c["clock"] for c in checked["components"].values()})
    dates = sorted({c["date"][:10] for c in checked["components"].values()})
    starts = min((c["starts"] for c in checked["components"].values()), default=0)
    return [
        ("mode", checked.get("mode", "replay")),
        ("prediction", checked["calibration"]),
        ("measured", ", ".join(dates)),
        ("clock", ", ".join(clocks)),
        ("process starts", f"at least {starts}"),
        ("A/A, whole run", unsigned_error(whole.get("spread"))),
        ("intervals", "90 %, from resampled process starts"),
        ("limit", "as stated, but at least 1.5 x A/A"),
    ]
