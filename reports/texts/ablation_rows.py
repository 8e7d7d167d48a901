"""Table rows and sentences on ablations, for pages, terminals and system pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..numbers import format_quantity, format_signed_share, three_digits

Judged = Mapping[str, Any]
CONTROL = "control"  # its row begins so
NONE_LEFT = "Without any one piece, the gain is gone"


class AblationRow(NamedTuple):
    """One comparison of an ablation as texts: case, variants, result and expectation.

    `met` is True if the result meets the expectation.
    """

    what: str
    variants: str
    found: str
    expected: str
    met: bool


def result_column_name(ablations: Judged) -> str:
    """Header of the result column: ``gain``, or ``error`` in a comparison with measurements."""
    return "error" if "measured" in ablations["headline"] else "gain"


def ablation_rows(ablations: Judged) -> Iterator[AblationRow]:
    """Rows of the ablations: with the mechanism, without each part of it, and the control.

    Parameters
    ----------
    ablations : ``ablations`` of a summary
    """
    yield from (
        _measured_rows(ablations) if "measured" in ablations["headline"] else _gain_rows(ablations)
    )
    if (control := ablations["control"]) is not None:
        gain, within = control["gain"], control["within"]
        yield AblationRow(
            f"{CONTROL}: {control['what']}",
            f"{control['of']} against {control['against']}",
            _times(gain),
            f"{_times(1 - within)} to {_times(1 + within)}",
            control["met"],
        )


def _gain_rows(ablations: Judged) -> Iterator[AblationRow]:
    headline = ablations["headline"]
    against, (low, high) = headline["against"], headline["band"]
    yield AblationRow(
        "with the mechanism",
        f"base against {against}",
        _times(headline["gain"]),
        f"{_times(low)} to {_times(high)}",
        headline["met"],
    )
    for switch in ablations["switches"]:
        yield AblationRow(
            f"without: {switch['what']}",
            f"{switch['off']} against {against}",
            _times(switch["gain"]),
            f"at most {_times(switch['at_most'])}",
            switch["met"],
        )


def _measured_rows(ablations: Judged) -> Iterator[AblationRow]:
    headline = ablations["headline"]
    within, took = headline["within"], {}
    for one in headline["measured"]:
        took[one["variant"]] = f"{format_quantity(one['value'], one['unit'])} measured"
        yield AblationRow(
            "with the mechanism",
            f"{one['variant']} against {took[one['variant']]}",
            format_signed_share(one["error"]),
            _edge_shift(within),
            abs(one["error"]) <= within,
        )
    for switch in ablations["switches"]:
        yield AblationRow(
            f"without: {switch['what']}",
            f"{switch['off']} against {took[switch['of']]}",
            format_signed_share(switch["error"]),
            f"more than {format_quantity(within, '')}",
            switch["met"],
        )


def ablation_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Sentences on the ablations of a summary; an empty list if it has none.

    >>> off = {"what": "two ways", "off": "one", "gain": 1.0, "at_most": 1.05, "met": True}
    >>> headline = {"against": "old", "gain": 1.5, "band": [1.4, 1.6], "stated": "", "met": True}
    >>> judged = {"headline": headline, "switches": [off], "control": None}
    >>> ablation_sentences({"ablations": judged})
    ['The mechanism gains 1.5x over old, as expected. Without any one piece, the gain is gone.']
    >>> judged["headline"] |= {"gain": 1.03, "met": False}
    >>> ablation_sentences({"ablations": judged})
    ['The mechanism gains 1.03x over old, not 1.4x to 1.6x. That is too little to test its pieces.']
    >>> one = {"variant": "base", "value": 2.0, "unit": "s", "error": -0.03}
    >>> headline = {"measured": [one], "within": 0.1, "stated": "", "met": True}
    >>> off = {"what": "two ways", "off": "one", "of": "base", "error": 0.3, "met": True}
    >>> judged = {"headline": headline, "switches": [off], "control": None}
    >>> ablation_sentences({"ablations": judged})[0].split(". ")[0]
    'The mechanism predicts 1 of 1 measurements within 10 %, with an error of -3.0 % at worst'
    """
    judged = summary.get("ablations")
    if not judged:
        return []
    tell = _measured_parts if "measured" in judged["headline"] else _gain_parts
    parts, control = tell(judged), judged["control"]
    if control is not None:
        found = "does not change" if control["met"] else f"changes: {_times(control['gain'])}"
        parts.append(f"The control {found}")
    return [". ".join(parts) + "."]


def _gain_parts(ablations: Judged) -> list[str]:
    headline = ablations["headline"]
    least, most = headline["band"]
    expected = "as expected" if headline["met"] else f"not {_times(least)} to {_times(most)}"
    left = [s for s in ablations["switches"] if not s["met"]]
    kept = ". ".join(f"{_times(s['gain'])} remains without: {s['what']}" for s in left)
    small = headline["gain"] < least
    none = "That is too little to test its pieces" if small else NONE_LEFT
    return [
        f"The mechanism gains {_times(headline['gain'])} over {headline['against']}, {expected}",
        kept or none,
    ]


def _measured_parts(ablations: Judged) -> list[str]:
    headline = ablations["headline"]
    bar, errors = headline["within"], [one["error"] for one in headline["measured"]]
    worst, inside = max(errors, key=abs), sum(abs(error) <= bar for error in errors)
    left = [s for s in ablations["switches"] if not s["met"]]
    kept = ". ".join(
        f"The error is only {format_signed_share(s['error'])} without: {s['what']}" for s in left
    )
    return [
        f"The mechanism predicts {inside} of {len(errors)} measurements {_edge_shift(bar)}, "
        f"with an error of {format_signed_share(worst)} at worst",
        kept or "Without any one piece, the error is larger",
    ]


def _times(ratio: float) -> str:
    return f"{three_digits(ratio)}x"


def _edge_shift(share: float) -> str:
    return f"within {format_quantity(share, '')}"
