"""PDF of a page, made by WeasyPrint if it is installed."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from ...sim.errors import ForetraceError

CURE = "pip install weasyprint, or print the page from a browser"


def write_pdf(html: str, path: Path) -> None:
    """Write a page as a PDF file.

    Raises
    ------
    ForetraceError
        WeasyPrint or the Pango library that it draws text with is not there.
    """
    try:
        from weasyprint import HTML
    except ImportError as error:
        raise ForetraceError(f"--pdf: WeasyPrint is not installed; {CURE}") from error
    except OSError as error:
        raise ForetraceError(
            f"--pdf: WeasyPrint lacks a library of the system ({str(error).partition(':')[0]}); "
            "apt-get install libpango-1.0-0 libpangoft2-1.0-0, or print the page from a browser"
        ) from error
    logging.getLogger("weasyprint").setLevel(logging.ERROR)  # it warns of styles for screens
    HTML(string=html_for_print(html)).write_pdf(path)


def html_for_print(html: str) -> str:
    """HTML of a page for printing: without script, and with literal colours for CSS variables.

    >>> html_for_print('<style>:root { --ink: #000; }</style><i style="color:var(--ink)"></i>')
    '<style>:root { --ink: #000; }</style><i style="color:#000"></i>'
    """
    still = re.sub(r"<script.*?</script>", "", html, flags=re.S)
    light = still.partition(":root {")[2].partition("}")[0]
    values = dict(re.findall(r"(--[\w-]+): ([^;]+);", light))
    return re.sub(r"var\((--[\w-]+)\)", lambda m: values.get(m[1], m[0]), still)
