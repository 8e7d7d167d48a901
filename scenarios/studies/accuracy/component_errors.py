"""Errors of one component's model against its device, and the drift since an older recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ....hil.coupling.replay_ops import ReplayOp
from ....hil.measuring.spread import samples_by_key, start_medians
from ....hil.recording import SUFFIX
from ....hil.sample import EMULATED, Sample
from ....sim.errors import ScenarioError
from .replay import ReplayedDevice, context_of_swap
from .score import ScoredOps, error_statistics, errors_by_size

NANOSECOND = 1e-9


def component_errors(
    replayed: ReplayedDevice, other_predictions: Mapping[str, Sequence[ReplayOp]] | None
) -> dict[str, Any]:
    """Errors of one component as plain data, as in ``accuracy.json``.

    Parameters
    ----------
    other_predictions : times of the same ops, predicted with another catalog; None to omit that
        comparison

    Raises
    ------
    ScenarioError
        The recording has none of the ops.
    """
    facts = replayed.recording
    emulated = not _measured_samples(replayed)
    ops, left_out = _table_of_ops(replayed)
    told: dict[str, Any] = {
        "driver": facts.driver,
        "device": facts.device,
        "host": facts.host,
        "date": facts.date,
        "recording": f"{replayed.name}{SUFFIX}",
        "source": replayed.device.source,
        "clock": replayed.device.driver.clock,
        "metric": replayed.device.driver.metric,
        "sharing": replayed.device.driver.sharing,
        "partial": facts.ended,
        "versions": dict(facts.versions),
        "starts": ops.starts.shape[1],
        "spread": ops.spread,
        "left_out": left_out,
        "emulated": emulated,
        "placed": _correctly_placed_page_share(facts.samples),
    }
    if emulated:
        return told | {"ops": [], "errors": {}, "by_size": [], "drift": None, "beside": None}
    found = error_statistics(ops)
    worst = int(np.argmax(np.abs(ops.error)))
    return told | {
        "n": int(ops.calls.sum()),
        "ops": _op_rows(ops),
        "errors": {k: asdict(v) for k, v in found.items()},
        "worst": {"op": ops.signature[worst], "error": float(ops.error[worst])},
        "by_size": errors_by_size(ops),
        "bandwidth": _bandwidth_errors(ops),
        "drift": _drift_since_older_recording(replayed),
        "beside": None
        if other_predictions is None
        else _errors_with_catalog(replayed, ops, other_predictions[replayed.name]),
    }


def _measured_samples(replayed: ReplayedDevice) -> list[Sample]:
    """Samples without those whose times come from an emulator."""
    return [s for s in replayed.recording.samples if EMULATED not in s.flags]


def _correctly_placed_page_share(samples: Sequence[Sample]) -> float | None:
    """Smallest fraction of pages that stayed where they were placed; None if none were placed."""
    return min((float(s.facts["placed"]) for s in samples if "placed" in s.facts), default=None)


def _table_of_ops(replayed: ReplayedDevice) -> tuple[ScoredOps, dict[str, Any]]:
    """Distinct ops of a component with measured times, and facts about the ops left out."""
    timed = _measured_samples(replayed) or replayed.recording.samples
    asked = context_of_swap(replayed.device.swap)  # a recording may also have cold samples
    medians = {
        signature: _seconds_by_start(group)
        for (signature, context), group in samples_by_key(timed).items()
        if context == asked
    }
    numbers = sorted({n for by in medians.values() for n in by})
    counts: dict[tuple[str, float, float], list[ReplayOp]] = {}
    missing: list[ReplayOp] = []
    for q in replayed.ops:
        if q.signature in medians:
            counts.setdefault((q.signature, q.predicted, q.residual_path.latency), []).append(q)
        else:
            missing.append(q)
    if not counts:
        raise ScenarioError(
            f"hil.swap {replayed.name}: its recording has none of the {len(missing)} ops of this "
            "run; record them"
        )
    first = [group[0] for group in counts.values()]
    starts = [[_op_durations(q, medians, n) for n in numbers] for q in first]
    ops = ScoredOps(
        tuple(q.signature for q in first),
        np.array([len(g) for g in counts.values()]),
        np.array([q.bytes for q in first], float),
        np.array([q.predicted for q in first], float),
        np.array(starts, float),
    )
    whole = sum(q.predicted for q in replayed.ops)
    share = sum(q.predicted for q in missing) / whole if whole else 0.0
    names = sorted({q.signature for q in missing})
    return ops, {"ops": len(missing), "different": len(names), "share": share, "some": names[:5]}


def _seconds_by_start(group: Sequence[Any]) -> dict[int, float]:
    """Median seconds per process start, from unflagged samples; from all if there are none."""
    numbers = sorted({s.start for s in group if s.good}) or sorted({s.start for s in group})
    good = any(s.good for s in group)
    found = {}
    for n in numbers:
        mine = [s for s in group if s.start == n]
        told = start_medians(mine) if good else [float(np.median([s.median for s in mine]))]
        found[n] = told[0] * NANOSECOND
    return found


def _op_durations(q: ReplayOp, medians: Mapping[str, Mapping[int, float]], start: int) -> float:
    sample = medians[q.signature].get(start)
    return float("nan") if sample is None else q.total_seconds(sample)


def _op_rows(ops: ScoredOps) -> list[dict[str, Any]]:
    both = zip(
        ops.signature, ops.calls.tolist(), ops.bytes.tolist(), ops.predicted.tolist(),
        ops.measured.tolist(), strict=True,
    )  # fmt: skip
    names = ("signature", "calls", "bytes", "predicted", "measured")
    return [dict(zip(names, row, strict=True)) for row in both]


def _bandwidth_errors(ops: ScoredOps) -> dict[str, Any] | None:
    """Errors of the bandwidth (bytes per second), for ops with bytes; None if there are none."""
    known = np.isfinite(ops.bytes) & (ops.bytes > 0)
    if not known.any():
        return None
    rate = ScoredOps(
        tuple(s for s, k in zip(ops.signature, known.tolist(), strict=True) if k),
        ops.calls[known],
        ops.bytes[known],
        ops.bytes[known] / ops.predicted[known],
        ops.bytes[known, None] / ops.starts[known],
    )
    return {k: asdict(v) for k, v in error_statistics(rate).items()}


def _drift_since_older_recording(replayed: ReplayedDevice) -> dict[str, Any] | None:
    """Change since an older recording, for ops in both; None without an older one."""
    if replayed.older is None:
        return None
    before = {
        k: np.median(start_medians(g)) for k, g in samples_by_key(replayed.older.samples).items()
    }
    now = {
        k: np.median(start_medians(g))
        for k, g in samples_by_key(replayed.recording.samples).items()
    }
    both = sorted(set(before) & set(now))
    change = np.array([now[k] / before[k] - 1 for k in both])
    if not len(both):
        return {"since": replayed.older.date, "n": 0}
    worst = int(np.argmax(np.abs(change)))
    return {
        "since": replayed.older.date,
        "n": len(both),
        "p50": float(np.median(change)),
        "worst": {"op": both[worst][0], "change": float(change[worst])},
    }


def _errors_with_catalog(
    replayed: ReplayedDevice, ops: ScoredOps, other_predictions: Sequence[ReplayOp]
) -> dict[str, Any]:
    """Errors of the same ops predicted with another catalog."""
    predicted = {q.signature: q.predicted for q in other_predictions}
    changed = replace(ops, predicted=np.array([predicted[s] for s in ops.signature]))
    return {k: asdict(v) for k, v in error_statistics(changed).items()}
