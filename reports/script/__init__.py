"""The script of pages: plain files, one component each, joined into one script element.

Pages can be read without it; with it, figures zoom and tables sort. The page's
Content-Security-Policy lists the script's hash, so no other script can run.
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
    """Text of all script components, ordered so that each follows those it uses.

    >>> "foretrace.timeline = " in page_script(), "</script" in page_script()
    (True, False)
    """
    folder = files(__package__)
    return "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in ORDER)


def script_hash(text: str) -> str:
    """Hash of a script for a Content-Security-Policy.

    >>> script_hash("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
