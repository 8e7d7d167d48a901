"""Rows of D4 and D4b (Megatron-DeepSpeed on A100), and which of them are set aside.

The rule was fixed before any fit to these rows: of each table, the third with the lowest hashes.
``judge/training.py`` scores them with ``--once``.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

SEED = "foretrace-d4-2026-11-23"
TREND = (13, 15, 20)  # rows of D4, from 0, that break their neighbours' trend
KEYS = (
    "gpus", "batch", "micro_batch", "hidden", "heads", "layers", "sequence", "tensor", "data",
    "pipeline",
)  # fmt: skip


def calibrating(some: Iterable[Row], count: int = 6) -> list[Row]:
    """Rows for the fit of constants: those with the lowest digests that are not set aside."""

    def digest(row: Row) -> str:
        return hashlib.sha256(f"calibrate|{SEED}|{row.number}".encode()).hexdigest()

    return sorted((row for row in some if not row.aside), key=digest)[:count]


class Row(NamedTuple):
    """One run: row number in the table, settings, time in ms, and True if it is set aside."""

    number: int
    settings: dict[str, int]
    seconds: float
    aside: bool


def rows(table: str) -> Iterator[Row]:
    """Rows of a table: ``measured_multi_node_3.6B`` or ``measured_single_node``."""
    file = Path(os.environ["FORETRACE_DATA"]) / "megatron-a100" / f"{table}.csv"
    with file.open() as lines:
        every = [row[-11:] for row in list(csv.reader(lines))[1:]]
    digests = [hashlib.sha256(f"{SEED}|{','.join(row)}".encode()).hexdigest() for row in every]
    lowest = set(sorted(digests)[: len(every) // 3])
    for number, (row, digest) in enumerate(zip(every, digests, strict=True)):
        settings = dict(zip(KEYS, map(int, row[:-1]), strict=True))
        yield Row(number, settings, float(row[-1]) / 1e3, digest in lowest)
