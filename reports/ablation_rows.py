"""Ablations in words: rows and verdict that pages, terminals and system pages share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .numbers import three_digits

Judged = Mapping[str, Any]


class AblationRow(NamedTuple):
    """One comparison: what is tried, its gain, what is expected of it, whether it holds."""

    what: str
    variants: str
    gain: str
    expected: str
    met: bool


def ablation_rows(judged: Judged) -> Iterator[AblationRow]:
    """Headline, each piece off, and the control.

    Parameters
    ----------
    judged : ``ablations`` of a summary
    """
    headline = judged["headline"]
    against, (low, high) = headline["against"], headline["band"]
    yield AblationRow(
        "with the mechanism",
        f"base against {against}",
        _times(headline["gain"]),
        f"{_times(low)} to {_times(high)}",
        headline["met"],
    )
    for switch in judged["switches"]:
        yield AblationRow(
            f"without: {switch['what']}",
            f"{switch['off']} against {against}",
            _times(switch["gain"]),
            f"at most {_times(switch['at_most'])}",
            switch["met"],
        )
    if (control := judged["control"]) is not None:
        yield AblationRow(
            f"control: {control['what']}",
            f"{control['of']} against {control['against']}",
            _times(control["gain"]),
            f"{_times(1 - control['within'])} to {_times(1 + control['within'])}",
            control["met"],
        )


def ablation_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Sentence on the ablations of a summary; none where it has none.

    >>> off = {"what": "two ways", "off": "one", "gain": 1.0, "at_most": 1.05, "met": True}
    >>> headline = {"against": "old", "gain": 1.5, "band": [1.4, 1.6], "stated": "", "met": True}
    >>> judged = {"headline": headline, "switches": [off], "control": None}
    >>> ablation_sentences({"ablations": judged})
    ['The mechanism gains 1.5x against old, as expected; nothing of it stays with any piece off.']
    >>> judged["headline"] |= {"gain": 1.03, "met": False}
    >>> ablation_sentences({"ablations": judged})
    ['The mechanism gains 1.03x against old, not 1.4x to 1.6x; too little to tell whose it is.']
    """
    judged = summary.get("ablations")
    if not judged:
        return []
    headline, control = judged["headline"], judged["control"]
    least, most = headline["band"]
    expected = "as expected" if headline["met"] else f"not {_times(least)} to {_times(most)}"
    left = [s for s in judged["switches"] if not s["met"]]
    kept = "; ".join(f"{_times(s['gain'])} stay without: {s['what']}" for s in left)
    small = headline["gain"] < least
    none = "too little to tell whose it is" if small else "nothing of it stays with any piece off"
    parts = [
        f"The mechanism gains {_times(headline['gain'])} against {headline['against']}, {expected}",
        kept or none,
    ]
    if control is not None:
        flat = "is flat" if control["met"] else f"is not flat: {_times(control['gain'])}"
        parts.append(f"the control {flat}")
    return ["; ".join(parts) + "."]


def _times(ratio: float) -> str:
    return f"{three_digits(ratio)}x"
