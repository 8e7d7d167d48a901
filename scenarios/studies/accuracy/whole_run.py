"""Deciding metric of the complete run: without devices, with all or one, and of the real job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Any

import numpy as np

from ...config.sections.hil import HilSection
from ..variants.samples import headline_value
from ..variants.variant import Variant
from .coupled_study import devices_driving_points, point_with_devices
from .error_shares import error_shares
from .replay import ReplayedDevice, with_process_starts
from .score import central_quantiles

REDRAWS = 20  # runs with resampled process starts, for the interval of the whole run


def whole_run_answers(
    point: Variant, replays: Sequence[ReplayedDevice], hil: HilSection
) -> dict[str, Any]:
    """Deciding metric without devices, with all, with each alone, and of the real job."""
    devices = {one.name: one for one in replays}

    def answer(real: frozenset[str], among: Mapping[str, ReplayedDevice] = devices) -> float:
        chosen = [one.device for name, one in among.items() if name in real]
        return _deciding_number(
            point_with_devices(point, chosen, prefetch=True) if chosen else point
        )

    every = frozenset(devices)
    predicted, measured = answer(frozenset()), answer(every)
    random = np.random.default_rng(0)
    redraw = lambda starts: random.choice(starts, len(starts)).tolist()  # noqa: E731
    redraws = (_with_starts(devices, redraw) for _ in range(REDRAWS))
    redrawn = [answer(every, drawn) for drawn in redraws if drawn]
    parts, left = error_shares(list(devices), answer)
    both = (_with_starts(devices, itemgetter(slice(k, None, 2))) for k in (0, 1))
    halves = [answer(every, half) for half in both if half]
    return {
        "predicted": predicted,
        "measured": measured,
        "error": predicted / measured - 1,
        "interval": central_quantiles([abs(predicted / t - 1) for t in redrawn]),
        "signed": central_quantiles([predicted / t - 1 for t in redrawn]),
        "spread": max(halves) / min(halves) - 1 if halves else float("nan"),
        "shares": [asdict(s) for s in parts],
        "interaction": left,
        "real": _errors_against_real_job(hil, predicted, measured),
        "coupled": _coupled_answer(point, hil, predicted, measured),
    }


def _coupled_answer(
    point: Variant, hil: HilSection, predicted: float, measured: float
) -> dict[str, Any] | None:
    """Deciding metric when devices drive simulated time; None unless ``mode: coupled``."""
    if hil.mode != "coupled":
        return None
    with devices_driving_points(point.scenario) as drive:
        driven_point = drive(point)
        value = _deciding_number(driven_point)
    adapters = driven_point.coupled.coupling.adapters if driven_point.coupled else ()
    return {
        "value": value,
        "error": predicted / value - 1,
        "sharing": measured / value - 1,
        "sets": [p.name for p in adapters if p.swap.sharing == "concurrent"],
    }


def _deciding_number(point: Variant) -> float:
    """Value of the deciding metric in its unit."""
    return headline_value(point, point.run())


def _with_starts(
    devices: Mapping[str, ReplayedDevice], chosen: Callable[[list[int]], Sequence[int]]
) -> dict[str, ReplayedDevice]:
    """Devices with the chosen process starts only; {} if a recording has a single start."""
    starts = {n: sorted({s.start for s in one.recording.samples}) for n, one in devices.items()}
    if any(len(s) < 2 for s in starts.values()):
        return {}
    return {n: with_process_starts(one, chosen(starts[n])) for n, one in devices.items()}


def _errors_against_real_job(
    hil: HilSection, predicted: float, measured: float
) -> dict[str, Any] | None:
    """Errors against the real job: of the run with all devices (composition), and of the model."""
    real = hil.real
    if real is None:
        return None
    ends = [t for t in (real.low, real.high) if t is not None]
    return {
        "value": real.value,
        "spread": max(ends) / min(ends) - 1 if len(ends) == 2 else None,
        "source": real.source,
        "composition": measured / real.value - 1,
        "composition_interval": sorted(measured / t - 1 for t in ends) or None,
        "all": predicted / real.value - 1,
    }
