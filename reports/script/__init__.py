"""The script of a page: plain files, each one component, all in one element.

A page is read without it; with it figures zoom and tables sort.  The policy of a page names the
script by its hash, so that nothing else in a page can run.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

ORDER = (
    "base", "packed_bars", "saving", "table", "plot", "heat", "tree", "timeline", "members", "page",
)  # fmt: skip


@cache
def page_script() -> str:
    """All components, in the order in which they build on each other.

    >>> "foretrace.timeline = " in page_script(), "</script" in page_script()
    (True, False)
    """
    folder = files(__package__)
    return "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in ORDER)


def script_hash(text: str) -> str:
    """Source expression of a script for a Content-Security-Policy.

    >>> script_hash("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
