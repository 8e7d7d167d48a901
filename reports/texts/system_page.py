"""Page of a published system as Markdown: its headline, ablations and control, from a saved run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..numbers import format_quantity
from .ablation_rows import ablation_rows, ablation_sentences, word_of_findings


def system_page(summary: Mapping[str, Any], file: str) -> str:
    """Markdown of a scenario with ablations; the same of the same summary, byte for byte.

    Parameters
    ----------
    summary : of a run whose scenario has ``ablations``
    file : the scenario, as `foretrace run` takes it
    """
    return "\n".join(_page_lines(summary, file)) + "\n"


def _page_lines(summary: Mapping[str, Any], file: str) -> Iterator[str]:
    judged, answer = summary["ablations"], summary["answer"]
    yield from (f"# {summary['name']}", "", summary["question"], "")
    yield from (*ablation_sentences(summary), "")
    word = word_of_findings(judged)
    yield from (f"| | variants | {word} | expected | |", "|---|---|---:|---:|---|")
    for row in ablation_rows(judged):
        verdict = "holds" if row.met else "**missed**"
        yield f"| {row.what} | {row.variants} | {row.found} | {row.expected} | {verdict} |"
    if stated := judged["headline"]["stated"]:
        yield from ("", f"Stated: {stated}")
    yield from ("", f"| variant | {answer['metric'].replace('_', ' ')} |", "|---|---:|")
    for name, point in summary["points"].items():
        value = point["metrics"][answer["metric"]]
        yield f"| {name} | {format_quantity(value['value'], value['unit'])} |"
    yield from ("", "Made by", "", "```", f"foretrace run {file}")
    yield from (f"foretrace report {summary['name']} --system", "```")
