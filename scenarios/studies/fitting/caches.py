"""Fit of cache costs to recordings: pointer chases and reads by size, and ops with cold caches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....hil.bundled_recordings import recording_path
from ....hil.measuring.spread import samples_by_key, start_medians
from ....hil.recording import read
from ....hil.sample import COLD, WARM
from ....models.compute.caches import Caches
from ....models.compute.demand import demand, family
from ....sim.errors import ScenarioError
from ....sim.facts.signature import parse_signature

NANOSECOND = 1e-9
SMALL = 4e6  # B, largest operands for which a cold start is measurable
FEW = 3  # fewest ops of a family


def fit_cache_model(files: Sequence[str]) -> Caches:
    """Fit a cache model to recordings of ``host:chase`` and ``host:read`` by size, and cold ops.

    Parameters
    ----------
    files : paths, or ``foretrace:NAME``

    Raises
    ------
    ScenarioError
        One of the three kinds of recording is missing.
    """
    seen: dict[tuple[str, str], float] = {}
    for file in files:
        for key, group in samples_by_key(read(recording_path(file)).samples).items():
            seen[key] = float(np.median(start_medians(group))) * NANOSECOND
    latency, reads = _warm_ops_by_size(seen, "host:chase"), _warm_ops_by_size(seen, "host:read")
    cold = [text for text, context in seen if context == COLD and (text, WARM) in seen]
    if len(latency) < 2 or len(reads) < 2 or not cold:
        raise ScenarioError(
            f"--caches: {len(latency)} sizes of host:chase, {len(reads)} of host:read, {len(cold)} "
            "ops both warm and cold; give recordings that have all three"
        )
    each = [s / size for size, s in reads]
    excess = each[-1] - min(each)
    found: dict[str, list[float]] = {}
    for text in cold:
        asked = demand(text).footprint
        if asked <= SMALL:
            more = seen[text, COLD] - seen[text, WARM] - asked * excess
            found.setdefault(family(text), []).append(max(more, 0.0))
    other = float(np.median([s for several in found.values() for s in several]))
    begin = {n: float(np.median(s)) for n, s in found.items() if len(s) >= FEW}
    return Caches(latency, begin, other, 1.0 / excess)


def _warm_ops_by_size(seen: dict[tuple[str, str], float], name: str) -> list[tuple[float, float]]:
    """(bytes, seconds) of the warm ops with a name, sorted by bytes."""
    found = []
    for (text, context), seconds in seen.items():
        if context == WARM and text.startswith(f"{name} "):
            found.append((float(parse_signature(text).operands[0].bytes), seconds))
    return sorted(found)
