"""``hil check``: every component against its device, and the whole run with and without them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from ...hil.covers import numbers
from ...hil.questions import Question
from ...hil.recording import SUFFIX, Recording
from ...hil.sample import EMULATED, Sample
from ...hil.spread import by_start, grouped
from ...sim.errors import ScenarioError
from ...sim.metrics import measure
from ...sim.system import System
from ..points import Point, counted, points
from ..provenance import calibration
from ..scenario import Scenario
from ..sections.hil import Hil
from .breakeven import break_even
from .devices import CLASSES
from .drive import with_devices
from .replay import FINE, Replayed, asked_of, coupling_of, of_starts, replayed
from .said import section
from .score import Ops, Score, bounds, by_size, scores, verdict
from .shares import shares

log = logging.getLogger(__name__)

SCHEMA = 1
REDRAWS = 20  # runs with redrawn starts, for the interval of the whole
NANOSECOND = 1e-9
WHOLE = "iteration_time"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Checked:
    """What a check found.

    Parameters
    ----------
    told : all of it as plain data; see ``docs/accuracy-page.md``
    recordings : by component
    """

    told: dict[str, Any]
    recordings: Mapping[str, Recording]

    @property
    def outcome(self) -> str:
        """``fail`` before ``unresolved`` before ``pass``; ``pass`` where nothing was expected."""
        found = {e["outcome"] for e in self.told["expect"] if e["otherwise"] == "fail"}
        return next((o for o in ("fail", "unresolved") if o in found), "pass")


def check(scenario: Scenario, tell: Tell = log.info, beside: Scenario | None = None) -> Checked:
    """Do the ops of a scenario on its devices and compare.

    Parameters
    ----------
    beside : the same scenario with another catalog, to show both

    Raises
    ------
    ScenarioError
        Nothing is swapped, nothing can be measured, or several clocks would be mixed.
    HardwareUnavailable
        A device is not there.
    """
    hil = section(scenario)
    if hil is None:
        raise ScenarioError("hil.swap: nothing is swapped; write it, or give --swap")
    every = points(scenario)
    point = every[0]
    asked = asked_of(point, hil)
    found = replayed(hil, asked, _finest(scenario), tell)
    mixed = _clocks(found, hil)
    other = None if beside is None else asked_of(points(beside)[0], hil)
    tell("comparing: the run with and without each device")
    told: dict[str, Any] = {
        "schema": SCHEMA,
        "name": scenario.name,
        "question": scenario.question,
        "title": scenario.report.title,
        "seed": scenario.run.seed,
        "calibration": calibration(scenario),
        "mixed_clocks": mixed,
        "components": {one.name: _component(one, other) for one in found},
        "whole": None if mixed else _whole(point, found, hil),
    }
    ports = coupling_of(point, hil).ports
    inside = {p.name: partial(_inside, sorted(p.swap.covers.devices)) for p in ports}
    told["break_even"] = [] if mixed else break_even(every, inside)
    told["expect"] = _expected(scenario, told)
    return Checked(told, {one.name: one.recording for one in found})


def _inside(devices: Sequence[str], system: System) -> list[int]:
    """The components in a sample, all of which would be wrong alike."""
    return [i for d in devices for i in numbers(system, d)]


def _finest(scenario: Scenario) -> float:
    """The lowest bar that is expected of an error."""
    bars = [e.that.limit for e in scenario.expect if e.that.metric.startswith("hil.")]
    return min([b for b in bars if b > 0], default=FINE)


def _clocks(found: Sequence[Replayed], hil: Hil) -> bool:
    """Whether clocks are mixed, which only a demonstration may.

    Raises
    ------
    ScenarioError
        One component with several clocks or metrics, or components of different clocks.
    """
    for one in found:
        for what in ("clock", "metric"):
            kinds = sorted({getattr(s, what) for s in one.recording.samples})
            if len(kinds) > 1:
                raise ScenarioError(
                    f"hil.swap {one.name}: its recording mixes {what}s ({', '.join(kinds)}); one "
                    "accuracy figure has one: record them apart"
                )
    clocks = {one.name: one.device.driver.clock for one in found}
    if len({CLASSES.get(c, c) for c in clocks.values()}) <= 1:
        return False
    if hil.mixed_clocks is None:
        told = ", ".join(f"{n} counts by {c}" for n, c in clocks.items())
        raise ScenarioError(
            f"hil.swap: {told}; check them apart, or set mixed_clocks: demonstration, which tells "
            "no accuracy of the whole"
        )
    return True


# One component.


def _component(one: Replayed, other: Mapping[str, Sequence[Question]] | None) -> dict[str, Any]:
    """What is told of one component."""
    facts = one.recording
    emulated = not _timed(one)
    ops, left_out = table(one)
    told: dict[str, Any] = {
        "driver": facts.driver,
        "device": facts.device,
        "host": facts.host,
        "date": facts.date,
        "recording": f"{one.name}{SUFFIX}",
        "source": one.device.source,
        "clock": one.device.driver.clock,
        "metric": one.device.driver.metric,
        "sharing": one.device.driver.sharing,
        "partial": facts.ended,
        "versions": dict(facts.versions),
        "starts": ops.starts.shape[1],
        "spread": ops.spread,
        "left_out": left_out,
        "emulated": emulated,
        "placed": _placed(facts.samples),
    }
    if emulated:
        return told | {"ops": [], "errors": {}, "by_size": [], "drift": None, "beside": None}
    found = scores(ops)
    worst = int(np.argmax(np.abs(ops.error)))
    return told | {
        "n": int(ops.calls.sum()),
        "ops": _rows(ops),
        "errors": {k: asdict(v) for k, v in found.items()},
        "worst": {"op": ops.signature[worst], "error": float(ops.error[worst])},
        "by_size": by_size(ops),
        "bandwidth": _bandwidth(ops),
        "drift": _drift(one),
        "beside": None if other is None else _beside(one, ops, other[one.name]),
    }


def _timed(one: Replayed) -> list[Sample]:
    """Samples without those whose times an emulator made up."""
    return [s for s in one.recording.samples if EMULATED not in s.flags]


def _placed(samples: Sequence[Sample]) -> float | None:
    """The smallest share of pages that were where they had been put; None where none were put."""
    return min((float(s.facts["placed"]) for s in samples if "placed" in s.facts), default=None)


def table(one: Replayed) -> tuple[Ops, dict[str, Any]]:
    """The different ops of a component with what was measured, and what was not."""
    timed = _timed(one) or one.recording.samples
    medians = {k[0]: _by_start(group) for k, group in grouped(timed).items()}
    numbers = sorted({n for by in medians.values() for n in by})
    counts: dict[tuple[str, float, float], list[Question]] = {}
    missing: list[Question] = []
    for q in one.questions:
        if q.signature in medians:
            counts.setdefault((q.signature, q.predicted, q.way.latency), []).append(q)
        else:
            missing.append(q)
    if not counts:
        raise ScenarioError(
            f"hil.swap {one.name}: its recording has seen none of {len(missing)} ops of this run; "
            "record them"
        )
    first = [group[0] for group in counts.values()]
    starts = [[_whole_op(q, medians, n) for n in numbers] for q in first]
    ops = Ops(
        tuple(q.signature for q in first),
        np.array([len(g) for g in counts.values()]),
        np.array([q.bytes for q in first], float),
        np.array([q.predicted for q in first], float),
        np.array(starts, float),
    )
    whole = sum(q.predicted for q in one.questions)
    share = sum(q.predicted for q in missing) / whole if whole else 0.0
    names = sorted({q.signature for q in missing})
    return ops, {"ops": len(missing), "different": len(names), "share": share, "some": names[:5]}


def _by_start(group: Sequence[Any]) -> dict[int, float]:
    """Seconds of each start that has batches which may be fitted, or of all where none may."""
    numbers = sorted({s.start for s in group if s.good}) or sorted({s.start for s in group})
    good = any(s.good for s in group)
    found = {}
    for n in numbers:
        mine = [s for s in group if s.start == n]
        told = by_start(mine) if good else [float(np.median([s.median for s in mine]))]
        found[n] = told[0] * NANOSECOND
    return found


def _whole_op(q: Question, medians: Mapping[str, Mapping[int, float]], start: int) -> float:
    sample = medians[q.signature].get(start)
    return float("nan") if sample is None else q.whole(sample)


def _rows(ops: Ops) -> list[dict[str, Any]]:
    both = zip(
        ops.signature, ops.calls.tolist(), ops.bytes.tolist(), ops.predicted.tolist(),
        ops.measured.tolist(), strict=True,
    )  # fmt: skip
    names = ("signature", "calls", "bytes", "predicted", "measured")
    return [dict(zip(names, row, strict=True)) for row in both]


def _bandwidth(ops: Ops) -> dict[str, Any] | None:
    """Errors of bytes a second, for ops that have bytes."""
    known = np.isfinite(ops.bytes) & (ops.bytes > 0)
    if not known.any():
        return None
    rate = Ops(
        tuple(s for s, k in zip(ops.signature, known.tolist(), strict=True) if k),
        ops.calls[known],
        ops.bytes[known],
        ops.bytes[known] / ops.predicted[known],
        ops.bytes[known, None] / ops.starts[known],
    )
    return {k: asdict(v) for k, v in scores(rate).items()}


def _drift(one: Replayed) -> dict[str, Any] | None:
    """What changed since an older recording, in the ops of both."""
    if one.older is None:
        return None
    before = {k: np.median(by_start(g)) for k, g in grouped(one.older.samples).items()}
    now = {k: np.median(by_start(g)) for k, g in grouped(one.recording.samples).items()}
    both = sorted(set(before) & set(now))
    change = np.array([now[k] / before[k] - 1 for k in both])
    if not len(both):
        return {"since": one.older.date, "n": 0}
    worst = int(np.argmax(np.abs(change)))
    return {
        "since": one.older.date,
        "n": len(both),
        "p50": float(np.median(change)),
        "worst": {"op": both[worst][0], "change": float(change[worst])},
    }


def _beside(one: Replayed, ops: Ops, other: Sequence[Question]) -> dict[str, Any]:
    """Errors of the same ops with another catalog."""
    predicted = {q.signature: q.predicted for q in other}
    changed = Ops(
        ops.signature,
        ops.calls,
        ops.bytes,
        np.array([predicted[s] for s in ops.signature]),
        ops.starts,
    )
    return {k: asdict(v) for k, v in scores(changed).items()}


# The whole run.


def _whole(point: Point, found: Sequence[Replayed], hil: Hil) -> dict[str, Any]:
    """The run with no device, with all, and with each; the real job beside it."""
    devices = {one.name: one for one in found}

    def time(real: frozenset[str], among: Mapping[str, Replayed] = devices) -> float:
        chosen = [one.device for name, one in among.items() if name in real]
        return _time(with_devices(point, chosen, ahead=True) if chosen else point)

    every = frozenset(devices)
    predicted, measured = time(frozenset()), time(every)
    redrawn = [time(every, drawn) for drawn in _redrawn(devices)]
    parts, left = shares(list(devices), time)
    halves = [time(every, drawn) for drawn in _halves(devices)]
    return {
        "predicted": predicted,
        "measured": measured,
        "error": predicted / measured - 1,
        "interval": bounds([abs(predicted / t - 1) for t in redrawn]),
        "signed": bounds([predicted / t - 1 for t in redrawn]),
        "spread": max(halves) / min(halves) - 1 if halves else float("nan"),
        "shares": [asdict(s) for s in parts],
        "interaction": left,
        "real": _real(hil, predicted, measured),
    }


def _time(point: Point) -> float:
    samples = measure(point.run(), *counted(point.scenario))
    return float(np.median(samples[WHOLE]))


def _starts(devices: Mapping[str, Replayed]) -> dict[str, list[int]]:
    return {n: sorted({s.start for s in one.recording.samples}) for n, one in devices.items()}


def _redrawn(devices: Mapping[str, Replayed]) -> list[dict[str, Replayed]]:
    """Every device from starts that were drawn again; none where one has a single start."""
    starts = _starts(devices)
    if any(len(s) < 2 for s in starts.values()):
        return []
    random = np.random.default_rng(0)
    return [
        {
            n: of_starts(one, random.choice(starts[n], len(starts[n])).tolist())
            for n, one in devices.items()
        }
        for _ in range(REDRAWS)
    ]


def _halves(devices: Mapping[str, Replayed]) -> list[dict[str, Replayed]]:
    """Every device from every other start, and from the rest; none for a single start."""
    starts = _starts(devices)
    if any(len(s) < 2 for s in starts.values()):
        return []
    return [{n: of_starts(one, starts[n][k::2]) for n, one in devices.items()} for k in (0, 1)]


def _real(hil: Hil, predicted: float, measured: float) -> dict[str, Any] | None:
    """The real job: composition error of the all-device run, and the error of the model at all."""
    real = hil.real
    if real is None:
        return None
    ends = [t for t in (real.low, real.high) if t is not None]
    return {
        "iteration_time": real.iteration_time,
        "spread": max(ends) / min(ends) - 1 if len(ends) == 2 else None,
        "source": real.source,
        "composition": measured / real.iteration_time - 1,
        "composition_interval": sorted(measured / t - 1 for t in ends) or None,
        "all": predicted / real.iteration_time - 1,
    }


# What was expected.


def _expected(scenario: Scenario, told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each condition on an error, with its outcome."""
    found = []
    for e in scenario.expect:
        if not e.that.metric.startswith("hil."):
            continue
        name, outcome, bar, score = _judged(e.that.metric, e.that.statistic, e.that.limit, told)
        found.append(
            {
                "that": e.that.text,
                "otherwise": e.otherwise,
                "component": name,
                "outcome": outcome,
                "bar": bar,
                "value": score.value if score else None,
                "interval": score.interval if score else None,
            }
        )
    return found


def _judged(
    metric: str, statistic: str, limit: float, told: Mapping[str, Any]
) -> tuple[str, str, float, Score | None]:
    """Which number a condition means, and what may be said of it."""
    what = metric.removeprefix("hil.").removesuffix(".error")
    if what == WHOLE:
        whole = told["whole"]
        if whole is None:
            return what, "unresolved", limit, None
        score = Score(abs(whole["error"]), whole["interval"])
        return what, *verdict(score, limit, whole["spread"]), score
    name, table_of = _meant(what, told["components"])
    one = told["components"][name]
    errors = one["errors"] if table_of != "bandwidth" else one["bandwidth"]
    if one["emulated"] or not errors:
        return name, "unresolved", limit, None
    score = Score(**errors[statistic])
    return name, *verdict(score, limit, one["spread"]), score


def _meant(what: str, components: Mapping[str, Any]) -> tuple[str, str]:
    """A component by its name or kind, and which of its numbers.

    Raises
    ------
    ScenarioError
        No component that was swapped is meant.

    Examples
    --------
    >>> _meant("nic.transfer_time", {"node0.nic0": None}), _meant("node0.nic0", {"node0.nic0": 1})
    (('node0.nic0', 'time'), ('node0.nic0', 'time'))
    """
    for metric in ("bandwidth", "transfer_time", "op_time", "time", ""):
        stem = what.removesuffix(f".{metric}") if metric else what
        if metric and stem == what:
            continue
        for name in components:
            kind = name.rpartition(".")[2].rstrip("0123456789")
            if stem in (name, kind):
                return name, "bandwidth" if metric == "bandwidth" else "time"
    raise ScenarioError(
        f"expect: 'hil.{what}.error' means no component that is swapped; there is "
        f"{', '.join(components)}, with .time and .bandwidth, and hil.iteration_time.error"
    )
