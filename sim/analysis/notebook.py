"""HTML table for notebooks, without scripts or styles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """An HTML table with a title.

    Parameters
    ----------
    title : caption above the table
    rows : cells, shown as text
    head : column names, if any

    Examples
    --------
    >>> html_table("a < b", [("c", 1)])
    '<table><caption>a &lt; b</caption><tbody><tr><td>c</td><td>1</td></tr></tbody></table>'
    """
    names = "".join(f"<th>{escape(h)}</th>" for h in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(c))}</td>" for c in row) + "</tr>" for row in rows
    )
    above = f"<thead><tr>{names}</tr></thead>" if head else ""
    return f"<table><caption>{escape(title)}</caption>{above}<tbody>{body}</tbody></table>"
