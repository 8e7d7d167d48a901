"""A study: every variant of a scenario run, measured, explained, and compared with the first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..models.compute.recorded import Recorded
from ..sim.activity import activity
from ..sim.bind import bind
from ..sim.result import Result
from ..sim.sensitivity import Change, altered, faster
from ..sim.simulation import Simulation
from .loop.said import coupled, section
from .points import Measured, Point, measured, points
from .scenario import BASE, Scenario
from .starts import jitter
from .summary import FEWEST, Summary, Value, checked, values
from .threads import Each, hands

if TYPE_CHECKING:
    from ..hil.journal import Entry

log = logging.getLogger(__name__)

HEADLINE = "iteration_time.p50"
CHECKED = "hil."  # metrics that `hil check` answers
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """All that was run, and what it says."""

    scenario: Scenario
    measured: tuple[Measured, ...]
    summary: Summary

    def _repr_html_(self) -> str:
        """As a notebook shows it: the answer, and a row for each variant."""
        from html import escape

        from ..reports.answer import sentences
        from ..reports.numbers import change, told
        from ..sim.notebook import table

        plain = self.summary.plain()
        rows = [
            (name, told(p["metrics"][HEADLINE]["value"], "s"),
             "" if name == BASE else change(p["change"]["value"]))
            for name, p in plain["points"].items()
        ]  # fmt: skip
        said = "".join(f"<p>{escape(text)}</p>" for text in sentences(plain))
        return said + table(self.scenario.name, rows, ("variant", "iteration time, p50", "change"))

    @property
    def journals(self) -> dict[str, list[Entry]]:
        """What devices answered, by variant; empty where none drove a run."""
        return {m.name: m.point.coupled.journal for m in self.measured if m.point.coupled}

    @property
    def results(self) -> dict[str, Result]:
        """The run of each variant with durations as recorded."""
        return {m.name: m.result for m in self.measured}


def study(
    scenario: Scenario, progress: Progress = lambda _: None, threads: int | None = None
) -> Study:
    """Run everything that a scenario asks.

    Parameters
    ----------
    progress : told what is being done, a line each
    threads : runs under way at once; as many as there are cores unless said
    """
    made = []
    with hands(threads) as given:
        with _driven(scenario) as drive:
            for one in map(drive, points(scenario)):
                ranks = f"{one.graph.ranks} rank{'s' * (one.graph.ranks != 1)}"
                progress(f"running {one.name}: {len(one.graph):,} ops on {ranks}")
                made.append(measured(one, given(one)))
        told = {m.name: _told(m, made[0], progress, given(m.point)) for m in made}
    return Study(scenario, tuple(made), Summary(scenario.name, scenario.question, told,
                 provenance(scenario, made)))  # fmt: skip


def _driven(scenario: Scenario) -> AbstractContextManager[Callable[[Point], Point]]:
    """What puts devices into points; what talks to them is imported only where there are any."""
    if not coupled(scenario):
        return nullcontext(lambda point: point)
    from .loop.drive import driven

    return driven(scenario)


def _told(of: Measured, base: Measured, progress: Progress, each: Each) -> dict[str, Any]:
    """What one point says."""
    progress(f"explaining {of.name}: blame, and what a faster part would change")
    changes = what_if_faster(of, each=each)
    found = checked(values(of), [e.that for e in of.point.scenario.expect])
    found = _with_model_error(found, of, each)
    boxes = activity(of.result if of.result.keep != "none" else of.result.detail)
    return {
        "metrics": {k: asdict(v) for k, v in found.items()},
        "expect": _expectations(of, found),
        "blame": of.result.blame().seconds,
        "activity": {box: {"mean": float(t.mean()), "worst": float(t.max())}
                     for box, t in boxes.items()},
        "faster": [asdict(c) | {"gain": c.gain, "bound": c.bound} for c in changes],
        "sources": of.result.sources,
        "facts": {
            "ops": of.result.count,
            "ranks": of.point.graph.ranks,
            **left_out(of.result),
            **{k: v for k, v in of.point.graph.facts.items() if _plain(v)},
        },
        "settings": differences(base.point.scenario, of.point.scenario),
        "change": change(base, of),
    }  # fmt: skip


def left_out(result: Result) -> dict[str, str]:
    """Why there is no table of ops, if there is none."""
    if result.keep == "ops":
        return {}
    return {"table_of_ops": f"left out: the run kept {result.keep}; --keep ops writes it"}


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool)


def _expectations(of: Measured, found: Mapping[str, Value]) -> list[dict[str, Any]]:
    """Each condition with the value it is about; a metric that the run lacks is not met."""
    return [
        {
            "that": e.that.text,
            "otherwise": e.otherwise,
            "value": found[e.that.name].value if e.that.name in found else None,
            "met": e.that.name in found and bool(e.that.holds(found[e.that.name].value)),
        }
        for e in of.point.scenario.expect
        if not e.that.metric.startswith(CHECKED)
    ]


def groups(simulation: Simulation) -> dict[str, list[int]]:
    """Components by kind, in the order in which the system lists them."""
    found: dict[str, list[int]] = {}
    for i, part in enumerate(simulation.system.components):
        found.setdefault(part.kind, []).append(i)
    return found


def what_if_faster(of: Measured, factor: float = 1.1, each: Each = map) -> list[Change]:
    """Every kind of component 10 % faster, and free: by running again, unless devices drive it."""
    point = of.point
    if point.coupled is not None:
        return []
    return faster(
        point.simulation,
        lambda s: point.on(s).run(),
        groups(point.simulation),
        factor,
        each,
        of.result.makespan,
    )


def change(base: Measured, of: Measured) -> dict[str, Any]:
    """How a point differs from the base: the change, and its interval over paired replicas."""
    from .summary import interval, statistic_of

    def ratio(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
        return (
            statistic_of(b["iteration_time"], "p50") / statistic_of(a["iteration_time"], "p50") - 1
        )

    drawn = [ratio(a, b) for a, b in zip(base.replicas, of.replicas, strict=False)]
    return {
        "of": HEADLINE,
        "value": float(np.median(drawn))
        if len(drawn) >= FEWEST
        else ratio(base.samples, of.samples),
        "interval": interval(drawn),
        "interval_of": ["jitter"] if len(drawn) >= FEWEST else [],
    }


def differences(base: Scenario, of: Scenario) -> dict[str, tuple[str, str]]:
    """Settings that differ, as written: ``{path: (base, this)}``."""
    a, b = base.origins, of.origins
    paths = [p for p in dict.fromkeys((*a, *b)) if not p.startswith("what_if")]
    return {
        p: (a[p].text if p in a else "", b[p].text if p in b else "")
        for p in paths
        if (a[p].text if p in a else None) != (b[p].text if p in b else None)
    }


# How far to trust it.


def model_errors(scenario: Scenario) -> dict[str, float]:
    """Relative error of each kind of part, where its values say one: the largest.

    What was merely written down from a datasheet, or assumed, has none.
    """
    found: dict[str, float] = {}
    for path, origin in scenario.origins.items():
        error = origin.source.share if origin.source else None
        parts = path.split(".")
        if error is not None and parts[0] == "cluster" and len(parts) > 2:
            kind = "fabric" if parts[2] == "library" else parts[2]  # who drives the fabric
            found[kind] = max(found.get(kind, 0.0), error)
    return found


def _with_model_error(found: dict[str, Value], of: Measured, each: Each) -> dict[str, Value]:
    """The headline's interval with what the errors of the parts do to it, by running again."""
    headline = found.get(HEADLINE)
    errors = model_errors(of.point.scenario)
    kinds = _predicted(of.point.simulation)
    errors = {kind: error for kind, error in errors.items() if kind in kinds}
    if headline is None or not errors or of.point.coupled is not None:
        return found
    base = of.result.iteration_time  # of the very run that is varied
    factors = [(kinds[k], f) for k, e in errors.items() for f in (1 / (1 + e), 1 + e)]
    times = [*each(lambda job: _iteration(of.point, *job) - base, factors)]
    low = high = 0.0
    for slow, fast in zip(times[::2], times[1::2], strict=True):
        high, low = high + max(slow, fast, 0.0) ** 2, low + min(slow, fast, 0.0) ** 2
    a, b = headline.interval or (headline.value, headline.value)
    low = ((headline.value - a) ** 2 + low) ** 0.5
    high = ((b - headline.value) ** 2 + high) ** 0.5
    return found | {
        HEADLINE: replace(
            headline,
            interval=(headline.value - low, headline.value + high),
            interval_of=(*headline.interval_of, "model"),
        )
    }


def _predicted(simulation: Simulation) -> dict[str, list[int]]:
    """Components by kind, without those whose ops last as recorded: no model's error is in them."""
    bound = bind(simulation.system, simulation.backends)
    return {
        kind: rows
        for kind, rows in groups(simulation).items()
        if not all(isinstance(bound[i], Recorded) for i in rows)
    }


def _iteration(point: Point, chosen: list[int], factor: float) -> float:
    return point.on(altered(point.simulation, chosen, factor)).run().iteration_time


def provenance(scenario: Scenario, made: list[Measured]) -> dict[str, Any]:
    """Where the numbers come from."""
    kinds: dict[str, int] = {}
    listed = []
    for path, origin in scenario.origins.items():
        if path.startswith(("what_if", "expect", "report", "run", "question", "name")):
            continue
        kind = origin.source.kind if origin.source else ""
        if kind:
            kinds[kind] = kinds.get(kind, 0) + 1
            listed.append(
                {
                    "path": path,
                    "value": origin.text,
                    "kind": kind,
                    "where": origin.source.where if origin.source else "",
                    "error": origin.source.error if origin.source else "",
                    "note": origin.source.note if origin.source else "",
                }
            )
    return {
        "seed": scenario.run.seed,
        "replicas": scenario.run.replicas,
        "inputs": kinds,
        "values": listed,
        "calibration": calibration(scenario),
        "jitter": jitter(scenario),
        "base": BASE,
    }


def calibration(scenario: Scenario) -> str:
    """``blind``: nothing was taken from a measurement of what is predicted, end to end.

    A coupled run is no prediction of what its devices answered for.
    """
    hil = section(scenario)
    if hil is not None and hil.mode == "coupled":
        real = ", ".join(f"{s.component} ({s.driver})" for s in hil.swap)
        return f"driven by devices or their recordings: {real}; the rest is predicted"
    fitted = [
        o for p, o in scenario.origins.items()
        if p.startswith("cluster") and o.source and o.source.kind == "fitted"
    ]  # fmt: skip
    told = f", {len(fitted)} values of its parts were fitted on their own" if fitted else ""
    lines = sorted({str(b.settings.get("file")) for b in scenario.backends.values()
                    if b.use == "families"})  # fmt: skip
    if lines:
        return f"families of ops, fitted on recordings ({', '.join(lines)}){told}"
    return f"blind{told}"
