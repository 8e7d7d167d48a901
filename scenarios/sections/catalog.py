"""``catalog``: parts of one's own, in the scenario itself; a resolved scenario has all it uses."""

from __future__ import annotations

from typing import Any

from ..schema import register

register(
    "catalog",
    dict[str, dict[str, dict[str, Any]]],
    {},
    help="Parts by kind and name, as in a catalog file; they win over installed ones.",
)
