"""Every word of the first screen is in the glossary."""

import html as text
import re

import pytest
from foretrace.reports.run.run_page import run_page
from foretrace.reports.texts.glossary import WORDS, definition_of

RUN = {"resolved": "", "command": "", "run": "0" * 12, "title": "", "timeline_cut": ""}


@pytest.mark.parametrize("word", ["rank", "p50", "blind", "jitter", "critical path", "assumed"])
def test_every_word_of_an_answer_is_in_the_glossary(word, small):
    html = run_page(small.summary.to_dict(), small.results, RUN)
    first = html[html.index("<main>") : html.index("</section>")]
    assert word in first
    below = html[html.index('<section id="words">') :]
    assert f"<dd>{text.escape(definition_of(word))}</dd>" in below


def test_each_meaning_is_one_sentence_or_clause_list_with_an_end():
    assert all(re.fullmatch(r"[A-Z9].*[.]", meaning) for meaning in WORDS.values())
