"""Markdown page of a published system from a saved run: its claim, ablations and control."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from ..numbers import format_quantity
from .ablation_rows import CONTROL, Judged, ablation_rows, ablation_sentences, result_column_name

WIDTH = 100  # columns of a document


def system_page(summary: Mapping[str, Any], file: str) -> str:
    """Markdown page of a scenario with ablations; equal summaries give equal bytes.

    Parameters
    ----------
    summary : summary of a run whose scenario has ``ablations``
    file : the scenario, as `foretrace run` takes it
    """
    return "\n".join(_page_lines(summary, file)) + "\n"


def _page_lines(summary: Mapping[str, Any], file: str) -> Iterator[str]:
    judged, answer = summary["ablations"], summary["answer"]
    yield from (f"# {summary['name']}", "", *_wrapped(summary["question"]), "")
    yield from (*_wrapped(" ".join(ablation_sentences(summary))), "")
    yield from _judged_lines(judged)
    if stated := judged["headline"]["stated"]:
        yield from ("", *_wrapped(f"Stated: {stated}"))
    yield from ("", f"| variant | {answer['metric'].replace('_', ' ')} |", "|---|---:|")
    for name, point in summary["points"].items():
        value = point["metrics"][answer["metric"]]
        yield f"| {name} | {format_quantity(value['value'], value['unit'])} |"
    yield from ("", "These commands write this page:", "", "```", f"foretrace run {file}")
    yield from (f"foretrace report {summary['name']} --system", "```")


def _judged_lines(ablations: Judged) -> Iterator[str]:
    """Markdown lines of the table of ablations, followed by explanations of its cases."""
    yield f"| case | variants | {result_column_name(ablations)} | expected | |"
    yield "|---|---|---:|---:|---|"
    meanings: list[str] = []
    for row in ablation_rows(ablations):
        case, _, meaning = row.what.partition(": ")
        if meaning:
            case = case if case == CONTROL else f"{case} {len(meanings) + 1}"
            meanings.append(f"- {case}: {meaning}.")
        verdict = "holds" if row.met else "**missed**"
        yield f"| {case} | {row.variants} | {row.found} | {row.expected} | {verdict} |"
    yield ""
    if meanings:
        control = ", and what the control is" if ablations["control"] is not None else ""
        yield from (f"What each case leaves out{control}:", "")
    for meaning in meanings:
        yield from _wrapped(meaning, indent="  ")


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
