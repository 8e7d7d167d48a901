"""Registry of report sections: functions that return the blocks of a section.

A section gets the input of its page and returns blocks; without blocks it is left out. Plug-ins
register their own with :func:`section`; see docs/extending.md.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from ..sim.errors import ForetraceError, NotKeptError
from .blocks import Block, Paragraph

log = logging.getLogger(__name__)

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
    name : name in ``report.sections``
    page : one of :data:`PAGES`
    title : heading of the section; "" for none
    order : position on the page, ascending
    show : function that returns the section's blocks, given the page's input
    """

    name: str
    page: str
    title: str
    order: int
    show: Show


@dataclass(frozen=True)
class ShownSection:
    """A section with its blocks, ready for a page."""

    name: str
    title: str
    blocks: Sequence[Block]


SECTIONS: dict[str, PageSection] = {}
"""Registered sections by page and name, such as ``run.blame``."""


def section(
    name: str, page: str = "run", *, title: str = "", order: int = OF_A_PLUGIN
) -> Callable[[Show], Show]:
    """Decorator that registers a function which returns the blocks of a section.

    Parameters
    ----------
    name : name in ``report.sections``
    page : ``run``, ``sweep``, ``accuracy`` or ``comparison``
    title : heading of the section; "" for none
    order : position on the page, ascending: 0 is the first screen, 90 and more is how to reproduce

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
        raise ValueError(
            f"section {name!r}: no page is called {page!r}; use one of {', '.join(PAGES)}"
        )

    def register(show: Show) -> Show:
        known = SECTIONS.get(f"{page}.{name}")
        if known is not None and known.show is not show:
            raise ValueError(f"two sections of {PAGES[page]} are called {name!r}; rename one")
        SECTIONS[f"{page}.{name}"] = PageSection(name, page, title, order, show)
        return show

    return register


@cache
def _load_sections() -> None:
    """Import the modules of all pages, which registers their sections."""
    for page in PAGES:
        package = importlib.import_module(f".{page}", __package__)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def sections(page: str) -> list[PageSection]:
    """Registered sections of a page, in order."""
    _load_sections()
    return sorted((s for s in SECTIONS.values() if s.page == page), key=lambda s: s.order)


def section_names() -> tuple[str, ...]:
    """All valid names for ``report.sections``, without duplicates."""
    return tuple(dict.fromkeys(s.name for page in PAGES for s in sections(page)))


def names_on_page(page: str, wanted: Sequence[str]) -> list[str]:
    """The given section names that exist on a page; scenarios list names for several pages.

    >>> names_on_page("sweep", ["answer", "blame", "pareto"])
    ['answer', 'pareto']
    """
    known = {s.name for s in sections(page)}
    return [name for name in wanted if name in known]


class FailedSection(NamedTuple):
    """A section or figure that could not be made, and the error."""

    name: str
    error: Exception


Failed = list[FailedSection]


def shown_sections(
    page: str, subject: Any, wanted: Sequence[str] = (), failed: Failed | None = None
) -> list[ShownSection]:
    """Sections of a page that have blocks to show.

    Parameters
    ----------
    page : one of :data:`PAGES`
    subject : input of the page
    wanted : section names in display order; all sections if empty. A name of another page is
        shown as a note on which page has it.
    failed : list to which sections that raise an error are added; a sentence takes their place.
        None to raise the error.
    """
    known = {s.name: s for s in sections(page)}
    visible, without_rows = [], dict[str, list[str]]()
    for name in wanted or known:
        one = known.get(name) or _placeholder_section(name, page)
        try:
            blocks: Sequence[Block] = tuple(one.show(subject))
        except NotKeptError as error:
            if failed is None:
                raise
            without_rows.setdefault(str(error), []).append(one.title or name)
            continue
        except Exception as error:
            if failed is None:
                raise
            blocks = (note_failed(one.name, error, failed),)
        if blocks:
            visible.append(ShownSection(one.name, one.title, blocks))
    if without_rows:
        notes = [Paragraph(_left_out_text(*one)) for one in without_rows.items()]
        visible.append(ShownSection("left_out", "Left out", notes))
    return visible


def note_failed(name: str, error: Exception, failed: Failed) -> Paragraph:
    """Log the error of a section or figure, add it to a list, and return a note in its place."""
    failed.append(FailedSection(name, error))
    if isinstance(error, ForetraceError):
        return Paragraph(f"Left out, since it cannot be made: {error}.")
    log.error("section %s of the page failed", name, exc_info=error)
    return Paragraph(f"Left out, since it failed ({type(error).__name__}: {error}).")


def _left_out_text(why: str, titles: Sequence[str]) -> str:
    """Sentence about the sections that need rows of ops which were not kept.

    >>> _left_out_text("result: rows were not kept", ["Ops", "Timeline"])
    'Ops and Timeline need one row per op: rows were not kept.'
    """
    *others, last = titles
    names = f"{', '.join(others)} and {last}" if others else last
    return f"{names} need{'s' * (not others)} one row per op: {why.removeprefix('result: ')}."


def _placeholder_section(name: str, page: str) -> PageSection:
    """A placeholder section that says which page has the section."""
    other = next(p for p in PAGES if f"{p}.{name}" in SECTIONS)
    text = f"Not in the report of {PAGES[page]}: {WRITTEN_BY[other]}."
    title = name.replace("_", " ").capitalize()
    return PageSection(name, page, title, 0, lambda _: [Paragraph(text)])
