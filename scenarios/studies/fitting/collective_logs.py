"""Reader of collective logs: nccl-tests, rccl-tests, and benchmarks of torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....models.network.collective.algorithms import bus_factor
from ....sim.errors import ScenarioError
from ....sim.units import quantity

NAMES = {
    "all_reduce": "all-reduce", "allreduce": "all-reduce",
    "all_gather": "all-gather", "allgather": "all-gather",
    "reduce_scatter": "reduce-scatter", "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all", "all_to_all": "all-to-all",
    "broadcast": "broadcast", "reduce": "reduce",
}  # fmt: skip
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\s.*?\son\s+(\S+)\s+device\s+\d+", re.MULTILINE)
_NAME = re.compile(rf"({'|'.join(NAMES)})(?=_perf|_bench|\b|\.)")
_BANDWIDTH = re.compile(  # | 32KiB | 1.44GBps | …
    r"^\s*\|?\s*([\d.]+\s*[KMG]?i?B)\s*[|,:]\s*([\d.]+)\s*GBps\b", re.MULTILINE
)
_OVER = re.compile(r"over (\d+) ranks(?:.*?\((\d+) nodes?\))?")
OUT_OF_PLACE = 8  # columns from the end: time, algbw, busbw, error; the same in place
LEAST = 3 + OUT_OF_PLACE


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


def collective_rows(
    files: Sequence[str], collective: str = "", ranks: int = 0, nodes: int = 0
) -> list[CollectiveRow]:
    """Read the rows of logs, without rows of zero bytes.

    Parameters
    ----------
    files : paths
    collective, ranks, nodes : values for logs that lack them

    Raises
    ------
    ScenarioError
        A file cannot be read, has no rows, or does not say what it measured.
    """
    found: list[CollectiveRow] = []
    for file in files:
        try:
            text = Path(file).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ScenarioError(f"{file}: cannot be read ({error}); give a log file") from error
        name = _collective_of(file, text, collective)
        n, machines = _group_of(file, text, ranks, nodes)
        times = list(_nccl_tests(text)) or list(_bandwidths(text, bus_factor(name, n)))
        rows = [CollectiveRow(name, n, machines, size, spent) for size, spent in times if size > 0]
        if not rows:
            raise ScenarioError(
                f"{file}: has no row of nccl-tests, rccl-tests or a torch benchmark; give the "
                "output of all_reduce_perf, for example"
            )
        found += rows
    return found


def _nccl_tests(text: str) -> Iterator[tuple[float, float]]:
    """(bytes, seconds) of each row of nccl-tests or rccl-tests."""
    for line in text.splitlines():
        words = line.split()
        if len(words) < LEAST or not (words[0].isdigit() and words[1].isdigit()):
            continue
        try:
            spent = float(words[-OUT_OF_PLACE]) * 1e-6
        except ValueError:
            continue
        if spent > 0:
            yield float(words[0]), spent


def _bandwidths(text: str, factor: float) -> Iterator[tuple[float, float]]:
    """(bytes, seconds) of each row of a torch benchmark, from its bus bandwidth."""
    for size, rate in _BANDWIDTH.findall(text):
        data = quantity(size, "B")
        yield data, data * factor / (float(rate) * 1e9)


def _collective_of(file: str, text: str, given: str) -> str:
    """Collective of a log: as given, else from the log, else from the file name."""
    if given:
        if given not in NAMES.values():
            raise ScenarioError(
                f"--collective '{given}': is unknown; write one of "
                f"{', '.join(dict.fromkeys(NAMES.values()))}"
            )
        return given
    for line in (*text.splitlines(), Path(file).name):
        if (
            "perf" in line or "bench" in line or line == Path(file).name or "bandwidth of" in line
        ) and (match := _NAME.search(line.lower())):
            return NAMES[match[1]]
    raise ScenarioError(f"{file}: does not name its collective; give --collective")


def _group_of(file: str, text: str, ranks: int, nodes: int) -> tuple[int, int]:
    """Number of ranks and machines: as given, else from the log."""
    listed = dict(_RANK.findall(text))
    over = _OVER.search(text)
    n = ranks or len(listed) or (int(over[1]) if over else 0)
    if n < 2:
        raise ScenarioError(
            f"{file}: does not say how many ranks took part; give --ranks (2 or more)"
        )
    machines = nodes or len(set(listed.values())) or (int(over[2]) if over and over[2] else 1)
    if n % machines:
        raise ScenarioError(
            f"{file}: {n} ranks cannot be spread evenly over {machines} machines; give --nodes"
        )
    return n, machines
