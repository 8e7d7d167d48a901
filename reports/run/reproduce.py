"""Last sections of a run's page: the glossary, and how to repeat the run."""

from __future__ import annotations

from collections.abc import Iterable

from ..blocks import Block, Code, Listing, Paragraph, Terms
from ..section import section
from ..texts.glossary import answer_glossary as words_of
from ..texts.study import StudyShown


@section("words", title="Words", order=90)
def glossary_terms(study: StudyShown) -> Iterable[Block]:
    """Section with the glossary of the words in the answer."""
    yield Terms(list(words_of(study.answer.get("period", "")).items()))


@section("reproduce", title="Reproduce", order=95)
def how_to_repeat_run(study: StudyShown) -> Iterable[Block]:
    """Section with the command and the scenario with all values resolved."""
    run = study.run
    yield Paragraph(
        ["Run ", Code("foretrace run resolved.yaml"), " in the run's folder (run ",
         Code(run["run"]), "): the same seed and inputs give the same ", Code("summary.json"),
         ", byte for byte. It was made by ", Code(run["command"]), "."]
    )  # fmt: skip
    yield Listing(run["resolved"], "Resolved scenario, every value with its source")
