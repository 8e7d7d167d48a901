"""The registry of report sections, each a function in a file of its own.

A section is given what its page is about and returns blocks (``blocks``); where it returns none it
is left out.  A plug-in adds one by writing such a function under :func:`section`; see
docs/extending.md.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from .blocks import Block, Paragraph

PAGES = {
    "run": "a run",
    "sweep": "a sweep",
    "accuracy": "an accuracy check",
    "comparison": "a comparison",
}
WRITTEN_BY = {
    "run": "'foretrace run' writes it",
    "sweep": "'foretrace sweep' writes it",
    "accuracy": "'foretrace hil check' writes it",
    "comparison": "'foretrace compare' writes it",
}
OF_A_PLUGIN = 85  # position of plug-in sections: before the glossary and the reproduce section

Show = Callable[[Any], Iterable[Block]]


@dataclass(frozen=True)
class PageSection:
    """A registered section of a page.

    Parameters
    ----------
    name : as ``report.sections`` has it
    page : one of :data:`PAGES`
    title : its head; "" for none
    order : where it stands among the others
    show : given what the page is about, its blocks
    """

    name: str
    page: str
    title: str
    order: int
    show: Show


@dataclass(frozen=True)
class ShownSection:
    """A section with its blocks, for a page."""

    name: str
    title: str
    blocks: Sequence[Block]


SECTIONS: dict[str, PageSection] = {}
"""Registered sections by page and name, such as ``run.blame``."""


def section(
    name: str, page: str = "run", *, title: str = "", order: int = OF_A_PLUGIN
) -> Callable[[Show], Show]:
    """Register a function that returns the blocks of a section.

    Parameters
    ----------
    name : as ``report.sections`` has it
    page : ``run``, ``sweep``, ``accuracy`` or ``comparison``
    title : its head
    order : sections stand by it; the first screen has 0, what it takes to reproduce 90 and more

    Raises
    ------
    ValueError
        No such page, or the name is taken.

    Examples
    --------
    >>> @section("size", title="Size")
    ... def size(study):
    ...     yield Paragraph(f"{len(study.results)} runs")
    >>> [s.name for s in sections("run")][-3:]
    ['size', 'words', 'reproduce']
    >>> del SECTIONS["run.size"]
    """
    if page not in PAGES:
        raise ValueError(f"section {name!r}: no page is called {page!r}; there is {list(PAGES)}")

    def register(show: Show) -> Show:
        known = SECTIONS.get(f"{page}.{name}")
        if known is not None and known.show is not show:
            raise ValueError(f"two sections of {PAGES[page]} are called {name!r}; rename one")
        SECTIONS[f"{page}.{name}"] = PageSection(name, page, title, order, show)
        return show

    return register


@cache
def _load_sections() -> None:
    """Import the modules of all pages, which register their sections."""
    for page in PAGES:
        package = importlib.import_module(f".{page}", __package__)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f".{page}.{module.name}", __package__)


def sections(page: str) -> list[PageSection]:
    """Registered sections of a page, in order."""
    _load_sections()
    return sorted((s for s in SECTIONS.values() if s.page == page), key=lambda s: s.order)


def section_names() -> tuple[str, ...]:
    """All names that ``report.sections`` may hold, each once."""
    return tuple(dict.fromkeys(s.name for page in PAGES for s in sections(page)))


def names_on_page(page: str, wanted: Sequence[str]) -> list[str]:
    """Those of some names that a page has: one scenario names sections of its run, sweep and check.

    >>> names_on_page("sweep", ["answer", "blame", "pareto"])
    ['answer', 'pareto']
    """
    known = {s.name for s in sections(page)}
    return [name for name in wanted if name in known]


def shown_sections(page: str, subject: Any, wanted: Sequence[str] = ()) -> list[ShownSection]:
    """Sections of a page that have something to show, with their blocks.

    Parameters
    ----------
    page : one of :data:`PAGES`
    subject : what the page is about
    wanted : names, in this order; all there are unless said.  One that only other pages have says
        where it is.
    """
    known = {s.name: s for s in sections(page)}
    visible = []
    for name in wanted or known:
        one = known.get(name) or _placeholder_section(name, page)
        if blocks := tuple(one.show(subject)):
            visible.append(ShownSection(one.name, one.title, blocks))
    return visible


def _placeholder_section(name: str, page: str) -> PageSection:
    """A placeholder section that says on which page a section is."""
    other = next(p for p in PAGES if f"{p}.{name}" in SECTIONS)
    text = f"Not in the report of {PAGES[page]}: {WRITTEN_BY[other]}."
    title = name.replace("_", " ").capitalize()
    return PageSection(name, page, title, 0, lambda _: [Paragraph(text)])
