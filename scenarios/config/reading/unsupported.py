"""Settings that the schema knows and nothing simulates yet: refused by name, never ignored.

Later work takes its line out of the table below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..problems import Problem, Spot, in_order
from ..scenario import Scenario

# Setting, the values that are acted on, and what to do about others.  None: only its absence.
ACTED_ON: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("placement.optimizer_state", ("hbm",), "keep hbm"),
    ("workload.recorded_on.parallel.expert", (1,), "leave it out"),
    ("workload.scale_to.parallel.expert", (1,), "leave it out"),
)


def unsupported(scenario: Scenario) -> tuple[Problem, ...]:
    """Settings of a scenario and of its variants that a run refuses.

    Examples
    --------
    >>> from foretrace.scenarios.config.loader import load
    >>> unsupported(load("first"))
    ()
    """
    return in_order(_refused(scenario))


def _refused(scenario: Scenario) -> Iterator[Problem]:
    for one in scenario.variants():
        for path, fine, cure in ACTED_ON:
            value = _value(one.model, path)
            if value is not None and value not in fine:
                message = f"'{path}' is '{value}', and nothing simulates that yet; {cure}"
                yield Problem("unanswered", message, spot_of(one, path))


def _value(model: Any, path: str) -> Any:
    """The value at a path; None where there is none."""
    for word in path.split("."):
        model = getattr(model, word, None)
    return model


def spot_of(scenario: Scenario, path: str) -> Spot:
    """The place of a setting; the file alone where no value of it was written."""
    where = next((o.where for p, o in scenario.origins.items() if p.startswith(path)), "")
    parts = where.rsplit(":", 2)
    if len(parts) < 3:
        return Spot(scenario.file, path=path)
    file, line, column = parts
    return Spot(file, int(line), int(column), path=path)
