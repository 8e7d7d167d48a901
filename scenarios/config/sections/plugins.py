"""``plugins``: Python files that add backends, workload types, sections and metrics."""

from __future__ import annotations

from ..schema import Many, register

register(
    "plugins",
    Many[str],
    (),
    help="Python files that add backends, parts, metrics …; run before this file is checked.",
    files=("*",),
)
