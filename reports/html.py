"""Pages from templates: one environment, one head, everything in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # a page asks nobody, and runs no script


def rendered(template: str, data: Mapping[str, Any], **told: Any) -> str:
    """A page as text.

    Parameters
    ----------
    template : its name in ``templates``
    data : embedded as JSON, so that a page can be compared without its folder
    told : what the template names
    """
    page = environment().get_template(template)
    found: str = page.render(data=embedded(data), policy=POLICY, **told)
    return found


@cache
def environment() -> Environment:
    """The templates of this folder; they include and extend each other."""
    import jinja2

    folder = files(__package__) / "templates"
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )


def embedded(data: Mapping[str, Any]) -> str:
    r"""JSON that cannot end its script element.

    >>> embedded({"a": "</script>"})
    '{"a": "\\u003c/script>"}'
    """
    return json.dumps(data).replace("<", "\\u003c")
