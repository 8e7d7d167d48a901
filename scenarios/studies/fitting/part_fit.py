"""Fit of a part: its parameters, and the op times that they predict on the bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....models.calibration.calibrate import DRAWS, Calibration, calibrate
from ....models.calibration.held_out_rows import CalibrationRows
from ....models.calibration.identifiability import Model, Parameter
from ....sim.errors import ScenarioError
from ....sim.facts.backend import uncontended_seconds
from ....sim.facts.ops import Ops
from ....sim.setting_groups import (
    construct_with_groups,
    flatten_settings,
    merge_settings,
    unflatten_settings,
)
from ...config.part_specs import Part, part_backends, required_settings, settings_taken
from ...config.reading.renamed_settings import renamed_settings_text
from ...config.settings import backend_settings_model
from .bench import Bench, RecordedOp

Floats = NDArray[np.float64]
RATE = "bandwidth"
SLOW, FAST = 1e6, 1e15  # B/s: bandwidths at which the part is, and is not, the bottleneck
FEW = 12  # refits if each prediction calls a backend

PARAMETERS: dict[str, dict[str, float]] = {
    "memory": {"latency": 1e-7, RATE: 1e10},
    "cxl": {"latency": 3e-7, RATE: 1e10},
    "link": {"latency": 1e-6, RATE: 1e10},
    "switch": {"latency": 1e-6, RATE: 1e10},
    "nic": {"overhead": 1e-6, "latency": 1e-6, RATE: 1e10},
    "gpu": {"efficiency": 0.8, "memory_efficiency": 0.8, "launch": 2e-6},
    "library": {"simple.launch": 1e-5, "simple.step": 1e-6, "simple.efficiency": 0.8},
}
"""Default parameters of a fit by kind of part, with the start value of an unknown parameter."""
CLAIMED = 2e-6  # start value of a setting that a plug-in's backend requires
LINEAR = ("memory", "cxl", "link", "switch", "nic")


def parameters_of(kind: str, settings: Mapping[str, Any]) -> dict[str, float]:
    """Default parameters to fit for a part, with their start values.

    >>> list(parameters_of("switch", {}))
    ['latency', 'bandwidth']
    """
    part, own = Part(kind, settings=settings), part_backends(kind)[0].registered_name
    if part.backend() == own:
        return PARAMETERS[kind]
    return dict.fromkeys(required_settings(part.backend()), CLAIMED)


def part_model(
    bench: Bench, ops: Sequence[RecordedOp], settings: Mapping[str, Any], names: Sequence[str]
) -> Model:
    """Function that predicts op times in s from the parameters of a part; other settings are fixed.

    Parameters
    ----------
    ops : distinct ops; the model predicts rows of these ops only
    settings : settings in SI, including the parameters
    """
    if bench.kind in LINEAR:
        return _path_model(bench, ops, settings, names)
    return _backend_model(bench, ops, settings)


def _path_model(
    bench: Bench, ops: Sequence[RecordedOp], settings: Mapping[str, Any], names: Sequence[str]
) -> Model:
    """Function that predicts op times for a part on a route: fixed times per message, bytes / rate.

    How often an op pays each fixed time, and how many bytes cross the part, is computed once by the
    bench.

    Raises
    ------
    ScenarioError
        An op does not cross the part.
    """
    times = [n for n in names if n != RATE]
    still = {**settings, **dict.fromkeys(times, 0.0)}

    def asked(**changed: float) -> Floats:
        return bench.seconds(ops, {**still, **changed})

    slow, half = asked(bandwidth=SLOW), asked(bandwidth=2 * SLOW)
    passing = (slow - half) * 2 * SLOW
    for one, moved in zip(ops, passing.tolist(), strict=True):
        if not moved > 0:
            raise ScenarioError(
                f"fit {bench.kind}: '{one.text}' does not cross a {bench.kind}; exclude it with "
                "--only"
            )
    start = slow - passing / SLOW
    beside = asked(bandwidth=FAST) - start
    counts = {n: (asked(bandwidth=SLOW, **{n: 1.0}) - slow) for n in times}
    number = {one.text: i for i, one in enumerate(ops)}

    def seconds(p: dict[str, float], rows: Ops) -> Floats:
        at = np.array([number.get(t, -1) for t in rows.signatures])[rows.signature]
        fixed = start[at] + sum((p[n] * counts[n][at] for n in times), np.zeros(len(at)))
        rate = p.get(RATE, settings[RATE])
        return np.asarray(fixed + np.maximum(passing[at] / rate, beside[at]))

    return seconds


def _backend_model(bench: Bench, ops: Sequence[RecordedOp], settings: Mapping[str, Any]) -> Model:
    """Function that predicts op times in s from parameters; each call asks the part's backend."""
    system, backends = bench.built(settings)
    placed = bench.placed_ops(ops, settings).at
    assert placed is not None  # noqa: S101  it was placed
    first = backends[system.components[int(placed.component[0])].name]
    taken = settings_taken(backend_settings_model(first.registered_name), settings)

    def seconds(p: dict[str, float], rows: Ops) -> Floats:
        answerer = construct_with_groups(type(first), merge_settings(taken, unflatten_settings(p)))
        answerer.open(system)
        return uncontended_seconds(answerer.timing(rows), rows)

    return seconds


@dataclass(frozen=True)
class PartToFit:
    """A part whose parameters are to be fitted.

    Parameters
    ----------
    settings : settings in SI; parameters have their start values
    names : names of the parameters to fit
    """

    settings: Mapping[str, Any]
    names: tuple[str, ...]


def part_to_fit(kind: str, settings: Mapping[str, Any], names: Sequence[str] = ()) -> PartToFit:
    """Prepare a part for a fit: choose the parameters to fit and their start values.

    Parameters
    ----------
    settings : settings known before the fit, in SI
    names : parameters to fit; the default ones if empty

    Raises
    ------
    ScenarioError
        A parameter is unknown, or has no value to start from.

    Examples
    --------
    >>> known = {"bandwidth": 1e12, "peaks": {"fp16": 1e14}}
    >>> part_to_fit("gpu", known, ["launch"]).settings["launch"]
    2e-06
    """
    usual = parameters_of(kind, settings)
    chosen = tuple(names) or tuple(usual)
    numbers = {n: v for n, v in flatten_settings(settings).items() if isinstance(v, float)}
    strange = sorted(set(chosen) - set(usual) - set(numbers))
    if strange:
        raise ScenarioError(
            f"fit: {kind} has no parameter {', '.join(strange)}"
            f"{renamed_settings_text(kind, strange)}; write one of {', '.join(usual)}"
        )
    missing = sorted(set(usual) - set(numbers))
    if missing and kind in LINEAR:
        raise ScenarioError(
            f"fit: {', '.join(missing)} of the {kind} is unknown; give a catalog entry with "
            "--start, or the value with --know NAME=VALUE"
        )
    start = {n: numbers.get(n) or usual[n] for n in chosen}
    return PartToFit(merge_settings(settings, unflatten_settings(start)), chosen)


def fit_part(
    bench: Bench, part: PartToFit, ops: Sequence[RecordedOp], rows: CalibrationRows
) -> tuple[Calibration, Model]:
    """Fit the parameters of a part to measured rows; also returns the fitted model.

    Parameters
    ----------
    ops : distinct ops of the rows
    rows : rows with the ops table of the bench
    """
    model = part_model(bench, ops, part.settings, part.names)
    known = flatten_settings(part.settings)
    parameters = [Parameter(n, known[n]) for n in part.names]
    draws = DRAWS if bench.kind in LINEAR else FEW
    return calibrate(model, parameters, rows, draws=draws), model
