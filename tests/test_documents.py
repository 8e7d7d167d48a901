"""Are documents in the form that the house holds them to: width, length, generated tables?"""

import importlib.util
import re
from pathlib import Path

import foretrace
import pytest

ROOT = Path(foretrace.__file__).resolve().parent
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]


def write_scores():
    """The program that writes the tables of the page of accuracy."""
    spec = importlib.util.spec_from_file_location("write_scores", ROOT / "docs/write_scores.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", write_scores().PAGES, ids=lambda p: p.parent.name)
def test_tables_of_scores_are_those_of_their_files(page):
    assert page.read_text() == write_scores().written(page.read_text())


def test_every_file_of_scores_is_shown_once():
    program = write_scores()
    shown = sorted(name for page in program.PAGES for name in program.names(page.read_text()))
    assert shown == sorted(file.stem for file in (ROOT / "docs/scores").glob("*.csv"))


def test_accuracy_has_at_most_250_lines_of_text():
    program = write_scores()
    text = program.PLACE.sub("", program.PAGES[0].read_text())
    assert sum(1 for line in text.splitlines() if line.strip()) <= 250


def test_a_release_has_at_most_60_lines_and_fixes_are_called_so():
    page = (ROOT / "CHANGELOG.md").read_text()
    release = re.search(r"^## \[0.2.0\].*?(?=^## |\Z)", page, re.M | re.S)
    assert sum(1 for line in release[0].splitlines() if line.strip()) <= 60
    assert "Wrong before" not in page


def test_all_files_name_one_version():
    cfg = re.search(r"^version = (\S+)", (ROOT / "setup.cfg").read_text(), re.M)[1]
    cff = re.search(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(), re.M)[1]
    released = re.findall(r"^## \[(\d[\d.]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert [cfg, cff] == [released[0]] * 2


def test_the_page_of_models_names_all_of_them():
    from foretrace.models.training.description.model_zoo import known_models

    page = " ".join((ROOT / "docs/training/model.md").read_text().split())
    listed = re.search(r"public model: (.*?)\. The parameter", page)[1]
    assert sorted(listed.replace("`", "").split(", ")) == sorted(known_models())


WIDTH = 100


def wide_lines(text: str) -> list[str]:
    """Lines wider than the page, but for those of one word, which nothing can break."""
    lines = (line.removeprefix("- ").strip() for line in text.splitlines() if len(line) > WIDTH)
    return [line for line in lines if " " in line]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_lines_of_documents_have_at_most_100_columns(page):
    assert wide_lines(page.read_text()) == []
