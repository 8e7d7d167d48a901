"""Summary of a run as tables in a terminal, or as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....reports.numbers import format_quantity, format_share, format_signed_share
from ....reports.texts.answer import (
    answer_sentences,
    has_token_price,
    token_price_text,
    variant_verdict,
)
from ....reports.texts.headline import metric_header as column_of
from ...config.condition import Condition, read_condition
from .common import print_sentences, print_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

BAR = 20  # letters of a bar that is the whole
LEAST = 0.005  # share that is shown
STYLES = {"better": "green", "worse": "red", "cannot tell": "yellow", "same": ""}
MARKS = {"pass": ("✓", "green"), "warn": ("!", "yellow"), "FAIL": ("✗", "red")}
SHARES = (".utilization", ".occupancy")
SHOWN = (  # the metrics of the table, after the one that decides, where the run has them
    "iteration_time",
    "exposed_communication",
    "waiting",
    "tokens_per_second",
    "mfu",
    "hfu",
    "bubble",
    "peak_memory",
    "cost_per_million_tokens",
    "cost_per_hour",
    "gpu.utilization",
    "nic.utilization",
    "link.utilization",
    "host.utilization",
)


def print_run_answer(summary: dict[str, Any], quiet: bool, console: Console | None = None) -> None:
    """Print the answer in sentences, then the table of variants and the metrics of the base."""
    console = print_sentences(answer_sentences(summary), console)
    if quiet:
        return
    console.print()
    if len(summary["points"]) > 1:
        print_table(console, variants_table(summary))
        console.print()
    base = summary["points"]["base"]
    print_table(console, metrics_table(base, summary["answer"]))
    means = {box.replace("_", " "): t["mean"] for box, t in base["activity"].items()}
    for name, seconds in (("time", means), ("limit", base["blame"])):
        console.print()
        for line in share_bars(name, seconds):
            console.print(line, soft_wrap=True)


def share_bars(name: str, seconds: dict[str, float], most: int = 5) -> list[str]:
    """Largest fractions of a total, from 0.5 %, each as a line with a bar.

    >>> share_bars("limit", {"gpu": 3.0, "nic": 1.0})[0]
    'limit    gpu  ███████████████       75 %'
    """
    whole = sum(seconds.values()) or 1.0
    ordered = sorted(seconds.items(), key=lambda item: -item[1])[:most]
    shown = {who: t / whole for who, t in ordered if t / whole >= LEAST}
    width = max(map(len, shown), default=0)
    heads = [name, *[""] * len(shown)]
    return [
        f"{head:<8} {who:<{width}}  {_bar(share):<{BAR}} {format_share(share, 0):>5}"
        for head, (who, share) in zip(heads, shown.items(), strict=False)
    ]


def _bar(share: float) -> str:
    """Bar of block characters for a fraction, in eighths of a character."""
    eighths = round(8 * BAR * share)
    return "█" * (eighths // 8) + "▏▎▍▌▋▊▉"[eighths % 8 - 1 : eighths % 8] * bool(eighths % 8)


def variants_table(summary: dict[str, Any]) -> Any:
    """Table with a row per variant: deciding metric, its change, conditions."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    priced = has_token_price(summary["points"]["base"], summary["answer"])
    costs = (("USD a million tokens", "right"),) * priced
    decides = column_of(summary["answer"])
    for column, justify in (("variant", "left"), (decides, "right"), ("change", "right"),
                            *costs, ("expectations", "left")):  # fmt: skip
        wraps = column in ("expectations", "change")  # else a long one would cut the names
        most = 60 if wraps else None
        table.add_column(
            column,
            justify=justify,  # type: ignore[arg-type]
            no_wrap=not wraps,
            max_width=most,
            overflow="fold",
        )
    for name, point in summary["points"].items():
        value = point["metrics"][summary["answer"]["metric"]]
        verdict = "same" if name == "base" else variant_verdict(point, summary["answer"])
        text = "" if name == "base" else format_change(point["change"])
        change = Text(text, STYLES[verdict])
        cost = [token_price_text(point["metrics"])] if priced else []
        amount = format_quantity(value["value"], value["unit"])
        table.add_row(name, amount, change, *cost, expectations_text(point["expect"]))
    return table


def format_change(change: dict[str, Any]) -> str:
    """Change in per cent with its interval, as text."""
    text = format_signed_share(change["value"])
    if change["interval"]:
        low, high = change["interval"]
        text += f" ({format_signed_share(low)} to {format_signed_share(high)})"
    return text


def expectations_text(expected: list[dict[str, Any]]) -> Text:
    """``✓ pass``, or the conditions that are missed."""
    failed = [e["that"] for e in expected if not e["met"]]
    return _marked(expectation_status(expected), "misses " + "; ".join(failed) if failed else "")


def _marked(status: str, text: str = "") -> Text:
    """A status, or a text in place of it, with the mark and colour of the status."""
    from rich.text import Text

    mark, style = MARKS.get(status, ("", ""))
    return Text(f"{mark} {text or status}".strip(), style)


def metrics_table(point: dict[str, Any], answer: dict[str, str]) -> Any:
    """Table of the metrics of one variant: status, p50 (mean for utilization), p95, interval.

    Parameters
    ----------
    answer : deciding metric, as in the summary: name, unit, direction
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column, justify in (("", "left"), ("metric", "left"), ("p50", "right"), ("p95", "right"),
                            ("p50 is within", "right"), ("expected", "left")):  # fmt: skip
        wraps = column in ("metric", "p50 is within", "expected")
        table.add_column(column, justify=justify, no_wrap=not wraps, overflow="fold")  # type: ignore[arg-type]
    expected = [(read_condition(e["that"]), e) for e in point["expect"]]
    for name in dict.fromkeys(
        (
            *_deciding_names(answer),
            *SHOWN,
            *_job_completion_lines(point),
            *(c.metric for c, _ in expected),
        )
    ):
        row = _metric_row(point["metrics"], name, [(c, e) for c, e in expected if c.metric == name])
        if row is not None:
            table.add_row(*row)
    return table


def _deciding_names(answer: dict[str, str]) -> tuple[str, ...]:
    """Names under which a table may list the deciding metric, the preferred one first."""
    name = answer["metric"]
    head, _, statistic = name.rpartition(".")
    return (head,) if statistic in ("p50", "p95") else (name, head)


def _job_completion_lines(point: dict[str, Any]) -> list[str]:
    """Names of the metrics that are makespans or completion times of jobs."""
    return [name for name in point["metrics"] if name.endswith((".makespan", ".completion_time"))]


Expected = list[tuple[Condition, dict[str, Any]]]


def _metric_row(
    metrics: dict[str, Any], name: str, expected: Expected
) -> tuple[str | Text, ...] | None:
    usual = "mean" if name.endswith(SHARES) else "p50"  # half of the time nothing may be in use
    p50, p95 = metrics.get(f"{name}.{usual}", metrics.get(name)), metrics.get(f"{name}.p95")
    if p50 is None:
        return None
    bounds = p50["interval"]
    within = " to ".join(format_quantity(b, p50["unit"]) for b in bounds) if bounds else "unknown"
    return (
        _marked(expectation_status([e for _, e in expected])),
        f"{name.replace('_', ' ')}{' (mean)' * (usual == 'mean')}",
        format_quantity(p50["value"], p50["unit"]),
        format_quantity(p95["value"], p95["unit"]) if p95 else "",
        within,
        "; ".join(c.text.removeprefix(name).lstrip(".") for c, _ in expected),
    )


def expectation_status(expected: list[dict[str, Any]]) -> str:
    """``pass``, ``warn`` or ``FAIL``; "" without conditions.

    >>> met, missed = {"met": True, "otherwise": "fail"}, {"met": False, "otherwise": "warn"}
    >>> expectation_status([met, missed])
    'warn'
    """
    missed = {e["otherwise"] for e in expected if not e["met"]}
    if not missed:
        return "pass" if expected else ""
    return "FAIL" if "fail" in missed else "warn"
