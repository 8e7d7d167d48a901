"""The page is one file that answers, loads nothing, and names its sources."""

import json
import re
from html.parser import HTMLParser

import pytest
from foretrace.reports.run.run_page import run_page
from foretrace.reports.section import section_names, sections

RUN = {
    "resolved": "name: small  # <from> the file\n",
    "command": "foretrace run small.yaml",
    "run": "0123456789ab",
    "title": "",
    "timeline_cut": "",
}
SECTIONS = [
    "answer", "compare", "where_time_goes", "ops", "blame", "bottlenecks", "use",
    "links", "timeline", "assumptions", "metrics", "words", "reproduce",
]  # fmt: skip
VOID = {"meta", "br", "img", "hr", "link", "input", "wbr"}


class Reader(HTMLParser):
    """HTML parser that checks nesting and collects what a page would load."""

    def __init__(self):
        super().__init__()
        self.open, self.sections, self.loads, self.texts = [], [], [], []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.sections.append(given["id"])
        for name in ("src", "href", "xlink:href", "data", "action", "poster", "srcset"):
            if name in given and not given[name].startswith(("#", "data:")):
                self.loads.append((tag, name, given[name]))

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def html(small):
    return run_page(small.summary.to_dict(), small.results, RUN)


@pytest.fixture(scope="module")
def read(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def test_every_element_is_closed(read):
    assert read.open == []


def test_default_sections_are_in_their_order(read):
    assert read.sections == SECTIONS


def test_nothing_is_loaded(html, read):
    assert read.loads == []
    assert "@import" not in html
    assert re.findall(r"url\((?!#)", html) == []
    assert set(re.findall(r"""["'](https?://[^"']*)""", html)) <= {
        "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
    }  # fmt: skip


def test_it_is_small_enough_to_mail(html):
    assert len(html.encode()) < 1_000_000


def test_the_summary_is_embedded(html, small):
    text = re.search(r'<script type="application/json" id="summary">(.*?)</script>', html, re.S)[1]
    told = json.loads(text)
    assert told["points"]["base"]["blame"] == small.summary.points["base"]["blame"]


def test_metrics_of_single_parts_do_not_make_a_page_of_a_large_machine_too_large(html, small):
    told = small.summary.to_dict()
    metrics = told["points"]["base"]["metrics"]
    one = metrics["gpu.utilization.mean"]
    metrics |= {f"node{n}.gpu{g}.utilization.p50": one for n in range(2_000) for g in range(8)}
    large = run_page(told, small.results, RUN)
    assert len(large) < len(html) + 1_000
    embedded = re.search(r'id="summary">(.*?)</script>', large, re.S)[1]
    kept = json.loads(embedded)["points"]["base"]["metrics"]
    assert kept["gpu.utilization.mean"]["value"] == one["value"]


def test_texts_of_the_user_are_escaped(html):
    assert "Is &lt;b&gt;this&lt;/b&gt; &amp; that worth it?" in html
    assert "# &lt;from&gt; the file" in html


def test_the_first_screen_says_the_answer_and_its_change(read):
    text = " ".join(read.texts)
    assert "As described, an iteration takes " in text
    assert "quick makes an iteration " in text
    assert "How far to trust this" in text


def test_each_value_of_the_machine_has_a_source(small, read):
    text = " ".join(read.texts)
    for value in small.summary.provenance["values"]:
        assert value["path"] in text
        assert value["where"] in text


def test_no_element_sets_its_own_text_colour(html):
    """Text is HTML outside of drawings, so its colour follows the light or dark style."""
    for drawing in re.findall(r"<svg.*?</svg>", html, re.S):
        assert "<text" not in drawing
        assert "stroke=" not in drawing


def test_the_same_study_gives_the_same_page(html, small):
    assert run_page(small.summary.to_dict(), small.results, RUN) == html


def test_it_says_when_the_timeline_file_was_cut(small):
    told = run_page(small.summary.to_dict(), small.results, RUN | {"timeline_cut": "1,234"})
    assert "That file leaves out the last 1,234 slices" in told


def test_requested_sections_are_shown_in_the_given_order(small):
    told = Reader()
    told.feed(run_page(small.summary.to_dict(), small.results, RUN, ("blame", "answer")))
    assert told.sections == ["blame", "answer"]


def test_a_section_of_another_page_says_where_it_is(small):
    told = run_page(small.summary.to_dict(), small.results, RUN, ("answer", "pareto"))
    assert "Not in the report of a run: &#39;foretrace sweep&#39; writes it." in told


def test_every_section_that_a_scenario_may_name_is_shown_or_explained(small):
    told = run_page(small.summary.to_dict(), small.results, RUN, section_names())
    for name in set(section_names()) - {s.name for s in sections("run")}:
        assert f'<section id="{name}">' in told


def test_the_suggested_defend_command_drops_output_options(small):
    typed = RUN | {"command": "foretrace run small.yaml --set a.b=1 --no-cache --json"}
    text = run_page(small.summary.to_dict(), small.results, typed)
    assert "<code>foretrace run small.yaml --set a.b=1 --defend</code>" in text
