"""Advice after an accuracy check: next steps from what failed, is unresolved or was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..numbers import three_digits
from ..texts.command_line import with_option

Checked = Mapping[str, Any]
Step = tuple[str, str]  # sentence; the command for it, "" for none
FITTED = {
    "gpu": "ops",
    "nic": "nic",
    "cxl": "cxl",
    "memory": "memory",
}  # command that fits each kind of part
ONE_WAY = 0.5  # fraction of the mean error above which a bias is not scatter
MOST = 3
DRIVERS = "foretrace drivers"


def next_steps(checked: Checked, command: str) -> list[Step]:
    """Next steps after an accuracy check as (sentence, command), most important first.

    Parameters
    ----------
    checked : the check's data, as stored in ``accuracy.json``
    command : the command that made the check
    """
    steps = [
        *_steps_for_failed(checked),
        *_flip_warnings(checked),
        *_steps_for_unresolved(checked, command),
        *_steps_for_left_out(checked),
        *_steps_after_pass(checked),
    ]
    return steps[:MOST]


def _steps_for_failed(checked: Checked) -> Iterator[Step]:
    """Next steps for components that failed the check.

    A biased component is to be fitted again; where errors scatter, the worst op is to be examined.
    """
    names = dict.fromkeys(e["component"] for e in checked["expect"] if e["outcome"] == "fail")
    for name in names:
        one = checked["components"].get(name)
        if one is None or not one["errors"]:
            continue
        mean, bias = one["errors"]["mean"]["value"], one["errors"]["bias"]["value"]
        if abs(bias) < ONE_WAY * mean:
            yield f"Look at {one['worst']['op']} first: the errors of {name} go both ways.", ""
            continue
        way = "short" if bias < 0 else "long"
        text = f"Fit {name} again: its predicted times are {_size_text(bias)} too {way} on average."
        form = FITTED.get(name.rpartition(".")[2].rstrip("0123456789"))
        yield text, f"foretrace fit {form} --recording {one['recording']}" if form else ""


def _size_text(share: float) -> str:
    return f"{three_digits(100 * abs(share))} %"


def _flip_warnings(checked: Checked) -> Iterator[Step]:
    """Warnings that a component's measured error is large enough to change the answer."""
    for b in checked["break_even"]:
        one = checked["components"].get(b["component"], {})
        errors = one.get("errors")
        if b["error"] is not None and errors and abs(b["error"]) <= errors["p50"]["value"]:
            yield (
                f"Keep {b['component']} real: the answer flips if its times are "
                f"{_size_text(b['error'])} wrong, and half of its ops are more than "
                f"{_size_text(errors['p50']['value'])} wrong.",
                "",
            )


def _steps_for_unresolved(checked: Checked, command: str) -> Iterator[Step]:
    """Step to measure more process starts if an error interval contains the limit."""
    if any(e["outcome"] == "unresolved" for e in checked["expect"]):
        starts = min((c["starts"] for c in checked["components"].values()), default=1)
        yield (
            f"Measure more than {starts} process starts, so that the interval gets narrower:",
            with_option(command, "--set", f"hil.repeat={2 * max(starts, 1)}"),
        )


def _steps_for_left_out(checked: Checked) -> Iterator[Step]:
    """Steps to measure the ops that the check left out."""
    for name, one in checked["components"].items():
        if one["left_out"]["ops"]:
            some = one["left_out"]["some"][0]
            yield (
                f"Find a driver that can measure the ops of {name} left out, such as {some}:",
                DRIVERS,
            )


def _steps_after_pass(checked: Checked) -> Iterator[Step]:
    """The step after a check that passed: where most of the remaining error is."""
    expect, whole = checked["expect"], checked["whole"]
    if not expect or any(e["outcome"] != "pass" for e in expect):
        return
    if whole and len(whole["shares"]) > 1:
        most = max(whole["shares"], key=lambda s: abs(s["swap_in"]))["component"]
        yield f"The model is accurate enough to plan with; to improve it, begin with {most}.", ""
    else:
        yield "Plan with it: the model is as accurate as expected.", ""


def most_wrong_op(checked: Checked) -> list[str]:
    """Sentence that names the op with the largest total error in s; empty list if none."""
    wrong = {
        (name, o["signature"]): abs(o["predicted"] - o["measured"]) * o["calls"]
        for name, one in checked["components"].items()
        for o in one["ops"]
    }
    whole = sum(wrong.values())
    if not whole:
        return []
    name, op = max(wrong, key=lambda key: wrong[key])
    share = three_digits(100 * wrong[name, op] / whole)
    return [f"{op} of {name} causes {share} % of the total error in seconds."]
