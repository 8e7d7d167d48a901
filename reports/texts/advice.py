"""Advice after a run: next steps from its results, each with a command to type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..numbers import format_change, three_digits
from .answer import BASE, SMALL, variant_verdict
from .command_line import option_value, with_option
from .headline import Answer, better_sign, metric_subject

Point = Mapping[str, Any]
Step = tuple[str, str]  # sentence; the command for it, "" for none
MOST = 3
QUICKER = 0.8  # factor on a time in the suggested command
UNSURE = ("assumed", "datasheet", "fitted")  # the least certain first


def next_steps(summary: Mapping[str, Any], command: str) -> list[Step]:
    """Next steps after a run as (sentence, command), most important first.

    Parameters
    ----------
    summary : summary of the run
    command : the command that made the run
    """
    points: Mapping[str, Point] = summary["points"]
    base = next(iter(points.values()))
    return [
        *_step_if_unresolved(
            points,
            command,
            summary["answer"],
            summary["provenance"].get("jitter", {}).get("state", ""),
        ),
        *_step_if_missed(base),
        *_step_to_faster_part(base, command, better_sign(summary["answer"])),
        *_step_to_measure(summary, command),
    ][:MOST]


def _step_if_unresolved(
    points: Mapping[str, Point], command: str, answer: Answer, jitter: str
) -> Iterator[Step]:
    """Steps to get an interval if there is none, or to resolve a variant that is "cannot tell"."""
    held = {s for p in points.values() for v in p["metrics"].values() for s in v["interval_of"]}
    if "jitter" not in held and jitter != "unknown":  # without a distribution, replicas are equal
        yield (
            "Run replicas to get an interval that includes jitter:",
            with_option(command, "--replicas", "10"),
        )
    for name, point in points.items():
        if name != BASE and variant_verdict(point, answer) == "cannot tell":
            differ = ", ".join(point["settings"])
            yield f"Measure the settings of {name} that differ ({differ}) before choosing it.", ""


def _step_if_missed(base: Point) -> Iterator[Step]:
    """Steps for missed expectations: which kinds of components could meet them if faster."""
    for e in base["expect"]:
        if e["met"] or e.get("short") is None or not base["faster"]:
            continue
        able = [c["group"] for c in base["faster"] if c["bound"] <= e["short"]]
        who = f"only {' or '.join(able)} parts can" if able else "no kind of part alone can"
        yield f"{e['that']} needs a change of {format_change(e['short'])}: {who} achieve it.", ""


def _step_to_faster_part(base: Point, command: str, better: int) -> Iterator[Step]:
    """Step to improve the kind of component with the largest gain; also names the next."""
    best, *others = [*sorted(base["faster"], key=lambda c: better * c["gain"]), None]
    if best is None or better * best["gain"] > -SMALL:
        return
    beside = (
        f"; {others[0]['group']}, the next, by {format_change(others[0]['gain'])}"
        if others[0]
        else ""
    )
    glob = glob_of_kind(best["group"], base["blame"])
    sentence = (
        f"Look at {best['group']} first: 10 % faster changes the answer by "
        f"{format_change(best['gain'])}{beside}."
    )
    yield (f"{sentence} Try it:", _faster_parts_command(command, glob)) if glob else (sentence, "")


def _faster_parts_command(command: str, glob: str) -> str:
    """The command with the given components a fifth faster than they are in it."""
    path = f"cluster.override.{glob}.slowdown"
    try:
        was = float(option_value(command, path) or 1.0)
    except ValueError:
        was = 1.0
    return with_option(command, "--set", f"{path}={three_digits(QUICKER * was)}")


def glob_of_kind(kind: str, names: Any) -> str:
    """Glob for all components of a kind, from example names; "" if no name is of that kind.

    >>> glob_of_kind("nic", ["fabric", "node0.nic0.tx"]), glob_of_kind("gpu", ["fabric"])
    ('node*.nic*', '')
    """
    for name in names:
        words = [re.sub(r"\d+", "*", word) for word in name.split(".")]
        plain = [word.rstrip("*") for word in words]
        if kind in plain:
            rest = plain.index(kind) + 1
            return ".".join(words[:rest])
    return ""


def _step_to_measure(summary: Mapping[str, Any], command: str) -> Iterator[Step]:
    """Step to measure the unmeasured value with the largest effect on the answer.

    If no effects are known yet, the step is the command that computes them.
    """
    provenance, what = summary["provenance"], metric_subject(summary["answer"])
    unsure = [v for v in provenance["values"] if v["kind"] in UNSURE]
    tried = [v for v in unsure if v.get("effect")]
    if tried:
        worst = max(tried, key=lambda v: abs(v["effect"]))
        yield (
            f"Measure {worst['path']} ({worst['kind']}): if it is 10 % off, {what} changes by "
            f"{format_change(worst['effect'])}. See where it is from:",
            f"foretrace explain {worst['path']}",
        )
    elif unsure and "break_even" not in provenance:
        yield (
            f"Find which of {len(unsure)} assumed, datasheet or fitted values matter, and what "
            "would flip the answer:",
            with_option(command, "--defend"),
        )
