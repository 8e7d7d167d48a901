"""Sections of a log of nccl-tests, rccl-tests or a torch benchmark: one for each test in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ....sim.units import quantity

NAMES = {
    "all_reduce": "all-reduce", "allreduce": "all-reduce",
    "all_gather": "all-gather", "allgather": "all-gather",
    "reduce_scatter": "reduce-scatter", "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all", "all_to_all": "all-to-all",
    "broadcast": "broadcast", "reduce": "reduce",
}  # fmt: skip
_TAG = (
    re.compile(  # of mpirun, srun and loggers: [1,0]<stdout>:, 3: , [rank0]: , 2026-01-01 12:00:00
        r"^(?:\s*(?:\[\d+,\d+\]\s?<\w+>:|<stdout>:|\[(?:rank)?\d+\]:?\s|\d+:\s"
        r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?(?=\s|#)))+ ?"
    )
)
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\s.*?\son\s+(\S+)\s+device\s+\d+")
_NAME = re.compile(rf"({'|'.join(NAMES)})(?=_perf|_bench|\b|\.)")
_PROGRAM = re.compile(rf"\b({'|'.join(NAMES)})(?:_perf|_bench)", re.IGNORECASE)
_BEGINS = re.compile(r"^#\s+(?:Collective test starting|nThread\s|Using devices)")
_ENDS = re.compile(r"^#\s+(?:Collective test concluded|Out of bounds|Avg bus bandwidth)")
_OVER = re.compile(r"bandwidth of (\w+) over (\d+) ranks(?:.*?\((\d+) nodes?\))?")
_BANDWIDTH = re.compile(r"^\s*\|?\s*([\d.]+\s*[KMG]?i?B)\s*[|,:]\s*([\d.]+)\s*GBps\b")
_BEGINS_A_ROW = re.compile(r"^\s*\d+\s+\d+\s+[a-z]\w*\s")
_NUMBER = r"\s+(\d+(?:\.\d*)?(?:e[+-]?\d+)?)"
_WRONG = r"\s+(N/A|\d\S*)"
_ROW = re.compile(
    r"^\s*(\d+)\s+(\d+)\s+[a-z]\w*(?:\s+[a-z]\w*)?(?:\s+-?\d+)??"
    + _NUMBER * 3 + _WRONG + f"(?:{_NUMBER * 3}{_WRONG})?"
    + r"(?:\s+\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)?\s*$"
)  # fmt: skip
CLOSE = 0.03  # that a bandwidth differs from size over time, besides its digits
DIGIT = 0.011  # GB/s


@dataclass
class LogSection:
    """One test of a log.

    Parameters
    ----------
    line : number of its first line
    collective : "" if the section does not name it
    rows : size in bytes and time in s of each row
    rates : size in bytes and bus bandwidth in B/s of each row of a torch benchmark
    cut : number of rows that are not complete, or whose bandwidth is not size over time
    wrong : number of rows with wrong results
    """

    line: int
    collective: str = ""
    ranks: int = 0
    nodes: int = 0
    rows: list[tuple[float, float]] = field(default_factory=list)
    rates: list[tuple[float, float]] = field(default_factory=list)
    cut: int = 0
    wrong: int = 0
    machines: dict[str, str] = field(default_factory=dict)

    @property
    def has_rows(self) -> bool:
        """True if the section has rows, complete or not."""
        return bool(self.rows or self.rates or self.cut or self.wrong)


def log_sections(text: str) -> list[LogSection]:
    r"""Sections with rows, in the order of the text.

    >>> log_sections("# Collective test starting: all_gather_perf\n"
    ...              " 1024  256  float none -1 16.0 0.06 0.06 0 16.0 0.06 0.06 0")[0].rows
    [(1024.0, 1.6e-05)]
    """
    sections, counts_wrong = [LogSection(1)], False
    for number, tagged in enumerate(text.splitlines(), 1):
        line = _TAG.sub("", tagged, count=1)
        if sections[-1].has_rows and _begins_section(line, sections[-1]):
            sections.append(LogSection(number))
        counts_wrong = "#wrong" in line or (counts_wrong and "error" not in line)
        _read_line(line, sections[-1], counts_wrong)
    return [s for s in sections if s.has_rows]


def name_in(text: str) -> str:
    """Collective that a text names, such as a file name; "" if none.

    >>> name_in("nccl_allgather.log")
    'all-gather'
    """
    found = _NAME.search(text.lower())
    return NAMES[found[1]] if found else ""


def _begins_section(line: str, section: LogSection) -> bool:
    """True if a line after rows belongs to another test."""
    if _BEGINS.match(line) or _OVER.search(line):
        return True
    program = _PROGRAM.search(line)
    return bool(program and not _ENDS.match(line) and name_in(line) != section.collective)


def _read_line(line: str, section: LogSection, counts_wrong: bool) -> None:
    if rank := _RANK.match(line):
        section.machines[rank[1]] = rank[2]
        section.ranks = len(section.machines)
        section.nodes = len(set(section.machines.values()))
    elif over := _OVER.search(line):
        section.collective = name_in(over[1])
        section.ranks, section.nodes = int(over[2]), int(over[3] or 0)
    elif rate := _BANDWIDTH.match(line):
        section.rates.append((quantity(rate[1], "B"), float(rate[2]) * 1e9))
    elif _BEGINS_A_ROW.match(line):
        _read_row(line, section, counts_wrong)
    elif not section.has_rows and _PROGRAM.search(line):
        section.collective = section.collective or name_in(line)


def _read_row(line: str, section: LogSection, counts_wrong: bool) -> None:
    row = _ROW.match(line)
    if row is None:
        section.cut += 1
        return
    size, spent, rate = float(row[1]), float(row[3]), float(row[4])
    if not spent or abs(size / spent * 1e-3 - rate) > CLOSE * rate + DIGIT:
        section.cut += 1
    elif counts_wrong and row[6] not in ("0", "N/A"):
        section.wrong += 1
    else:
        section.rows.append((size, spent * 1e-6))
