"""Fit of a memory under load: latency and bandwidth by number of threads and fraction of reads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ....hil.drivers.memory.memory_load import LOADED, STREAM
from ....models.memory.loaded import LoadedMemory
from ....sim.errors import ScenarioError
from ....sim.facts.signature import parse_signature
from .curves import Curve, Floats
from .recording_rows import MeasuredRows

LOADED_KIND = "loaded"
GUESSES = {"latency": 1e-7, "read": 5e10, "write": 5e10, "in_flight": 2000.0, "queueing": 1e-8,
           "turnaround": 0.1, "sharpness": 0.1}  # fmt: skip
LINES = 64 * 64.0  # B that a thread has outstanding where nobody measured it: 64 lines


class LoadOp(NamedTuple):
    """Attributes of an op: bytes per thread, threads, fraction of reads, if loads are timed."""

    bytes: float
    threads: float
    reads: float
    latency: bool


@cache
def load_op(signature: str) -> LoadOp:
    """Attributes of an op of the driver ``memory``.

    >>> load_op("host:memory-stream threads=2 reads=75 uint8[1048576]")
    LoadOp(bytes=1048576.0, threads=2.0, reads=0.75, latency=False)
    """
    parts = parse_signature(signature)
    head = signature.split(" ", 1)[0]
    if head not in (LOADED, STREAM):
        raise ScenarioError(
            f"fit {LOADED_KIND}: '{signature}' is neither {STREAM} nor {LOADED}; record with the "
            "driver memory, or exclude other ops with --only"
        )
    threads, reads = (float(parts.attributes[key]) for key in ("threads", "reads"))
    return LoadOp(float(parts.bytes), threads, reads / 100, head == LOADED)


def _seconds(
    p: Mapping[str, float], size: Floats, threads: Floats, reads: Floats, latency: Floats
) -> Floats:
    memory = LoadedMemory(**p)
    drawn = memory.bandwidth(threads, reads)
    moved = size * threads / np.maximum(drawn, 1.0)
    return np.where(latency > 0, memory.latency_at(drawn, reads), moved)


def _require_loads(data: MeasuredRows) -> None:
    for text in data.texts:
        load_op(text)


def _before_fit(settings: Mapping[str, Any]) -> dict[str, float]:
    """Parameters from the settings of a memory before the fit, without queueing."""
    if lost := [name for name in ("latency", "bandwidth") if name not in settings]:
        raise ScenarioError(
            f"fit {LOADED_KIND}: {lost[0]} is unknown; give a memory of the catalog with --start, "
            "or the values with --know latency='100 ns' --know bandwidth='200 GB/s'"
        )
    peak = float(settings["bandwidth"])
    fixed = {"queueing": 0.0, "turnaround": 0.0, "sharpness": 0.0}
    outstanding = float(settings.get("in_flight") or LINES)
    return {"latency": float(settings["latency"]), "read": peak, "write": peak,
            "in_flight": outstanding, **fixed}  # fmt: skip


LOADED_MEMORY = Curve(
    kind=LOADED_KIND, part="memory", form="foretrace-loaded-memory", guesses=GUESSES,
    usual=("latency", "read", "write", "in_flight", "queueing"), draws=8, before=_before_fit,
    read_signature=load_op, seconds=_seconds, check=_require_loads,
)  # fmt: skip
"""Fit of ``LoadedMemory``; ``shapes`` are combinations of threads and share of reads."""
