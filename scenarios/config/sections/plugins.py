"""``plugins``: Python files that add backends, workload types, sections and metrics."""

from __future__ import annotations

from ..schema import Many, register

register(
    "plugins",
    Many[str],
    (),
    help="Python files run before this one is checked; they add backends, parts, metrics …",
    files=("*",),
)
