"""Does the page of limits name each limit once, briefly, and without contradicting itself?"""

import re
from collections import Counter
from pathlib import Path

import foretrace
import pytest

PAGE = Path(foretrace.__file__).resolve().parent / "docs/limits.md"
ENTRY = re.compile(r"^- (?:\*\*(L-[a-z]+-\d+)\*\* )?(.*(?:\n  .*)*)", re.M)
PRONOUNS = {"and", "it", "that", "these", "they", "this", "which", "who"}
SAYS = re.compile(r"\b(\w+) (is|are|can|does|do|has|have|was|were) (not |never |no longer )?(\w+)")


def entries(text: str) -> list[tuple[str, str]]:
    """The id and the text of each limit."""
    return [(found[1], " ".join(found[2].split())) for found in ENTRY.finditer(text)]


def contradictions(text: str) -> set[tuple[str, str, str]]:
    """Subject, verb and word that one sentence states and another denies."""
    said: dict[bool, set[tuple[str, str, str]]] = {True: set(), False: set()}
    for _, sentence in entries(text):
        for subject, verb, negation, word in SAYS.findall(sentence.lower()):
            if subject not in PRONOUNS:
                said[not negation].add((subject, verb, word))
    return said[True] & said[False]


def test_every_limit_has_an_id_of_its_own():
    ids = [name for name, _ in entries(PAGE.read_text())]
    assert None not in ids
    assert [name for name, times in Counter(ids).items() if times > 1] == []
    assert len(ids) > 80


@pytest.mark.parametrize(("name", "text"), entries(PAGE.read_text()))
def test_a_limit_is_one_or_two_sentences(name, text):
    assert len(re.split(r"[.!?] (?=[A-Z`])", text)) <= 2, name


def test_no_two_limits_contradict_each_other():
    assert contradictions(PAGE.read_text()) == set()


def test_a_contradiction_is_found():
    page = "- **L-a-1** Identical ranks are folded.\n- **L-a-2** Many ranks are\n  not folded."
    assert contradictions(page) == {("ranks", "are", "folded")}
