"""All checks of a scenario, in order; each command makes the checks up to the one that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from ....sim.errors import ForetraceError
from ...config.hil_settings import undeclared_driver_warnings
from ...config.loader import READING
from ...config.problems import InvalidScenarioError, Problem
from ...config.scenario import Scenario
from ...studies.building.dry_run import unbuildable_variant_problems
from ...studies.building.missing_files import missing_file_problems

Check = Callable[[Scenario], Iterable[Problem]]


def dry_run_problems(scenario: Scenario) -> Iterator[Problem]:
    """Problems of building the machines, and warnings about unknown drivers; reads no trace."""
    yield from unbuildable_variant_problems(scenario)
    yield from undeclared_driver_warnings(scenario)


def _errors_as_problems(
    kind: str, scenario: Scenario, check: Callable[[], object]
) -> Iterator[Problem]:
    """Problems from the error that a check raises; none if it raises no error."""
    try:
        check()
    except InvalidScenarioError as error:
        yield from error.problems
    except ForetraceError as error:
        yield Problem(kind, str(error), scenario.position_of(str(error)))


def memory_limit_problems(scenario: Scenario) -> Iterator[Problem]:
    """Problem if the largest variant has more ops than fit into memory; reads the trace."""
    from ...studies.run.plan import known_memory, require_run_fits_memory

    yield from _errors_as_problems(
        "limits",
        scenario,
        lambda: require_run_fits_memory(max(scenario.variants(), key=known_memory)),
    )


def unanswerable_op_problems(scenario: Scenario) -> Iterator[Problem]:
    """Problems of work that cannot be built or placed, and of ops that a model cannot time.

    A run makes the same check before it simulates anything.
    """
    from ...studies.variants.variants import build_variants

    yield from _errors_as_problems("unanswerable", scenario, lambda: build_variants(scenario))


BUILDING: dict[str, Check] = {
    "files": missing_file_problems,
    "dry run": dry_run_problems,
    "limits": memory_limit_problems,
    "answers": unanswerable_op_problems,
}
"""Checks made after a scenario is read, by name; each later one builds more of the system and of
the work."""

ORDER = (*READING, *BUILDING)
"""Every check by name; ``load`` makes those of ``READING`` and raises their errors.

>>> ORDER
('schema', 'references', 'lint', 'files', 'dry run', 'limits', 'answers')
"""


def validation_problems(scenario: Scenario, last: str = "answers") -> Iterator[Problem]:
    """Problems of a loaded scenario, warnings first.

    A check is made only if those before it found no error, so that each cause is reported once.

    Parameters
    ----------
    last : name of the last check to make: one of ``ORDER``
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
    last : name of the last check to make: one of ``ORDER``

    Raises
    ------
    InvalidScenarioError
        A check found an error; the warnings are included.
    """
    found = tuple(validation_problems(scenario, last))
    if any(p.severity == "error" for p in found):
        raise InvalidScenarioError(found)
    return found
