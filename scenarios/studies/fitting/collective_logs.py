"""Reader of collective logs: nccl-tests, rccl-tests, and benchmarks of torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from ....models.network.collective.algorithms import bus_factor
from ....sim.errors import ScenarioError
from .log_json import json_sections
from .log_sections import NAMES, LogSection, log_sections, name_in

TWOFOLD = 2.0  # times of one size that differ so much are no noise


@dataclass(frozen=True)
class CollectiveRow:
    """One measured collective.

    Parameters
    ----------
    ranks, nodes : number of ranks, and of their machines
    size : bytes, as nccl-tests counts them
    seconds : out-of-place time in s
    """

    collective: str
    ranks: int
    nodes: int
    size: float
    seconds: float


@dataclass(frozen=True)
class CollectiveLogs:
    """Rows of logs.

    Parameters
    ----------
    rows : measured collectives, without rows of zero bytes
    notes : what was left out, and what is doubtful
    """

    rows: tuple[CollectiveRow, ...]
    notes: tuple[str, ...] = ()


def collective_logs(
    files: Sequence[str], collective: str = "", ranks: int = 0, nodes: int = 0
) -> CollectiveLogs:
    """Read logs; a file may contain several tests.

    Parameters
    ----------
    files : paths
    collective, ranks, nodes : values for tests that lack them

    Raises
    ------
    ScenarioError
        A file cannot be read, has no rows, or does not say what it measured; two tests of one
        collective have times of two kinds.
    """
    if collective and collective not in NAMES.values():
        raise ScenarioError(
            f"--collective '{collective}': is unknown; write one of "
            f"{', '.join(dict.fromkeys(NAMES.values()))}"
        )
    tests = [t for file in files for t in _tests_of(file, collective, ranks, nodes)]
    _refuse_two_populations(tests)
    rows = tuple(row for test in tests for row in test.rows)
    return CollectiveLogs(rows, tuple(_notes(tests)))


@dataclass(frozen=True)
class _Test:
    """One test: where it is, its rows, and how many rows were left out."""

    place: str
    rows: tuple[CollectiveRow, ...]
    cut: int
    wrong: int

    @property
    def group(self) -> tuple[str, int, int]:
        row = self.rows[0]
        return row.collective, row.ranks, row.nodes


def _tests_of(file: str, collective: str, ranks: int, nodes: int) -> list[_Test]:
    try:
        text = Path(file).read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise ScenarioError(f"{file}: cannot be read ({error}); give a log file") from error
    known = json_sections(text)
    sections = log_sections(text) if known is None else known
    several = len(sections) > 1
    tests = []
    for section in sections or [LogSection(1, name_in(text))]:
        place = f"{file}:{section.line}" if several else file
        named = _named(place, section, collective or name_in(Path(file).name))
        grouped = _grouped(place, named, ranks, nodes)
        rows = tuple(_rows(grouped))
        if rows:
            tests.append(_Test(place, rows, section.cut, section.wrong))
    if not tests:
        raise ScenarioError(
            f"{file}: has no row of nccl-tests, rccl-tests or a torch benchmark; give the "
            "output of all_reduce_perf, for example"
        )
    return tests


def _rows(section: LogSection) -> Iterator[CollectiveRow]:
    factor = bus_factor(section.collective, section.ranks) if section.rates else 1.0
    times = [*section.rows, *((size, size * factor / rate) for size, rate in section.rates if rate)]
    for size, spent in times:
        if size > 0:
            yield CollectiveRow(section.collective, section.ranks, section.nodes, size, spent)


def _named(place: str, section: LogSection, other: str) -> LogSection:
    """Section with its own collective, else the one that was given or that the file name has."""
    name = section.collective or other
    if not name:
        raise ScenarioError(f"{place}: does not name its collective; give --collective")
    return replace(section, collective=name)


def _grouped(place: str, section: LogSection, ranks: int, nodes: int) -> LogSection:
    """Section with its number of ranks and machines: as given, else its own."""
    n = ranks or section.ranks
    if n < 2:
        raise ScenarioError(
            f"{place}: does not say how many ranks took part; give --ranks (2 or more)"
        )
    machines = nodes or section.nodes or 1
    if n % machines:
        raise ScenarioError(
            f"{place}: {n} ranks cannot be spread evenly over {machines} machines; give --nodes"
        )
    return replace(section, ranks=n, nodes=machines)


def _refuse_two_populations(tests: Sequence[_Test]) -> None:
    """Refuse two tests of one collective, of which one takes more than twice as long."""
    for first, second in _pairs_of_one_group(tests):
        ratios = _ratios(first, second)
        if ratios and not 1 / TWOFOLD < median(ratios) < TWOFOLD:
            name, ranks, nodes = first.group
            raise ScenarioError(
                f"{second.place}: its {name} of {ranks} ranks on {nodes} machines takes "
                f"{median(ratios):.3g} times as long as in {first.place}, which is no noise but "
                "another setting; fit only one of the two"
            )


def _pairs_of_one_group(tests: Sequence[_Test]) -> Iterator[tuple[_Test, _Test]]:
    for group in dict.fromkeys(t.group for t in tests):
        yield from pairwise(t for t in tests if t.group == group)


def _ratios(first: _Test, second: _Test) -> list[float]:
    """Time in the second test over that in the first, for each size of both."""
    times = _median_times(first.rows)
    return [t / times[s] for s, t in _median_times(second.rows).items() if s in times]


def _median_times(rows: Iterable[CollectiveRow]) -> dict[float, float]:
    times: dict[float, list[float]] = {}
    for row in rows:
        times.setdefault(row.size, []).append(row.seconds)
    return {size: median(spent) for size, spent in times.items()}


def _notes(tests: Sequence[_Test]) -> Iterator[str]:
    cut, wrong = sum(t.cut for t in tests), sum(t.wrong for t in tests)
    if cut:
        yield f"{cut} row{'s' * (cut > 1)} left out: not complete, such as cut by other output"
    if wrong:
        yield f"{wrong} row{'s' * (wrong > 1)} left out: wrong results (#wrong)"
    twofold = sum(not 1 / TWOFOLD < r < TWOFOLD for pair in _pairs_of_one_group(tests)
                  for r in _ratios(*pair))  # fmt: skip
    if twofold:
        yield f"{twofold} size{'s' * (twofold > 1)} with times that differ twofold or more"
