"""Values of a scenario that nobody measured, and how wrong such values are.

A datasheet's rate is not what is reached, unless a share that was measured stands beside it; a
latency that is assumed is one of another part.  What a user writes without a source is the machine
that is asked about, and has no doubt.
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
"""Names of settings that are times of every op; for a library, those within a machine."""
PART = re.compile(r"(cluster\.(?:node|kinds\.[^.]+|fabric)\.(?:links\.\d+|[^.]+))\.(.+)")
CORE_USE = "cores.share"  # setting of a library that has its own source of error
OTHERS = "other"  # kernel families for a GPU without fitted kernels
Settings = Mapping[str, Origin]


def time_bounds_of_unmeasured(
    scenarios: Iterable[Scenario], known: Iterable[str] = ()
) -> dict[str, dict[str, FactorRange]]:
    """Ends of the times of each kind of component: for its unmeasured rates, and for its latencies.

    The values of one of the two are wrong together.

    Parameters
    ----------
    known : kinds of part of which a value says its error, which holds the others
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
    """Ends of the times that a part's unmeasured rates make, and its latencies; of a GPU none.

    Parameters
    ----------
    path : of the part: ``cluster.node.nic``
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
    """Ends of what collectives take of GPUs; None where nobody says, or the user does.

    Of a share that was fitted as its error says, of one that is assumed as of assumed times.
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
    """Whether a GPU has peaks of a datasheet, and nobody measured what share of them is reached."""
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
    """Whether a backend predicts kernels by a roofline that was fitted to nothing."""
    if isinstance(backend, ScaledBackend):
        return is_unfitted_roofline(backend.inner)
    if isinstance(backend, Chain):
        return any(map(is_unfitted_roofline, backend.links))
    return isinstance(backend, Roofline) and not backend.families


def unfitted_roofline_bounds() -> tuple[float, float]:
    """Factors on a blind roofline's times that hold 90 %, as rooflines of other GPUs err."""
    doubt = Doubt(ROOFLINE, "", tuple(load_families(OTHERS)[ROOFLINE].evidence.quantiles[""]))
    return doubt.factor(1 - END), doubt.factor(END)


def _settings_by_part_path(scenario: Scenario) -> dict[str, dict[str, Origin]]:
    """Settings of each part of the cluster, by its path."""
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
    """Ends of the time that a part's bandwidth makes; None where it is known or the user's."""
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
