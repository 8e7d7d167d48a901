"""SHA-256 of what can change an answer: the source code, and the files that a workload reads."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from ...config.reading.files import content_digest
from ...config.scenario import Scenario
from ...workloads.trace_files import paths
from ..building.jobs import workloads_of


def trace_digest(scenario: Scenario) -> str:
    """SHA-256 of the files that the workloads read; "" if there are none."""
    names = [f for work in workloads_of(scenario).values() for f in work.needs.files]
    contents = [content_digest(str(path)) for name in names for path in paths(name)]
    return hashlib.sha256("".join(contents).encode()).hexdigest() if names else ""


@cache  # a process runs what it has imported
def code_digest() -> str:
    """SHA-256 of the source code, since changed models give another answer.

    >>> len(code_digest())
    64
    """
    root = Path(__file__).parents[3]
    digest = hashlib.sha256()
    for folder in ("sim", "models", "traces", "scenarios", "reports", "hil", "plugins"):
        for file in sorted((root / folder).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()
