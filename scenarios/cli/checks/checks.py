"""The checks of a scenario, in order: what a command asks for is a beginning of the list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from ...config.loader import READING
from ...config.problems import InvalidScenarioError, Problem
from ...config.scenario import Scenario
from ...studies.building.missing_files import missing_file_problems
from .answers_check import unanswerable_op_problems
from .dry_run_check import dry_run_problems
from .limits_check import memory_limit_problems

Check = Callable[[Scenario], Iterable[Problem]]

BUILDING: dict[str, Check] = {
    "files": missing_file_problems,
    "dry run": dry_run_problems,
    "limits": memory_limit_problems,
    "answers": unanswerable_op_problems,
}
"""The checks of a scenario that is read; each later one needs more of the machine and the trace."""

ORDER = (*READING, *BUILDING)
"""Every check by name; ``load`` makes those of ``READING`` and raises their errors.

>>> ORDER
('schema', 'references', 'lint', 'files', 'dry run', 'limits', 'answers')
"""


def validation_problems(scenario: Scenario, last: str = "answers") -> Iterator[Problem]:
    """Problems of a scenario that was read, its warnings first.

    A check is made only if those before it found no error, so that a cause is told once.

    Parameters
    ----------
    last : name of the last check that is made
    """
    yield from scenario.warnings
    wanted = ORDER.index(last) + 1 - len(READING)
    for check in islice(BUILDING.values(), wanted):
        found = list(check(scenario))
        yield from found
        if any(p.severity == "error" for p in found):
            return


def require_valid(scenario: Scenario, last: str = "answers") -> tuple[Problem, ...]:
    """Check a scenario; returns its warnings, raises its errors.

    Parameters
    ----------
    last : name of the last check that is made

    Raises
    ------
    InvalidScenarioError
        A check found an error; its warnings are told with it.
    """
    found = tuple(validation_problems(scenario, last))
    if any(p.severity == "error" for p in found):
        raise InvalidScenarioError(found)
    return found
