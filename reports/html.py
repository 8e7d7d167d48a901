"""HTML pages from templates: one environment, one page head, everything in one file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from .blocks import Block, inline_pieces
from .figure_kind import figures_in, page_drawing
from .page_figures import encode_figures, page_figures
from .palette import css
from .paper.write import inline_svg
from .script import page_script, script_hash
from .section import Failed, ShownSection, note_failed

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

PART = re.compile(r"(?<=\w)(::|[._/])(?=[A-Za-z])")  # ends a part of a name

POLICY = (  # a page makes no requests and runs only its own script
    f"default-src 'none'; style-src 'unsafe-inline'; script-src {script_hash(page_script())}"
)


def page_html(
    sections: Sequence[ShownSection],
    data: Mapping[str, Any],
    *,
    title: str,
    question: str = "",
    data_id: str = "summary",
    failed: Failed | None = None,
) -> str:
    """HTML of a complete page.

    Parameters
    ----------
    sections : sections of the page with their blocks
    data : data embedded as JSON, so that pages can be compared without the run folder
    title, question : texts at the top of the page
    data_id : id of the HTML element that holds the data
    failed : list to which sections with a figure that cannot be drawn are added, to be left out;
        None to raise the error
    """
    texts = {"title": title, "question": question, "data_id": data_id}
    try:
        return _rendered_page(sections, data, texts)
    except Exception:
        if failed is None:
            raise
    return _rendered_page([_drawable_section(one, failed) for one in sections], data, texts)


def _rendered_page(
    sections: Sequence[ShownSection], data: Mapping[str, Any], texts: Mapping[str, str]
) -> str:
    markup: str = (
        template_environment()
        .get_template("page.html")
        .render(
            sections=sections,
            figures=encode_figures(page_figures(sections)),
            data=script_safe_json(data),
            **texts,
            policy=POLICY,
            script=page_script(),
        )
    )
    return markup


def _drawable_section(section: ShownSection, failed: Failed) -> ShownSection:
    """Section, in which a note replaces each block with a figure that cannot be drawn."""
    blocks = [_drawable_block(section.name, block, failed) for block in section.blocks]
    return replace(section, blocks=blocks)


def _drawable_block(section: str, block: Block, failed: Failed) -> Block:
    try:
        for figure in figures_in(block):
            figure_html(figure)
        encode_figures(page_figures([ShownSection(section, "", [block])]))
    except Exception as error:
        return note_failed(section, error, failed)
    return block


def figure_html(figure: Any) -> str:
    """HTML of a figure; a kind without a page drawing is drawn as on paper, as SVG."""
    if draw := page_drawing(type(figure)):
        return draw(figure)
    return inline_svg(figure)


@cache
def template_environment() -> Environment:
    """Jinja environment for the templates in ``templates/``."""
    import jinja2

    folder = files(__package__) / "templates"
    templates = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    templates.filters["breakable"] = breakable_name
    templates.globals |= {
        "css": css,
        "pieces": inline_pieces,
        "drawn": figure_html,
        "as_json": script_safe_json,
    }
    return templates


def breakable_name(text: str) -> Markup:
    """HTML of a dotted name that may wrap after each dot, but not within a part.

    >>> str(breakable_name("gpu.time.p50 <b>"))
    'gpu.<wbr>time.<wbr>p50 &lt;b&gt;'
    """
    from markupsafe import Markup, escape

    return Markup(PART.sub(r"\1<wbr>", str(escape(text))))


def script_safe_json(data: Mapping[str, Any]) -> str:
    r"""JSON text that is safe inside a script element: it contains no closing tag.

    >>> script_safe_json({"a": "</script>"})
    '{"a": "\\u003c/script>"}'
    """
    return json.dumps(data).replace("<", "\\u003c")
