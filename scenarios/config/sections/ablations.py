"""``ablations`` and ``control``: tests that a gain comes from its mechanism and nothing else.

For a method that predicts, the headline is a measured answer; without a part of the method the
prediction no longer matches it. Every run is the scenario or a variant of ``what_if``; these
sections only say which runs are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, model_validator

from ....sim.units import Ratio, quantity
from ..metrics import parse_metric
from ..problems import FilePosition, Problem, did_you_mean_text
from ..reading.tree import TreeNode, find_node
from ..schema import REQUIRED, Attempt, Many, Section, register

BASE = "base"
GONE = 1.05  # a gain up to this counts as no gain
GAIN, MEASURED = [True, True, False, False], [False, False, True, True]
Times = Annotated[float, Field(gt=0)]


class HeadlineSection(Section):
    """Expected result of the mechanism: a gain against a baseline, or measured answers."""

    against: str | None = None
    """The variant without the mechanism, the baseline."""
    gain: Annotated[Many[Times], Field(min_length=2, max_length=2)] | None = None
    """Expected gain as [least, most]: how many times better the answer is than the baseline's."""
    measured: dict[str, str] = Field(default_factory=dict)
    """Measured answer of each variant; ``base`` is the scenario itself."""
    within: Annotated[Ratio, Field(gt=0, lt=1)] | None = None
    """Largest relative error of each answer: ``10 %``."""
    stated: str = ""
    """Statement of the authors, with its source, or the reason for the band."""

    @model_validator(mode="after")
    def _is_a_gain_or_measured(self) -> HeadlineSection:
        said = [self.against, self.gain, self.measured, self.within]
        if [bool(value) for value in said] not in (GAIN, MEASURED):
            raise ValueError(
                "the headline is neither a gain nor a measured answer; write {against: hashed, "
                "gain: [1.2, 1.5]}, or {measured: {base: 1.9 s}, within: 10 %}"
            )
        return self

    @model_validator(mode="after")
    def _is_a_band(self) -> HeadlineSection:
        low, high = self.gain or (GONE + 1, GONE + 1)
        if low > high or low <= GONE:
            raise ValueError(
                f"[{low:g}, {high:g}] is not a range of gains: up to {GONE:g} times is no gain; "
                "write it like [1.2, 1.5]"
            )
        return self


class SwitchSection(Section):
    """One part of the mechanism, and the variant in which it is off."""

    what: str = REQUIRED
    """Description of the part of the mechanism."""
    off: str = REQUIRED
    """Name of the variant in which only this part is off."""
    at_most: Times = GONE
    """Largest gain that may remain without this part; 1 is no gain."""
    of: str = BASE
    """With measured answers: the variant that differs from ``off`` in this part only."""


class AblationsSection(Section):
    """A result that holds with the mechanism on, and is lost with each of its parts off."""

    headline: HeadlineSection = REQUIRED
    """Expected gain with its baseline, or the measured answers."""
    switches: Annotated[Many[SwitchSection], Field(min_length=1)] = REQUIRED
    """Parts of the mechanism, each with a variant in which it is off."""

    @model_validator(mode="after")
    def _check_switch_criteria(self) -> AblationsSection:
        """Check that each part is judged by the gain, or by one of the measured answers."""
        measured = self.headline.measured
        for switch in self.switches:
            if measured and "at_most" in switch.model_fields_set:
                raise ValueError(
                    f"'at_most' of '{switch.what}' applies to a gain, not to measured answers; "
                    "remove it, since 'within' decides"
                )
            if not measured and "of" in switch.model_fields_set:
                raise ValueError(
                    f"'of' of '{switch.what}' applies to measured answers only; remove it"
                )
            if measured and switch.of not in measured:
                raise ValueError(
                    f"'{switch.what}' is off in a variant of '{switch.of}', which has no measured "
                    f"answer; write under 'of' one of: {', '.join(measured)}"
                )
        return self


class ControlSection(Section):
    """A case in which the mechanism can gain nothing."""

    what: str = REQUIRED
    """Why the mechanism can gain nothing in this case."""
    of: str = REQUIRED
    """The variant with the mechanism."""
    against: str = REQUIRED
    """The variant without it."""
    within: Annotated[float, Field(ge=0, lt=1)] = GONE - 1
    """Largest distance of the gain from 1."""


def _variant_names(tree: TreeNode) -> list[str]:
    listed = find_node(tree, ("what_if",))
    return [v["name"].text_value for v in (listed.items if listed else ()) if v.has("name")]


def _unknown_variant(name: str, known: list[str], spot: FilePosition) -> Problem:
    message = f"no variant named '{name}'{did_you_mean_text(name, known)}"
    return Problem("unknown-variant", message, spot)


def _unknown_variant_problems(tree: TreeNode, *paths: tuple[str | int, ...]) -> Iterator[Problem]:
    """Problems of names that are not variants in ``what_if``."""
    known = _variant_names(tree)
    for path in paths:
        node = find_node(tree, path)
        if node is not None and node.text_value and node.text_value not in known:
            yield _unknown_variant(node.text_value, known, node.spot)


def _ablation_problems(tree: TreeNode, check_tree: Attempt) -> Iterator[Problem]:
    switches = find_node(tree, ("ablations", "switches"))
    off = range(len(switches.items) if switches else 0)
    paths = [("ablations", "switches", number, "off") for number in off]
    yield from _unknown_variant_problems(tree, ("ablations", "headline", "against"), *paths)
    yield from _measured_problems(tree)


def _measured_problems(tree: TreeNode) -> Iterator[Problem]:
    """Problems of measured answers with an unknown variant or a wrong unit."""
    measured = find_node(tree, ("ablations", "headline", "measured"))
    if measured is None:
        return
    known = [BASE, *_variant_names(tree)]
    for name, node in measured.mapping.items():
        if name not in known:
            yield _unknown_variant(name, known, node.label)
    said = [find_node(tree, ("answer", way)) for way in ("minimize", "maximize")]
    metrics = [node.text_value for node in said if node is not None]
    if not metrics:
        message = "'measured' needs 'answer'; write it like answer: {minimize: iteration_time.p50}"
        yield Problem("missing-key", message, measured.label)
        return
    for node in measured.mapping.values():
        try:
            quantity(node.text, parse_metric(metrics[0])[0].unit)
        except ValueError as error:
            yield Problem("value", str(error), node.spot)


def _control_problems(tree: TreeNode, check_tree: Attempt) -> Iterator[Problem]:
    yield from _unknown_variant_problems(tree, ("control", "of"), ("control", "against"))
    own = find_node(tree, ("control",))
    if own is not None and find_node(tree, ("ablations",)) is None:
        message = "'control' needs 'ablations', which has the headline; add it"
        yield Problem("missing-key", message, own.spot)


register(
    "ablations",
    AblationsSection,
    None,
    help="Test that a gain comes from its mechanism: the expected gain, lost without each part.",
    inherited=False,
    broken=_ablation_problems,
)
register(
    "control",
    ControlSection,
    None,
    help="A case in which the mechanism must gain nothing; goes with `ablations`.",
    inherited=False,
    broken=_control_problems,
)
