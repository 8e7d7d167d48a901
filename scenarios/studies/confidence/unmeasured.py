"""Unmeasured values of a scenario, and the typical error of such values.

A datasheet rate is not reached unless a measured efficiency stands next to it. A value that the
user writes without a source describes the machine in question, and has no error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ....models.compute.chain import Chain
from ....models.compute.kernels import load_families
from ....models.compute.roofline import ROOFLINE, Roofline
from ....models.value_doubts import (
    ASSUMED_RATE,
    DATASHEET_RATE,
    END,
    UNMEASURED_TIME,
    FactorRange,
    range_from_median_error,
)
from ....sim.facts.backend import Backend
from ....sim.facts.doubt import Doubt
from ....sim.rerun.sensitivity import ScaledBackend
from ...config.scenario import Origin, Scenario

RATES, TIMES = "unmeasured rates", "unmeasured times"
TRUSTED, UNSURE = ("measured", "fitted"), ("datasheet", "assumed")
TIME = re.compile(
    r"(latency|overhead|launch|step|dispatch)(_|$)|(simple|ll|ll128)\.(launch|step)$|cores\.dispatch$"
)
"""Names of settings that add a time to each op; for a library, only times inside a machine."""
PART = re.compile(r"(cluster\.(?:node|kinds\.[^.]+|fabric)\.(?:links\.\d+|[^.]+))\.(.+)")
CORE_USE = "cores.share"  # setting of a library that has its own source of error
OTHERS = "other"  # kernel families for a GPU without fitted kernels
Settings = Mapping[str, Origin]


def time_bounds_of_unmeasured(
    scenarios: Iterable[Scenario], known: Iterable[str] = ()
) -> dict[str, dict[str, FactorRange]]:
    """Range of the times of each kind of component, for unmeasured rates and latencies.

    The rates of all kinds are varied together, and so are the latencies.

    Parameters
    ----------
    known : kinds of part with a stated error, which are left out
    """
    found: dict[str, dict[str, FactorRange]] = {}
    for scenario in scenarios:
        parts = _settings_by_part_path(scenario)
        for path in parts:
            kind = _component_kind_of_part(path)
            if kind not in known:
                for values, ends in _time_bounds(parts, path).items():
                    _widen_bounds(found.setdefault(values, {}), kind, ends)
    return found


def time_bounds_of_part(scenario: Scenario, path: str) -> dict[str, FactorRange]:
    """Range of a part's times from its unmeasured rates and latencies; empty for a GPU.

    Parameters
    ----------
    path : path of the part, such as ``cluster.node.nic``
    """
    return _time_bounds(_settings_by_part_path(scenario), path)


def _time_bounds(parts: Mapping[str, Settings], path: str) -> dict[str, FactorRange]:
    kind = _component_kind_of_part(path)
    if kind == "gpu" or path not in parts:
        return {}
    rate = _unmeasured_rate_bounds(kind, parts[path], parts.get("cluster.fabric.library", {}))
    found = {} if rate is None else {RATES: rate}
    if any(_is_unmeasured_time(name, origin) for name, origin in parts[path].items()):
        found[TIMES] = UNMEASURED_TIME
    return found


def core_use_bounds(scenarios: Iterable[Scenario]) -> FactorRange | None:
    """Range of the compute time that collectives take; None if it is the user's value or absent.

    A fitted share has its stated error, an assumed one that of assumed times.
    """
    found: FactorRange | None = None
    for scenario in scenarios:
        origin = scenario.origins.get(f"cluster.fabric.library.{CORE_USE}")
        if origin is None or origin.source is None:
            continue
        error = origin.source.error_fraction
        ends = UNMEASURED_TIME if error is None else range_from_median_error(error)
        if found is None or ends.slow > found.slow:
            found = ends
    return found


def has_unmeasured_gpu(scenarios: Iterable[Scenario]) -> bool:
    """True if a GPU has datasheet peaks without a measured efficiency."""
    return any(
        "efficiency" not in settings or settings["efficiency"].source is None
        or settings["efficiency"].source.kind not in TRUSTED
        for scenario in scenarios
        for path, settings in _settings_by_part_path(scenario).items()
        if _component_kind_of_part(path) == "gpu" and any(
            o.source is not None and o.source.kind in UNSURE
            for name, o in settings.items() if name.startswith("peaks.")
        )
    )  # fmt: skip


def is_unfitted_roofline(backend: Backend | None) -> bool:
    """True if a backend predicts kernels by a roofline without fitted families."""
    if isinstance(backend, ScaledBackend):
        return is_unfitted_roofline(backend.inner)
    if isinstance(backend, Chain):
        return any(map(is_unfitted_roofline, backend.links))
    return isinstance(backend, Roofline) and not backend.families


def unfitted_roofline_bounds() -> tuple[float, float]:
    """Factors that bound 90 % of an unfitted roofline's times, from other GPUs."""
    doubt = Doubt(ROOFLINE, "", tuple(load_families(OTHERS)[ROOFLINE].evidence.quantiles[""]))
    return doubt.factor(1 - END), doubt.factor(END)


def _settings_by_part_path(scenario: Scenario) -> dict[str, dict[str, Origin]]:
    """Settings of each part of the cluster, by path of the part."""
    found: dict[str, dict[str, Origin]] = {}
    for path, origin in scenario.origins.items():
        part = PART.match(path)
        if part is not None:
            found.setdefault(part[1], {})[part[2]] = origin
    return found


def _component_kind_of_part(path: str) -> str:
    """Kind of component of a part.

    >>> parts = ("cluster.node.links.0", "cluster.kinds.store.nic", "cluster.node")
    >>> tuple(map(_component_kind_of_part, parts))
    ('link', 'nic', '')
    >>> _component_kind_of_part("cluster.fabric.library")
    'fabric'
    """
    parts = path.split(".")
    own = parts[3 if parts[1] == "kinds" else 2 :]
    return {"links": "link", "library": "fabric"}.get(own[0], own[0]) if own else ""


def _unmeasured_rate_bounds(kind: str, settings: Settings, library: Settings) -> FactorRange | None:
    """Range of the time factor of a part's bandwidth; None if measured or given by the user."""
    source = settings["bandwidth"].source if "bandwidth" in settings else None
    if source is None or source.kind not in UNSURE:
        return None
    own = settings.get("efficiency")
    if own is not None and own.text not in ("1", "1.0"):
        share: Origin | None = own
    else:  # the library has the efficiency
        across = kind in ("nic", "switch")
        share = library.get("simple.network.efficiency" if across else "simple.efficiency")
    if share is None or share.source is None:
        return DATASHEET_RATE if source.kind == "datasheet" else ASSUMED_RATE
    return None if share.source.kind in TRUSTED else ASSUMED_RATE


def _is_unmeasured_time(name: str, origin: Origin) -> bool:
    timed = TIME.match(name) is not None and not origin.text.startswith("0 ")
    return timed and origin.source is not None and origin.source.kind in UNSURE


def _widen_bounds(bounds: dict[str, FactorRange], kind: str, ends: FactorRange) -> None:
    own = bounds.get(kind, ends)
    bounds[kind] = FactorRange(min(own.quick, ends.quick), max(own.slow, ends.slow))
