"""Sections are found by name, also those of plug-ins."""

import shutil
import sys
from pathlib import Path

import foretrace
import pytest
from foretrace.reports.blocks import Paragraph
from foretrace.reports.run.run_page import run_page
from foretrace.reports.section import PAGES, SECTIONS, section, sections
from foretrace.scenarios.config.loader import load
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.schema import scenario_model
from foretrace.scenarios.studies.run.run import study

EXAMPLE = Path(foretrace.__file__).parent / "docs" / "examples" / "plugins" / "rank_section.py"
RUN = {"resolved": "", "command": "", "run": "0" * 12, "title": "", "timeline_cut": ""}


@pytest.fixture(scope="module")
def plugged(described, tmp_path_factory):
    """A scenario that loads the example plug-in."""
    tmp_path = tmp_path_factory.mktemp("plugged")
    shutil.copy(EXAMPLE, tmp_path)
    text = described.replace("replicas: 10", "replicas: 1")
    text += "plugins: [rank_section.py]\nreport: {sections: [ranks, answer]}\n"
    (tmp_path / "mine.yaml").write_text(text)
    yield tmp_path / "mine.yaml"
    SECTIONS.pop("run.ranks", None)
    for name in [n for n in sys.modules if n.startswith("foretrace_plugin_rank_section")]:
        del sys.modules[name]
    scenario_model.cache_clear()


def test_a_section_of_a_plug_in_is_shown_where_it_is_named(plugged):
    scenario = load(str(plugged))
    done = study(scenario)
    html = run_page(done.summary.to_dict(), done.results, RUN, scenario.report.sections)
    assert html.index('<section id="ranks"><h2>Ranks</h2>') < html.index('<section id="answer">')
    assert "Rank 1 works longest" in html
    assert html.count('<th scope="row">') >= 2


def test_a_plug_in_section_is_before_the_glossary_by_default(plugged):
    load(str(plugged))
    assert [s.name for s in sections("run")][-3:] == ["ranks", "words", "reproduce"]


def test_an_unknown_section_is_refused_with_the_known_names(plugged):
    other = plugged.with_name("other.yaml")
    other.write_text(plugged.read_text().replace("[ranks, answer]", "[anwser]"))
    with pytest.raises(InvalidScenarioError, match="'anwser' is not one of: answer, compare, "):
        load(str(other))


def test_every_page_begins_with_its_answer():
    assert {page: sections(page)[0].name for page in PAGES} == dict.fromkeys(PAGES, "answer")


def test_two_sections_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two sections of a run are called 'blame'; rename one"):
        section("blame")(lambda study: [Paragraph("mine")])


def test_a_section_of_an_unknown_page_is_refused():
    with pytest.raises(ValueError, match="no page is called 'fleet'"):
        section("mine", page="fleet")


def test_the_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) <= 80
