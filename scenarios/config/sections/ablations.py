"""``ablations`` and ``control``: that a gain comes from its mechanism, and from nothing else.

Every run is the scenario or a variant of ``what_if``; these keys only say which are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, model_validator

from ..problems import Problem, did_you_mean_text
from ..reading.tree import TreeNode, find_node
from ..schema import REQUIRED, Attempt, Many, Section, register

GONE = 1.05  # a gain up to this is none
Ratio = Annotated[float, Field(gt=0)]


class HeadlineSection(Section):
    """The gain that the mechanism is for: so many times better than the baseline."""

    against: str = REQUIRED
    """The variant without the mechanism, the baseline."""
    gain: Annotated[Many[Ratio], Field(min_length=2, max_length=2)] = REQUIRED
    """Its band, as [least, most]: how many times better the answer is than the baseline's."""
    stated: str = ""
    """What its authors state, and where; or why the band is what it is."""

    @model_validator(mode="after")
    def _is_a_band(self) -> HeadlineSection:
        low, high = self.gain
        if low > high or low <= GONE:
            raise ValueError(
                f"[{low:g}, {high:g}] is no band of a gain: up to {GONE:g} times is none; "
                "write it like [1.2, 1.5]"
            )
        return self


class SwitchSection(Section):
    """One piece of the mechanism, and the variant in which it is off."""

    what: str = REQUIRED
    """The piece, in words."""
    off: str = REQUIRED
    """The variant in which this piece alone is off."""
    at_most: Ratio = GONE
    """What is left of the gain without it; 1 is nothing."""


class AblationsSection(Section):
    """A headline that holds with the mechanism on, and is gone with each of its pieces off."""

    headline: HeadlineSection = REQUIRED
    """The gain, its baseline and its band."""
    switches: Annotated[Many[SwitchSection], Field(min_length=1)] = REQUIRED
    """The pieces of the mechanism."""


class ControlSection(Section):
    """A case in which the mechanism can gain nothing."""

    what: str = REQUIRED
    """Why it can gain nothing there, in words."""
    of: str = REQUIRED
    """The variant with the mechanism."""
    against: str = REQUIRED
    """The variant without it."""
    within: Annotated[float, Field(ge=0, lt=1)] = GONE - 1
    """How far from 1 the gain may be."""


def _unknown_variant_problems(tree: TreeNode, *paths: tuple[str | int, ...]) -> Iterator[Problem]:
    """Names of variants that ``what_if`` does not have."""
    listed = find_node(tree, ("what_if",))
    known = [v["name"].text_value for v in (listed.items if listed else ()) if v.has("name")]
    for path in paths:
        node = find_node(tree, path)
        if node is not None and node.text_value and node.text_value not in known:
            message = f"no variant named '{node.text}'{did_you_mean_text(node.text_value, known)}"
            yield Problem("unknown-variant", message, node.spot)


def _ablation_problems(tree: TreeNode, attempt: Attempt) -> Iterator[Problem]:
    switches = find_node(tree, ("ablations", "switches"))
    off = range(len(switches.items) if switches else 0)
    paths = [("ablations", "switches", number, "off") for number in off]
    yield from _unknown_variant_problems(tree, ("ablations", "headline", "against"), *paths)


def _control_problems(tree: TreeNode, attempt: Attempt) -> Iterator[Problem]:
    yield from _unknown_variant_problems(tree, ("control", "of"), ("control", "against"))
    own = find_node(tree, ("control",))
    if own is not None and find_node(tree, ("ablations",)) is None:
        message = "'control' stands beside 'ablations', which says the headline; add it"
        yield Problem("missing-key", message, own.spot)


register(
    "ablations",
    AblationsSection,
    None,
    help="That a gain comes from its mechanism: a headline in its band, gone without each piece.",
    inherited=False,
    broken=_ablation_problems,
)
register(
    "control",
    ControlSection,
    None,
    help="A case in which the mechanism gains nothing, beside `ablations`.",
    inherited=False,
    broken=_control_problems,
)
