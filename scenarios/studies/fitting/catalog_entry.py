"""Catalog entry of a fit with its sources, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from pydantic import ValidationError

from ....models.calibration.calibrate import Calibration
from ....models.calibration.held_out_errors import HeldOutErrors
from ....models.calibration.identifiability import FittedParameter
from ....models.calibration.parameter_search import PredictionErrors
from ....models.compute.caches import Caches
from ....models.compute.families import FORM
from ....models.value_doubts import WIDER
from ....reports.numbers import three_digits
from ....sim.errors import ScenarioError
from ....sim.setting_groups import flatten_settings, unflatten_settings
from ...config.catalog import installed
from ...config.part_specs import KINDS, entry_model
from ...config.problems import did_you_mean_text
from ...config.reading.renamed_settings import renamed_settings_text
from ...config.reading.tree import NumberSource, TreeNode, find_node, to_dict
from ...config.settings import plain_settings, setting_field, setting_names
from ..accuracy.score import ErrorStatistic, accuracy_verdict
from .bench import unit_of_setting
from .families import FittedFamily, OpCorrections
from .recording_rows import MeasuredRows


class Measured(Protocol):
    """Interface of measured data: its description and its clock."""

    @property
    def where(self) -> str:
        """Provenance of the measured data in one line, such as recording, device and date."""
        ...

    @property
    def clock(self) -> str:
        """Clock of all measurements."""
        ...


@dataclass(frozen=True)
class SettingsBeforeFit:
    """Settings of a part before the fit.

    Parameters
    ----------
    settings : settings in SI, by name
    texts : settings as written in the catalog or by the user, by dotted name
    node : tree node of the part's catalog entry; None if it has no entry
    """

    settings: Mapping[str, Any]
    texts: Mapping[str, Any]
    node: TreeNode | None

    def source_of(self, key: str, text: str) -> NumberSource | None:
        """Source of a setting in the catalog entry; None if the entry has another value."""
        node = find_node(self.node, tuple(key.split("."))) if self.node else None
        return node.source if node and str(node.value) == text else None


def settings_before_fit(
    kind: str, start: str, given: Sequence[str], catalogs: Sequence[Path]
) -> SettingsBeforeFit:
    """Settings of a catalog entry, overridden by those that the user gives.

    Raises
    ------
    ScenarioError
        The entry or a setting is unknown, or a value is not a quantity.
    """
    catalog = installed(map(str, catalogs))
    node = catalog.entry(kind, start) if start else None
    if start and node is None:
        hint = did_you_mean_text(start, catalog.names(kind))
        raise ScenarioError(f"--start: no {kind} named '{start}'{hint}; see: foretrace catalog")
    texts: dict[str, Any] = flatten_settings(to_dict(node)) if node else {}
    for one in given:
        key, equals, text = one.partition("=")
        if not equals:
            raise ScenarioError(f"--know '{one}': has no '='; write it like bandwidth='10 GB/s'")
        texts[key] = int(text) if text.isdigit() else text
    model = entry_model(kind)
    for key in texts:
        if setting_field(model, key) is None:
            renamed = renamed_settings_text(kind, [key])
            hint = renamed or did_you_mean_text(key, list(setting_names(model)))
            raise ScenarioError(f"--know: a {kind} has no '{key}'{hint}")
    try:
        told = model.model_validate(unflatten_settings(texts))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ScenarioError(
            f"--know: {where} of the {kind}: {first['msg']}; write it like bandwidth='10 GB/s'"
        ) from error
    return SettingsBeforeFit(plain_settings(told, only_given=True), texts, node)


def _unit_of(name: str) -> str:
    """Unit of a parameter of op families, or of a setting of any part."""
    if name in UNITS:
        return UNITS[name]
    return next((u for kind in KINDS if (u := unit_of_setting(kind, name))), "")


UNITS = {
    "cache": "B",
    "piece": "s",
    "service": "s",
    "pair": "s",
    "outstanding": "B",
    "read": "B/s",
    "write": "B/s",
    "in_flight": "B",
    "queueing": "s",
    "flop_rate": "flop/s",
    "byte_rate": "B/s",
    "rate_beyond": "B/s",
    "ragged_rate": "/s",
    "clash_rate": "/s",
}


def parameter_text(name: str, value: float) -> str:
    """Parameter value with unit, in the form of a catalog.

    >>> parameter_text("latency", 1.234e-6), parameter_text("bandwidth", 9.87e9)
    ('1.234 us', '9.87 GB/s')
    >>> parameter_text("efficiency", 0.8164)
    '0.8164'
    """
    unit = _unit_of(name)
    if not unit:
        return f"{value:.4g}"
    for scale, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"),
                          (1e-6, "u"), (1e-9, "n")):  # fmt: skip
        if value >= scale:
            return f"{value / scale:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


BARS = {"memory": 0.10}
BAR = 0.15  # of other parts and families


def verdict_text(judged: HeldOutErrors, bar: float) -> str:
    """Verdict on the median error as text: interval, limit and outcome.

    >>> close = HeldOutErrors(np.array([0.08, 0.1, 0.09]), ("a", "b", "c"), 0.02)
    >>> verdict_text(close, 0.15)
    '90 % within 8 % to 10 %, bar 15 % (A/A 2 %): pass'
    >>> verdict_text(HeldOutErrors(np.array([0.1]), ("a",)), 0.15)
    'of a single group, bar 15 %: unresolved'
    """
    outcome, bar = accuracy_verdict(
        ErrorStatistic(judged.median, judged.interval), bar, judged.spread
    )
    within = [three_digits(100 * b) for b in judged.interval or ()]
    sure = f"90 % within {within[0]} % to {within[1]} %, " if within else "of a single group, "
    spread = f" (A/A {three_digits(100 * judged.spread)} %)" if np.isfinite(judged.spread) else ""
    return f"{sure}bar {three_digits(100 * bar)} %{spread}: {outcome}"


def _judged_text(judged: HeldOutErrors, bar: float) -> str:
    """Verdict to append to an error; "" if nothing was held out."""
    return f"; {verdict_text(judged, bar)}" if len(judged.errors) else ""


def _percent_text(errors: PredictionErrors | None) -> str:
    if errors is None:
        return "none"
    return f"{three_digits(100 * errors.median)} % median, {three_digits(100 * errors.mean)} % mean"


def fit_error_text(calibration: Calibration, holdout: str, bar: float = BAR) -> str:
    """Errors of a fit as text, the held-out error first."""
    fit, held, once = calibration.groups
    free = sum(not p.kept for p in calibration.parameters)
    return (
        f"held-out {holdout}: {_percent_text(calibration.held)}"
        f"{_judged_text(calibration.judged, bar)}; "
        f"before the fit {_percent_text(calibration.blind)}; interpolation "
        f"{_percent_text(calibration.interpolated)}; "
        f"nearest neighbour {_percent_text(calibration.nearest)}; {once} groups scored once "
        f"{_percent_text(calibration.final)}{_judged_text(calibration.once, bar)}; "
        f"{free} parameters on {fit} groups, {held} held out"
    )


def catalog_entry_text(
    kind: str,
    name: str,
    before: SettingsBeforeFit,
    calibration: Calibration,
    data: Measured,
    holdout: str,
    date: str,
    bar: float | None = None,
    factor: float = 1.0,
) -> str:
    """Text of a catalog file with the new entry; undetermined parameters keep value and source.

    Parameters
    ----------
    factor : error factor f, if known: 90 % of times lie between prediction / f and prediction x f;
        the stated error is at least large enough to cover this
    """
    command = "network" if kind == "library" and data.clock == "nccl-tests" else kind
    values: dict[str, str] = {}
    by = {p.name: p for p in calibration.parameters}
    keys = list(dict.fromkeys([*before.texts, *by]))
    for key in keys:
        p = by.get(key)
        if p is None or p.kept:
            values[key] = entry_value(*kept_value(key, before, data.where, p.before if p else None))
            continue
        low, high = p.interval or (p.value, p.value)
        where = (
            f"{data.where}; 90 % within {parameter_text(key, low)} to {parameter_text(key, high)}"
        )
        least_error = (factor - 1) / WIDER
        held = max(calibration.held.median, least_error) if calibration.held else 0.0
        error = f"{three_digits(100 * held)} %" if calibration.held else ""
        note = fit_error_text(calibration, holdout, median_error_bar(kind, bar))
        if factor > 1:
            note = f"90 % of times within a factor of {factor:.3g}; {note}"
        source = NumberSource("fitted", where, date, error, note)
        values[key] = entry_value(parameter_text(key, p.value), source)
    head = [f"# Fitted by foretrace fit {command} --holdout {holdout}.", f"{kind}:", f"  {name}:"]
    return "\n".join([*head, *entry_lines(values)]) + "\n"


def kept_value(
    key: str, before: SettingsBeforeFit, rows: str, start: float | None
) -> tuple[str, NumberSource]:
    """Value and source, as text for the new entry, of a setting that a fit leaves unchanged.

    Parameters
    ----------
    rows : one-line description of the recorded data
    start : value before the fit, for a parameter that the data cannot determine; None otherwise
    """
    text = str(before.texts.get(key, "" if start is None else parameter_text(key, start)))
    source = before.source_of(key, text)
    why = "" if start is None else f"not fitted: {rows} cannot determine it; "
    where = f"{why}{source.where if source else 'given to the fit'}"
    return text, replace(source, where=where) if source else NumberSource("assumed", where)


def entry_lines(values: Mapping[str, str]) -> list[str]:
    """Lines of a catalog entry from values by dotted name, grouped.

    >>> entry_lines({"ll.launch": "5 us", "choice": "nccl", "ll.step": "1 us"})
    ['    ll:', '      launch: 5 us', '      step: 1 us', '    choice: nccl']
    """
    return list(_lines(unflatten_settings(values), 4))


def _lines(values: Mapping[str, Any], indent: int) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield f"{' ' * indent}{key}:"
            yield from _lines(value, indent + 2)
        else:
            yield f"{' ' * indent}{key}: {value}"


def entry_value(value: str, source: NumberSource) -> str:
    """Value in a catalog file, with its source.

    >>> entry_value("8", NumberSource("assumed", "a guess"))
    '{value: 8, source: {kind: assumed, where: "a guess"}}'
    """
    told = ", ".join(f"{k}: {_yaml_text(k, v)}" for k, v in source.facts().items())
    shown = f'"{value}"' if set(value) & set(",:{}[]#") else value
    return f"{{value: {shown}, source: {{{told}}}}}"


def _yaml_text(key: str, text: str) -> str:
    """Text for YAML, in quotes if it is free text."""
    return '"' + text.replace('"', "'") + '"' if key in ("where", "note") else text


def _parameter_facts(p: FittedParameter) -> dict[str, Any]:
    if p.kept:
        before = parameter_text(p.name, p.before) if p.before else "none"
        text = f"{p.name}: stays {before}; the data cannot determine it"
    else:
        low, high = p.interval or (p.value, p.value)
        value, least, most = (parameter_text(p.name, x) for x in (p.value, low, high))
        text = f"{p.name}: {value} ({least} to {most})"
    return {
        "name": p.name,
        "before": p.before,
        "value": p.value,
        "interval": p.interval,
        "text": text,
    }


def median_error_bar(name: str, stated: float | None) -> float:
    """Limit of the median error: as stated, else the default of the kind of part."""
    return BARS.get(name, BAR) if stated is None else stated


def _fit_facts(
    name: str, calibration: Calibration, bar: float, corrections: OpCorrections | None = None
) -> dict[str, Any]:
    both = {
        k: getattr(calibration, k) for k in ("blind", "held", "interpolated", "nearest", "final")
    }
    return {
        "name": name,
        "groups": calibration.groups,
        "parameters": [_parameter_facts(p) for p in calibration.parameters]
        + _op_corrections_to_dict(corrections or OpCorrections()),
        **{k: str(v) if v is not None else "no group" for k, v in both.items()},
        "verdicts": {
            k: verdict_text(judged, bar)
            for k, judged in (("held", calibration.judged), ("final", calibration.once))
            if len(judged.errors)
        },
    }


def _op_corrections_to_dict(corrections: OpCorrections) -> list[dict[str, Any]]:
    """Factors and start-up times of single ops, as a list of plain parameters."""
    factors = [
        {"name": n, "value": f, "text": f"{n}: x {f:.3g}"} for n, f in corrections.factors.items()
    ]
    starts = corrections.launches.items()
    return factors + [
        {"name": n, "value": s, "text": f"{n}: starts in {parameter_text('launch', s)}"}
        for n, s in starts
    ]


def fit_to_dict(
    kind: str, calibration: Calibration, data: Measured, holdout: str, bar: float | None = None
) -> dict[str, Any]:
    """Fit of a part as plain data, for ``--json``."""
    return {"where": data.where, "clock": data.clock, "holdout": holdout,
            "fits": [_fit_facts("parameters", calibration, median_error_bar(kind, bar))],
            "left": [], "together": []}  # fmt: skip


def families_to_dict(
    parts: Mapping[str, FittedFamily | str],
    data: MeasuredRows,
    holdout: str,
    bar: float | None = None,
) -> dict[str, Any]:
    """Fits of all op families as plain data."""
    known = {n: c for n, c in parts.items() if isinstance(c, FittedFamily)}
    fits = [_fit_facts(n, c.calibration, median_error_bar(n, bar), c.own) for n, c in known.items()]
    left = [f"{n}: {c}" for n, c in parts.items() if isinstance(c, str)]
    every = [_overall_line("held out", [c.calibration.judged for c in known.values()], bar)]
    every += [_overall_line("scored once", [c.calibration.once for c in known.values()], bar)]
    return {"where": data.where, "clock": data.clock, "holdout": holdout, "fits": fits,
            "left": left, "together": [e for e in every if e]}  # fmt: skip


def _overall_line(what: str, parts: Sequence[HeldOutErrors], bar: float | None) -> str:
    """Line with the errors of all families together; "" for none."""
    every = HeldOutErrors.pooled(parts)
    if not len(every.errors):
        return ""
    size = np.abs(every.errors)
    return (
        f"all families together, {what}: median {every.median:.1%}, mean {size.mean():.1%} on "
        f"{len(size)} rows; {verdict_text(every, median_error_bar('', bar))}"
    )


def families_file(
    parts: Mapping[str, FittedFamily | str],
    data: MeasuredRows,
    holdout: str,
    date: str,
    bar: float | None = None,
    caches: Caches | None = None,
) -> dict[str, Any]:
    """Content of the file that the backend ``families`` reads."""
    return {
        "form": FORM,
        "source": f"{data.where}; foretrace fit ops --holdout {holdout}, {date}",
        "clock": data.clock,
        "families": {
            name: {k: v or None for k, v in found.calibration.values.items()}
            | {"factors": dict(found.own.factors), "launches": dict(found.own.launches)}
            | {"error": fit_error_text(found.calibration, holdout, median_error_bar(name, bar))}
            | {"wrong": found.calibration.held.median}
            for name, found in parts.items()
            if isinstance(found, FittedFamily)
        },
        "caches": asdict(caches) if caches else None,
        "not_fitted": {n: c for n, c in parts.items() if isinstance(c, str)},
    }
