"""The accuracy page: how wrong the model is, what that does to the answer, and how sure that is.

Data in (``accuracy.json`` of a check), one self-contained HTML file out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..html import rendered
from ..numbers import format_quantity
from . import error_figures as figures
from .accuracy_advice import most_wrong, next_steps
from .clock_meanings import meanings
from .error_texts import error, format_signed, interval, percent, within
from .whole_run import break_even, errors, shares

STATISTICS = (("p50", "p50"), ("p95", "p95"), ("mean", "MAPE"), ("bias", "bias"), ("max", "worst"))
OUTCOMES = {"pass": "better", "fail": "worse", "unresolved": "cannot-tell"}
NOTHING = "no expectation was stated"
Checked = Mapping[str, Any]


def write_accuracy(path: Path, checked: Checked, command: str = "") -> None:
    """Write the page of a check.

    Parameters
    ----------
    checked : as in ``accuracy.json``
    command : that made it
    """
    path.write_text(accuracy_page(checked, command), encoding="utf-8")


def accuracy_page(checked: Checked, command: str = "") -> str:
    """The page as text."""
    known = {n: c for n, c in checked["components"].items() if c["ops"]}
    return rendered(
        "accuracy.html",
        checked,
        data_id="accuracy",
        title=checked["title"] or f"Accuracy of {checked['name']}",
        question=checked["question"],
        lead=sentences(checked)[:2],
        said=_said(checked, command),
        expect=[_expectation(e, checked) for e in checked["expect"]],
        rows=[_row(n, c) for n, c in checked["components"].items()],
        clocks=meanings(c["clock"] for c in checked["components"].values()),
        placed=[_placed(n, c) for n, c in checked["components"].items() if _put(c)],
        beside=[_beside(n, c) for n, c in known.items() if c["beside"]],
        trust=_trust(checked),
        whole=errors(checked["whole"]),
        shares=shares(checked["whole"]),
        break_even=[break_even(b) for b in checked["break_even"]],
        scatter=figures.scatter(known) if known else "",
        spread=figures.spread_of_errors(known) if known else "",
        sizes=figures.error_by_size(known) if known else "",
        drift=[_drift(n, c) for n, c in known.items()],
        left_out=[_left_out(n, c) for n, c in known.items() if c["left_out"]["ops"]],
        sources=[_source(n, c) for n, c in checked["components"].items()],
        command=command,
    )


def sentences(checked: Checked) -> list[str]:
    """The answer: what passed, how wrong the whole run is, and who causes it.

    Examples
    --------
    >>> sentences({"expect": [], "components": {}, "whole": None, "mixed_clocks": True})[-1]
    'Clocks are mixed: this is a demonstration, and no accuracy of the whole is told.'
    """
    found = [_verdict(checked["expect"])]
    whole = checked["whole"]
    if whole is None:
        return [
            *found,
            "Clocks are mixed: this is a demonstration, and no accuracy of the whole is told.",
        ]
    size = f"{error(whole['error'])}{within(whole['signed'])}"
    found.append(
        f"With models alone an iteration takes {format_quantity(whole['predicted'], 's')}, with "
        f"{_names(checked)} real {format_quantity(whole['measured'], 's')}: model error {size}."
    )
    if whole["real"]:
        real = whole["real"]
        found.append(
            f"The real job took {format_quantity(real['iteration_time'], 's')}: composition error "
            f"{error(real['composition'])}, model against job {error(real['all'])}."
        )
    if len(whole["shares"]) > 1:
        most = max(whole["shares"], key=lambda s: abs(s["swap_in"]))
        found.append(
            f"Most of it is {most['component']}: it alone real changes an iteration by "
            f"{format_signed(most['swap_in'])}."
        )
    if whole.get("coupled"):
        found.append(
            f"With {_names(checked)} driving simulated time it takes "
            f"{format_quantity(whole['coupled']['iteration_time'], 's')}: model error "
            f"{error(whole['coupled']['error'])}."
        )
    return found


def _said(checked: Checked, command: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """What was found, under the question that it answers."""
    found = {
        "what limits it": [(text, "") for text in (*most_wrong(checked), *sentences(checked)[2:])],
        "what to do next": next_steps(checked, command),
    }
    return [(name, told_) for name, told_ in found.items() if told_]


def _names(checked: Checked) -> str:
    names = list(checked["components"])
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _verdict(expect: list[Mapping[str, Any]]) -> str:
    if not expect:
        return "Nothing was expected of the errors, so nothing is judged."
    counts = {o: sum(e["outcome"] == o for e in expect) for o in OUTCOMES}
    if counts["fail"]:
        return f"No: {counts['fail']} of {len(expect)} expectations failed."
    if counts["unresolved"]:
        return (
            f"Cannot tell: {counts['unresolved']} of {len(expect)} expectations are unresolved, "
            "since their intervals straddle the bar or were not known."
        )
    return f"Yes: all {len(expect)} expectations hold, with their intervals."


def _expectation(e: Mapping[str, Any], checked: Checked) -> dict[str, str]:
    own = checked["components"].get(e["component"], checked["whole"] or {})
    return {
        "that": e["that"].replace(" %", "\u00a0%"),
        "outcome": e["outcome"],
        "tag": OUTCOMES[e["outcome"]],
        "value": percent(e["value"]),
        "interval": interval(e["interval"]),
        "bar": percent(e["bar"]),
        "spread": percent(own.get("spread")),
        "otherwise": "" if e["otherwise"] == "fail" else "only a warning",
    }


def _row(name: str, one: Mapping[str, Any]) -> dict[str, Any]:
    if not one["ops"]:
        return {"name": name, "clock": one["clock"], "cells": None, "why": "n/a (emulated)"}
    wrong = one["errors"]
    return {
        "name": name,
        "clock": one["clock"],
        "why": "",
        "n": f"{one['n']:,} calls, {len(one['ops'])} different",
        "cells": [
            (percent(wrong[key]["value"]), interval(wrong[key]["interval"]))
            for key, _ in STATISTICS
        ],
        "spread": percent(one["spread"]),
        "worst": one["worst"]["op"],
    }


def _beside(name: str, one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "cells": [
            (percent(one["errors"][key]["value"]), percent(one["beside"][key]["value"]))
            for key, _ in STATISTICS
        ],
    }


def _trust(checked: Checked) -> list[tuple[str, str]]:
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
        ("A/A, whole run", percent(whole.get("spread"))),
        ("intervals", "90 %, of redrawn process starts"),
        ("bar", "as stated, at least 1.5 x A/A"),
    ]


def _drift(name: str, one: Mapping[str, Any]) -> tuple[str, str]:
    drift = one["drift"]
    if drift is None:
        return name, "no older recording"
    if not drift["n"]:
        return name, f"an older recording of {drift['since'][:10]} has none of these ops"
    worst = drift["worst"]
    return name, (
        f"since {drift['since'][:10]}: median {error(drift['p50'])} over {drift['n']} ops, worst "
        f"{error(worst['change'])} ({worst['op']})"
    )


def _left_out(name: str, one: Mapping[str, Any]) -> tuple[str, str]:
    out = one["left_out"]
    return name, (
        f"{out['ops']:,} ops ({out['different']} different, {percent(out['share'])} of the "
        f"component's predicted time) were not measured, such as {out['some'][0]}; the model "
        "answers for them in every run above"
    )


def _source(name: str, one: Mapping[str, Any]) -> dict[str, str]:
    return {
        "name": name,
        "source": one["source"],
        "metric": one["metric"],
        "sharing": f"{one['sharing']}{', contention modelled' if one['sharing'] == 'solo' else ''}",
        "versions": ", ".join(f"{k} {v}" for k, v in one["versions"].items()),
        "partial": one["partial"],
    }


def _put(one: Mapping[str, Any]) -> bool:
    """Whether its driver put pages somewhere and looked where they are."""
    return one.get("placed") is not None


def _placed(name: str, one: Mapping[str, Any]) -> tuple[str, str]:
    return name, (
        f"of the pages that were moved or placed at least {percent(one['placed'])} were found "
        "where they had been put, in every batch"
    )
